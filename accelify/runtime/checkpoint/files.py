"""New files of a checkpoint, hashed while they are written and synchronised in threads. Works without torch."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from accelify.atomic import sync_and_close, sync_folder

# Units: bytes
CHUNK = 8 << 20
# Units: bytes; what is hashed sooner than a thread is started
SMALL = 1 << 20
# Units: pieces that may wait to be hashed, and are kept in memory meanwhile
AHEAD = 16


@dataclass(frozen=True)
class Entry:
    """A file of a folder: its name there, its size in bytes and its hash."""

    name: str
    size: int
    sha256: str


class FolderWriter:
    """Files on their way into one folder.

    A hash is taken beside the writing, in a thread: each needs about as long as the other. Files are synchronised in
    other threads, all at the same time, which costs the disk about as much as one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._hashing = ThreadPoolExecutor(max_workers=1)
        self._syncing = ThreadPoolExecutor(max_workers=8)
        self._synced: list[Future[None]] = []

    def __enter__(self) -> FolderWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # All writes that were waited for are done; idle threads end by themselves.
        self._hashing.shutdown(wait=error is not None)
        self._syncing.shutdown(wait=error is not None)

    def file(self, name: str, chunks: Iterable[bytes | memoryview]) -> Entry:
        """A new file of this content, on the disk after the next `wait`."""
        digest, size = hashlib.sha256(), 0
        hashed: deque[Future[None]] = deque()
        descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            for piece in _pieces(chunks):
                if len(piece) <= SMALL and not hashed:
                    digest.update(piece)
                else:
                    hashed.append(self._hashing.submit(digest.update, piece))
                size += len(piece)
                left = piece
                while left:
                    left = left[os.write(descriptor, left) :]
                if len(hashed) > AHEAD:
                    hashed.popleft().result()
        except BaseException:
            os.close(descriptor)
            raise
        self._synced.append(self._syncing.submit(sync_and_close, descriptor))
        for piece_hashed in hashed:
            piece_hashed.result()
        return Entry(name, size, digest.hexdigest())

    def adopt(self, name: str) -> Entry:
        """A file that somebody else wrote there, made to last by the next `wait`."""
        descriptor = open_regular(self.folder / name)
        self._synced.append(self._syncing.submit(sync_and_close, descriptor))
        return Entry(name, *hash_of(self.folder / name))

    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder last, by the next `wait`."""
        self._synced.append(self._syncing.submit(sync_folder, folder))

    def wait(self) -> None:
        """Return once everything is on the disk. Raises: OSError for what could not be put there."""
        while self._synced:
            self._synced.pop().result()


def open_regular(path: Path) -> int:
    """A descriptor to read a file by. Raises: OSError for what may have no end, as devices, or make wait, as pipes."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


def hash_of(path: Path) -> tuple[int, str]:
    """The size and hash of a file's content."""
    digest, size = hashlib.sha256(), 0
    with os.fdopen(open_regular(path), "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def _pieces(chunks: Iterable[bytes | memoryview]) -> Iterator[memoryview]:
    for chunk in chunks:
        view = memoryview(chunk).cast("B")
        for start in range(0, len(view), CHUNK):
            yield view[start : start + CHUNK]
