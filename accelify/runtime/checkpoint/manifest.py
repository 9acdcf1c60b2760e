"""The folder of a checkpoint, complete or absent whatever happens while it is written. Works without torch.

A folder is written beside its place under another name, every file synchronised and its sha256 taken; then a manifest
that lists them; then one rename makes it real. What has no manifest that checks out was never there.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import re
import secrets
import shutil
import threading
import time
import warnings
from collections.abc import Container, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any  # what a manifest records of its checkpoint

from accelify.atomic import sync_folder
from accelify.errors import AccelifyError
from accelify.runtime.checkpoint.files import Entry, FolderWriter, hash_of, open_regular

MANIFEST, NAMED = "manifest.json", "checkpoint_"
FORMAT = 2
# Units: checkpoints of one project, in all
LAST_SERIAL = 1 << 53
STAGING, PREVIOUS, TRASH = ".staging-", ".previous-", ".trash-"
# How many files of a folder are held open while it is removed.
HELD = 100
# Units: bytes; room for the names of some 50,000 files. A longer manifest is none of ours
LONGEST = 8 << 20


class Damaged(AccelifyError):
    """A folder that is no checkpoint, or not as it was written."""


@dataclass(frozen=True)
class Manifest:
    """The contents of a committed folder. `serial` counts the checkpoints of a project, the newest has the greatest."""

    folder: Path
    serial: int
    files: dict[str, Entry]
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A hash of everything in it."""
        return _digest(_table(self))


class Occupied(AccelifyError):
    """A place where no checkpoint can be put."""


def place_of(folder: str | os.PathLike[str]) -> Path:
    """Where the folder is; of a link, where it leads: that stays one."""
    path = Path(folder).absolute()
    return path.resolve() if path.is_symlink() or ".." in path.parts else path


def stage(target: Path, *, is_ours: bool) -> Path:
    """An empty folder beside the target to write into; what earlier attempts at it left behind goes.

    is_ours: whether only checkpoints of ours are in the folder around; what was left of others goes, too, then.
    Raises: Occupied for what cannot be replaced.
    """
    if target.exists() and not target.is_dir():
        raise Occupied(f"{target} is a file, and a checkpoint is a folder")
    if target.resolve() in (here := Path.cwd(), *here.parents):
        raise Occupied(f"{target} holds the folder that the script runs in: name one for the checkpoint itself")
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(target.parent, "" if is_ours else target.name)
    staging = target.with_name(f"{STAGING}{target.name}-{secrets.token_hex(4)}")
    staging.mkdir()
    return staging


def sweep(parent: Path, name: str = "") -> None:
    """Remove what unfinished saves and removals left behind; of the checkpoint of this name, if one is given."""
    wanted = re.escape(name) or ".*"
    for left in list(parent.iterdir()):
        unfinished = re.fullmatch(f"({re.escape(STAGING)}|{re.escape(TRASH)}){wanted}-[0-9a-f]{{8}}", left.name)
        replaced = re.fullmatch(f"{re.escape(PREVIOUS)}({wanted})", left.name)
        if unfinished or (replaced and is_checkpoint(parent / replaced[1])):
            shutil.rmtree(left, ignore_errors=True)


def commit(writing: FolderWriter, target: Path, serial: int, entries: Iterable[Entry], about: dict[str, Any]) -> bool:
    """Make the staged folder the target, at once. What stood there stays until the new one does.

    Whether it would outlast a crash of the machine; if not, it is there all the same, and a warning says so.
    """
    staging = writing.folder
    files = {entry.name: entry for entry in entries}
    for name in _names(staging):
        if name not in files:
            files[name] = writing.adopt(name)
    for entry in files.values():
        path = staging / entry.name
        if not path.is_file() or path.stat().st_size != entry.size:
            raise Damaged(f"{path} is not what its rank wrote: all machines must share this file system")
    table = _table(Manifest(target, serial, files, about))
    content = json.dumps({**table, "sha256": _digest(table)}, indent=1).encode()
    if len(content) > LONGEST:
        raise Damaged(f"{len(files)} files are too many for one checkpoint: keep them in an archive, or elsewhere")
    writing.file(MANIFEST, [content])
    previous = target.with_name(f"{PREVIOUS}{target.name}")
    folders = {staging, *((staging / name).parent for name in files)}
    for old in (target, previous):
        folders |= keep_other_files(old, _own(old), staging)
    for folder in folders:
        writing.sync_folder(folder)
    writing.wait()
    if target.exists():
        # The loader looks under the second name, too, if we end between these two.
        if is_checkpoint(target) or not is_checkpoint(previous):
            shutil.rmtree(previous, ignore_errors=True)
            os.rename(target, previous)  # noqa: PTH104  # the calls that tests make fail are os's
        else:
            shutil.rmtree(target)
    os.rename(staging, target)  # noqa: PTH104
    try:
        sync_folder(target.parent)
    except OSError as error:
        warnings.warn(f"{target} is written, but a crash of the machine may lose it: {error}", stacklevel=2)
        return False
    if previous.exists():
        with suppress(OSError):
            _unlink(previous)
    return True


def remove(folder: Path) -> None:
    """Take a committed folder away; it is no checkpoint any more before its first file goes."""
    trash = folder.with_name(f"{TRASH}{folder.name}-{secrets.token_hex(4)}")
    os.rename(folder, trash)  # noqa: PTH104
    _unlink(trash)


