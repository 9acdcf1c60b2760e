"""Why a launch stopped: which rank failed first, and the report of it. Works without torch."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIRST_REALTIME = 34  # the launcher asks for stacks with a real-time signal; a rank that replaced itself may die of it


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's script."""

    file: str
    line: int
    function: str
    text: str

    def __str__(self) -> str:
        where = f", in {self.function}" if self.function != "<module>" else ""
        return f"{self.file}:{self.line}{where}: {self.text}"


@dataclass(frozen=True, slots=True)
class Failure:
    """One rank that ended badly.

    Units: time in seconds since the epoch, measured by the rank where it could write, else by the launcher;
    exit_code is negative for a signal, as `subprocess` has it, unless the rank had failed before the signal came.
    """

    rank: int
    exit_code: int
    time: float
    host: str
    message: str = ""
    traceback: str = ""
    place: Place | None = None
    shown: bool = False
    interrupted: bool = False

    @property
    def is_collateral(self) -> bool:
        """Whether the launcher itself ended this rank because another had failed."""
        return -self.exit_code == signal.SIGTERM or -self.exit_code >= FIRST_REALTIME or self.interrupted

    @property
    def is_timeout(self) -> bool:
        """Whether this rank gave up waiting, most likely for another one."""
        return re.search(r"time[d -]*out", self.message, re.IGNORECASE) is not None

    @property
    def ending(self) -> str:
        if self.exit_code >= 0:
            return f"exit status {self.exit_code}"
        name = signal.Signals(-self.exit_code).name if -self.exit_code in list(signal.Signals) else "unknown"
        hint = ", which is what a machine out of memory sends" if self.exit_code == -signal.SIGKILL else ""
        return f"killed by signal {-self.exit_code} ({name}){hint}"

    @property
    def status(self) -> int:
        """The launcher's exit status: the rank's own, or 128 plus its signal as shells count."""
        return self.exit_code if self.exit_code > 0 else 128 - self.exit_code


def read_failure(rank: int, exit_code: int, error_file: str, noticed: float, host: str) -> Failure:
    """A failure from what the rank wrote before it ended; `noticed` is when the launcher saw it end.

    One that was ended by a signal after it had failed, on its way out, counts with the status it had coming.
    A rank that could write nothing (killed, segmentation fault, `os._exit`) ended up to one look of the agent
    earlier than noticed, and the agent counts whole seconds, hence the second taken off.
    """
    try:
        data: dict[str, Any] = json.loads(Path(error_file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Failure(rank, exit_code, noticed - 1.0, host)
    message = data.get("message", "")
    extra = message.get("extraInfo", {}) if isinstance(message, dict) else {}
    ours = data.get("accelify", {})
    place = ours.get("place")
    return Failure(
        rank=rank,
        exit_code=exit_code if exit_code > 0 else int(ours.get("exit_code", exit_code)),
        time=float(ours.get("time") or extra.get("timestamp") or noticed),
        host=str(ours.get("host", host)),
        message=str(message.get("message", "")) if isinstance(message, dict) else str(message),
        traceback=str(extra.get("py_callstack", "")),
        place=Place(**place) if place else None,
        shown=bool(ours.get("shown")),
        interrupted=bool(ours.get("interrupted")),
    )


def first_failure(failures: Iterable[Failure]) -> Failure:
    """The failure that came first, and so probably caused the others."""
    return min(failures, key=lambda failure: (failure.is_collateral, failure.time, failure.rank))


def describe(failure: Failure, log: Path | None, folder: Path, absent: Mapping[int, str]) -> str:
    """The text a person is shown: the traceback once, then rank, host and logs, and the script's line at the bottom."""
    lines = []
    if failure.traceback and not failure.shown:
        lines += [failure.traceback.rstrip("\n"), ""]
    elif not failure.traceback and log is not None:
        tail = _tail(log)
        if tail:
            lines += [f"the last lines of rank {failure.rank}:", *(f"  {line}" for line in tail), ""]
    lines.append(f"accelify: rank {failure.rank} on {failure.host} failed first ({failure.ending})")
    lines += [f"accelify: rank {rank} did not arrive: it was at {where}" for rank, where in absent.items()]
    if log is not None:
        lines.append(f"accelify: what rank {failure.rank} printed: {log}")
    lines.append(f"accelify: what the other ranks printed: {folder}")
    if failure.place is not None:
        lines.append(f"accelify: {failure.place}")
    return "\n".join(lines)


def _tail(log: Path, lines: int = 10, size: int = 4096) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - size))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-lines:]
