"""Where ranks that still run are: they are asked by a signal, and what they write is read. Works without torch."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from accelify.runtime.world.places import is_library

STACK_SIGNAL = 7  # as in bootstrap.py, which imports nothing of ours
LOOK = 0.05  # seconds
PATIENCE = 5.0  # seconds that ranks get to write their stacks; it takes them milliseconds

_STARTERS = re.compile(r"bootstrap\.py$|^<frozen |[\\/]runpy\.py$")
_COLLECTIVES = re.compile(r"[\\/]torch[\\/]distributed[\\/]|[\\/]accelify[\\/]runtime[\\/](world|gradients)[\\/]")


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of a stack."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}, in {self.function}"


@dataclass(frozen=True, slots=True)
class Stack:
    """Where a rank was, the most recent call first."""

    frames: tuple[Frame, ...]

    @property
    def own(self) -> Frame | None:
        """The most recent call in code that is neither a library's nor ours, or else the most recent."""
        return next((frame for frame in self.frames if not is_library(frame.file)), next(iter(self.frames), None))

    @property
    def waits(self) -> bool:
        """Whether it was in a collective, and so waited for other ranks."""
        own = self.own
        inside = self.frames[: self.frames.index(own)] if own is not None else ()
        return any(_COLLECTIVES.search(frame.file) for frame in inside)

    def innermost(self, file: str | None) -> str:
        """The most recent call in this file, or else of all; empty without a stack."""
        inside = [frame for frame in self.frames if frame.file == file] or self.frames
        return str(inside[0]) if inside else ""


def ask(processes: Iterable[tuple[int, Path]]) -> dict[int, Stack]:
    """The stacks of the processes that can write them to their files in time, by process id."""
    asked = {pid: (file, file.stat().st_size) for pid, file in processes if file.exists() and _answers(pid)}
    for pid in asked:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGRTMIN + STACK_SIGNAL)
    deadline = time.monotonic() + PATIENCE
    before: dict[int, str] = {}
    while True:
        texts = {pid: _written(file, start) for pid, (file, start) in asked.items()}
        missing = [pid for pid, text in texts.items() if not is_complete(text, before.get(pid, "")) and _is_alive(pid)]
        if not missing or time.monotonic() > deadline:
            return {pid: read(text) for pid, text in texts.items() if text}
        before = texts
        time.sleep(LOOK)


def read(text: str) -> Stack:
    """The stack that faulthandler wrote last, without the frames that started the script."""
    last = text.rpartition("Stack (most recent call first):")[2]
    found = re.findall(r'^  File "(.*)", line (\d+) in (.*)$', last, re.MULTILINE)
    return Stack(tuple(Frame(file, int(line), name) for file, line, name in found if not _STARTERS.search(file)))


def is_complete(text: str, before: str = "") -> bool:
    """Whether a stack was written to its end: where `bootstrap.py` is, or as far as faulthandler goes, or where it was
    one look before.
    """
    if text and text == before:
        return True
    return re.search(r'(bootstrap\.py", line \d+ in <module>|^  \.\.\.)\n\Z', text, re.MULTILINE) is not None


def latest(files: Mapping[int, Path]) -> dict[int, Stack]:
    """The latest stacks that the ranks wrote into their files when they were asked."""
    return {rank: read(_written(file, 0)) for rank, file in files.items()}


def _written(file: Path, start: int) -> str:
    try:
        with file.open("rb") as stream:
            stream.seek(start)
            return stream.read().decode(errors="replace")
    except OSError:
        return ""


def _answers(pid: int) -> bool:
    """Whether a process has a handler for the signal, which ends a process without one: a rank may have replaced itself
    by another program since.
    """
    number = signal.SIGRTMIN + STACK_SIGNAL
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return not Path("/proc/self/status").exists()  # a system that does not say
    found = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> (number - 1) & 1)


def _is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return not Path("/proc/self/stat").exists()
    return stat.rpartition(")")[2].split()[0] not in "ZX"