def _unlink(folder: Path) -> None:
    """Take a folder away at once, and give what it held on the disk back while the caller goes on.

    Who holds a file open keeps what is in it, not its name; letting go of a large one takes long.
    """
    held = ExitStack()  # which lets go of the last, the largest file, first: a worker forked now would hold it, too
    if os.name == "posix":
        with suppress(OSError):
            for path in [folder, *_by_size(folder)[-HELD:]]:
                held.callback(os.close, os.open(path, os.O_RDONLY))
    try:
        shutil.rmtree(folder)
    except OSError:  # as on NFS, which keeps what is open in its folder under another name
        held.close()
        shutil.rmtree(folder)
    try:
        threading.Thread(target=held.close).start()
    except RuntimeError:  # there can be no more threads
        held.close()


def _by_size(folder: Path) -> list[Path]:
    files = [path for path in folder.iterdir() if path.is_file() and not path.is_symlink()]
    return sorted(files, key=lambda path: path.stat().st_size)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder. Raises: Damaged if there is none, or if the files do not match it."""
    try:
        table = json.loads(_content_of(folder / MANIFEST))
        if table.get("format") != FORMAT:
            raise Damaged(f"{folder / MANIFEST} has format {table.get('format')!s:.20}, this accelify reads {FORMAT}")
        digest = table.pop("sha256")
        if _digest(table) != digest:
            raise Damaged(f"{folder / MANIFEST} is not as it was written")
        files = {name: Entry(name, int(size), str(sha256)) for name, (size, sha256) in table["files"].items()}
        manifest = Manifest(folder, table["serial"], files, dict(table["about"]))
    except OSError as error:
        raise Damaged(f"{folder} is no checkpoint: {MANIFEST}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(f"{folder / MANIFEST} cannot be read: {error!r:.200}") from None
    if type(manifest.serial) is not int or not -1 <= manifest.serial < LAST_SERIAL:
        raise Damaged(f"{folder / MANIFEST} has the number {manifest.serial!r:.40}, which is none of a checkpoint")
    for name in files:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\0" in name:
            raise Damaged(f"{folder / MANIFEST} names {name!r}, which is outside")
    return manifest


def _content_of(path: Path) -> bytes:
    """A manifest's bytes. Raises: OSError for what is no file, or longer than any manifest."""
    with os.fdopen(open_regular(path), "rb") as file:
        content = file.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise OSError(errno.EFBIG, "longer than any manifest")
    return content


def verify(folder: Path) -> Manifest:
    """The folder's manifest, once every file has been read and is as it was written. Raises: Damaged."""
    manifest = read_manifest(folder)
    for entry in manifest.files.values():
        path = folder / entry.name
        try:
            is_whole = path.stat().st_size == entry.size and hash_of(path) == (entry.size, entry.sha256)
        except OSError as error:
            raise Damaged(f"{path}: {error.strerror}") from None
        if not is_whole:
            raise Damaged(f"{path} is not as it was written")
    return manifest


def is_checkpoint(folder: Path) -> bool:
    """Whether this folder is a checkpoint, by its manifest alone."""
    try:
        read_manifest(folder)
    except Damaged:
        return False
    return True


def committed(parents: Iterable[Path]) -> list[Manifest]:
    """The checkpoints in these folders, the newest first; by their manifests alone."""
    found = []
    for folder in itertools.chain.from_iterable(map(_folders_in, parents)):
        if not folder.name.startswith((STAGING, TRASH)):
            with suppress(Damaged):
                found.append(read_manifest(folder))
    return sorted(found, key=lambda manifest: manifest.serial, reverse=True)


def numbers_in(home: Path | None) -> list[int]:
    """The numbers in the names of a project's checkpoints."""
    names = [] if home is None else [re.fullmatch(rf"{NAMED}(\d{{1,15}})", folder.name) for folder in _folders_in(home)]
    return [int(name[1]) for name in names if name]


def _folders_in(parent: Path) -> Iterator[Path]:
    """The folders in one, as far as they can be looked at."""
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir():
                    yield parent / entry.name


def _own(folder: Path) -> set[str]:
    """The files of a checkpoint; none where there is no checkpoint."""
    try:
        return {MANIFEST, *read_manifest(folder).files}
    except Damaged:
        return set()


def candidates(folder: Path) -> list[Path]:
    """Where the checkpoint of this name may be: in its place, or in that of the one which it was to replace."""
    return [folder, folder.with_name(f"{PREVIOUS}{folder.name}")]


def about_now() -> dict[str, Any]:
    """The fields of every manifest: when it was written."""
    return {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z")}


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _table(manifest: Manifest) -> dict[str, Any]:
    files = {name: [entry.size, entry.sha256] for name, entry in sorted(manifest.files.items())}
    return {"format": FORMAT, "serial": manifest.serial, "about": manifest.about, "files": files}


def _digest(table: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def keep_other_files(old: Path, own: Container[str], new: Path) -> set[Path]:
    """Give the new folder what the old one holds beside its `own` files; the folders that this wrote into.

    The files are in both for a while, under links: whenever we end, nothing is away.
    """
    touched = set()
    for place, folders, files in os.walk(old):
        inside = new / Path(place).relative_to(old)
        links = [name for name in folders if Path(place, name).is_symlink()]
        kept = [name for name in files + links if Path(place, name).relative_to(old).as_posix() not in own]
        missing = [name for name in kept if not os.path.lexists(inside / name)]
        if missing or not (folders or files):
            inside.mkdir(parents=True, exist_ok=True)
            touched.add(inside)
        for name in missing:
            _link(Path(place, name), inside / name)
    return touched


def _link(old: Path, new: Path) -> None:
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError:  # a file system without, or another user's file
        if not (old.is_symlink() or old.is_file()):  # a pipe or a device, whose content may have no end
            raise
        shutil.copy2(old, new, follow_symlinks=False)
