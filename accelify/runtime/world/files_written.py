"""Files that several processes of one machine open for writing: noted while they run, compared as they end.

Noted is what Python may create or replace from the import of the runtime on, and the files of `torch.save`. Not noted
are files that other libraries open in C (h5py, sqlite3, safetensors, OpenCV), and those of other processes, as the
workers of loaders are. Opened is not yet written: a log into which one rank alone writes is noted on all that open it.
"""

# An audit hook is given names, as text or bytes, and is called often, so that pathlib would be in its way.
# ruff: noqa: PTH100, PTH109, PTH111, PTH113, PTH115, PTH118

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any  # audit events and torch's store are untyped

import torch.serialization

from accelify.runtime.world.environment import cache_folders
from accelify.runtime.world.places import is_installed, is_library, is_ours, is_standard

SYSTEM = ("/dev/", "/proc/", "/sys/")
# What one line writes beyond that many files is not noted: a line that shares its files shares the first.
NOTED_OF_A_LINE = 200
SHOWN = 5
PATIENCE = 2.0  # seconds that rank 0 waits for ranks that have not ended


def is_bytecode(path: str) -> bool:
    """Whether a file is a cache of compiled code."""
    return f"{os.sep}__pycache__{os.sep}" in path or path.endswith(".pyc")


def caches_of_home() -> str:
    """How the names of the hidden files in the user's home folder begin."""
    return os.path.expanduser("~/.")


class FilesWritten:
    """What this process has opened for writing, and the line of the script that did."""

    def __init__(self) -> None:
        self._places: dict[str, str] = {}
        self._lines: Counter[str] = Counter()
        self._locked: set[str] = set()
        self._process: int | None = None
        self._folder = ""  # where the script works
        self._left_out: list[tuple[str, str | None]] = []
        self._events: dict[str, Callable[..., None]] = {
            "open": self._open,
            "os.rename": self._rename,
            "fcntl.flock": self._lock,
            "fcntl.lockf": self._lock,
        }

    def start(self) -> None:
        """Note from here on. A forked process notes only what it writes after a start of its own."""
        if self._process == os.getpid():
            return
        is_first = self._process is None
        with suppress(OSError, RuntimeError):  # no folder to work in, or no audit hooks: nothing is noted
            self._folder = os.path.join(os.getcwd(), "")
            self._left_out = list(_left_out(self._folder))
            self._places, self._lines, self._locked = {}, Counter(), set()
            self._process = os.getpid()
            if is_first:
                _note_checkpoints(self.note)
                sys.addaudithook(_hearing(self._events))

    def noted(self) -> dict[str, str]:
        """The line that opened each file first; without those that have been locked, whose writers take turns."""
        real = {os.path.realpath(path): place for path, place in self._places.items()}
        return {path: place for path, place in real.items() if path not in self._locked}

    def note(self, path: Any) -> None:
        """Note a file that is about to be opened, unless it is the system's, a cache, or opened by the runtime."""
        if os.getpid() != self._process:
            return
        absolute = os.path.abspath(os.fsdecode(path))
        if absolute in self._places or self._is_left_out(absolute):
            return
        place = self._place()
        if place is not None and self._lines[place] < NOTED_OF_A_LINE:
            self._lines[place] += 1
            self._places[absolute] = place

    def _open(self, path: Any, _: Any, flags: int) -> None:
        # A file that must be new is opened by one process alone.
        if flags & (os.O_CREAT | os.O_EXCL) == os.O_CREAT and not isinstance(path, int):
            self.note(path)

    def _rename(self, _: Any, target: Any, *folders: int) -> None:
        if all(folder == -1 for folder in folders):  # else the name is one in an open folder
            self.note(target)

    def _lock(self, descriptor: int, *_: Any) -> None:
        self._locked.add(os.readlink(f"/proc/self/fd/{descriptor}"))

    def _is_left_out(self, path: str) -> bool:
        if is_bytecode(path) or is_installed(path):
            return True
        return any(path.startswith(folder) and not (but and path.startswith(but)) for folder, but in self._left_out)

    def _place(self) -> str | None:
        """`train.py:88`, the innermost line of the script, or else of a library; None for the runtime's own files."""
        frame = sys._getframe(2)
        while frame.f_back is not None and _is_between(frame.f_code.co_filename):
            frame = frame.f_back
        opener = frame
        if is_ours(opener.f_code.co_filename):
            return None
        while frame.f_back is not None and is_library(frame.f_code.co_filename):
            frame = frame.f_back
        if is_library(frame.f_code.co_filename):
            frame = opener
        return f"{frame.f_code.co_filename.removeprefix(self._folder)}:{frame.f_lineno}"


