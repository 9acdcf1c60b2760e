"""Replace a file at once: whoever reads it sees the old bytes or the new ones, whatever happens meanwhile.

The new bytes are written beside the file, under another name in the same folder, and are on the disk before one rename
makes them the file. A symbolic link stays and the file behind it is replaced; mode and owner of the file are kept.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Write = Callable[[IO[bytes]], Any]

# The names that `staged` gives to the new bytes of a file.
_TEMPORARY = re.compile(r"\.(.+)\.[a-z0-9_]{8}\.part")


class OwnerWouldChange(PermissionError):
    """A file that belongs to someone else, to whom this process may not give the new one."""


@dataclass(frozen=True, slots=True)
class Staged:
    """New bytes on the disk, beside the file that they are for."""

    target: Path
    temporary: Path

    def replace(self) -> None:
        """Make them the file."""
        self.temporary.replace(self.target)


def write(path: str | os.PathLike[str], write: Write, *, mode: int | None = None) -> None:
    """Make what `write` puts into the file it is given the content of `path`; a failure leaves what was there before.

    A file that belongs to someone else becomes ours where that cannot be helped. `mode` is that of a file which was
    not there before; without one it is what any new file gets.
    """
    with staged(path, write, mode=mode) as new:
        new.replace()
    sync_folder(new.target.parent)


@contextmanager
def staged(
    path: str | os.PathLike[str], write: Write, *, mode: int | None = None, must_keep_owner: bool = False
) -> Iterator[Staged]:
    """The new content of `path` beside it; the block may make it the file, else it goes at the end.

    Raises: OwnerWouldChange where the owner must be kept and cannot.
    """
    target = Path(os.path.realpath(path))
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    alive = os.dup(descriptor)  # keeps the lock until the end: whoever could take it knows that nobody will
    _lock(alive)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _keep_owner_and_mode(target, descriptor, mode, must_keep_owner=must_keep_owner)
            write(file)
            file.flush()
            os.fsync(descriptor)
        yield Staged(target, Path(name))
    finally:
        with suppress(OSError):  # the usual case: it has become the file
            Path(name).unlink()
        os.close(alive)


def remove_leftovers(folder: Path, names: Collection[str]) -> None:
    """Remove the new bytes of files of these names that a process has left in a folder when it was killed."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as scan:
        for entry in list(scan):
            found = _TEMPORARY.fullmatch(entry.name)
            if found and found[1] in names and entry.is_file(follow_symlinks=False):
                _remove_unless_in_use(entry.path)


def _remove_unless_in_use(path: str) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        try:
            if _lock(descriptor):
                Path(path).unlink()
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Whether the lock of a file was free, and is this process's now; where files have none, it was not."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, AttributeError):
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last, where the system lets a folder be synchronised."""
    if hasattr(os, "O_DIRECTORY"):
        sync_and_close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))


def sync_and_close(descriptor: int) -> None:
    """Make what is behind a descriptor last, and close it."""
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep_owner_and_mode(target: Path, descriptor: int, mode: int | None, *, must_keep_owner: bool) -> None:
    if not hasattr(os, "fchown"):  # Windows
        return
    try:
        old = target.stat()
    except FileNotFoundError:
        os.fchmod(descriptor, _usual_mode() if mode is None else mode)
        return
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError as error:
            if must_keep_owner:
                raise OwnerWouldChange(*error.args) from error
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))  # after the owner: changing that clears the set-user-id bit


def _usual_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