def _hearing(listeners: Mapping[str, Callable[..., None]]) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that never raises. Python calls it for each `id(x)`, too: a plain function takes 0.2 microseconds,
    and a method four times as long.
    """

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        listener = listeners.get(event)
        if listener is not None:
            with suppress(Exception):  # whatever is odd about a file, opening it is the script's affair
                listener(*arguments)

    return hear


def _is_between(file: str) -> bool:
    """Whether code stands between an event and whoever opens a file: this module, and Python's own."""
    return file == __file__ or (is_standard(file) and not is_ours(file))


def _left_out(here: str) -> Iterable[tuple[str, str | None]]:
    """How the names of files begin that do not count; and of those among them that do: the script works there."""
    temporary = tempfile.gettempdir()
    folders = [os.path.join(folder, "") for folder in (temporary, os.path.realpath(temporary), *cache_folders())]
    for start in dict.fromkeys([*SYSTEM, caches_of_home(), *folders]):
        yield start, here if here.startswith(start) and here != start else None


def _note_checkpoints(note: Callable[[str], None]) -> None:
    """Have `torch.save` note the files that it opens in C++, which no audit hook hears of."""
    writer: Any = getattr(torch.serialization, "_open_zipfile_writer_file", None)
    if writer is None:
        return
    begin = writer.__init__

    def begin_noted(self: Any, name: str, *rest: Any) -> None:
        with suppress(Exception):  # as for what the hook hears
            note(name)
        begin(self, name, *rest)

    writer.__init__ = begin_noted


FILES = FilesWritten()  # of this process: no audit hook can be removed


def leave_notes(store: Any, rank: int) -> None:
    """Leave what this rank has noted for rank 0."""
    store.set(f"files/{rank}", json.dumps([socket.gethostname(), FILES.noted()]))


def warn_of_shared_files(store: Any, size: int) -> None:
    """Warn of the files that several processes of this machine have opened, as far as they have ended. Rank 0 calls it.

    Where it has noted none itself, it asks nobody.
    """
    mine = FILES.noted()
    if not mine:
        return
    end = time.monotonic() + PATIENCE
    notes = [mine]
    for rank in range(1, size):
        host, noted = _notes_of(store, rank, until=end)
        if host == socket.gethostname():
            notes.append(noted)
    shared = {path: places for path, places in _shared(notes).items() if os.path.isfile(path)}
    if shared:
        logging.getLogger("accelify").warning(describe(shared))


def _notes_of(store: Any, rank: int, *, until: float) -> tuple[str, dict[str, str]]:
    """A rank's machine and notes; none of a rank that has not ended. Units: seconds of the monotonic clock."""
    while not store.check([f"files/{rank}"]):
        if time.monotonic() > until:
            return "", {}
        time.sleep(0.02)
    host, noted = json.loads(store.get(f"files/{rank}"))
    return host, noted


def _shared(notes: Iterable[Mapping[str, str]]) -> dict[str, list[str]]:
    """The files in several processes' notes, and where each of these opened it."""
    places: dict[str, list[str]] = {}
    for noted in notes:
        for path, place in noted.items():
            places.setdefault(path, []).append(place)
    return {path: found for path, found in places.items() if len(found) > 1}


def describe(shared: Mapping[str, list[str]]) -> str:
    """The warning: which files, opened where and by how many processes, and what to do."""
    lines = [
        f"  {path}, opened at {' and '.join(dict.fromkeys(places))} by {len(places)} processes"
        for path, places in list(shared.items())[:SHOWN]
    ]
    more = [f"  and {len(shared) - SHOWN} more"] if len(shared) > SHOWN else []
    return "\n".join(
        [
            "accelify: several processes opened the same file for writing; each may undo or repeat what others wrote:",
            *(lines + more),
            "Guard it with `if accelerator.is_main_process:`, or put the rank in the name",
        ]
    )
