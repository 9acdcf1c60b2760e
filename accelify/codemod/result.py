"""The results of a rewrite: one `FileResult` for each file that was looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from accelify.errors import FileError


class Tier(str, Enum):
    """How far a change or a note may be trusted.

    SAFE: in one process the script gives the same losses, in many the same meaning; applied.
    REVIEW: applied and flagged, because its meaning depends on the number of processes.
    ADVICE: only reported; the script is not changed for it.
    INFO: right as it stands; kept on record, and only reported to whoever asks.
    """

    SAFE = "safe"
    REVIEW = "review"
    ADVICE = "advice"
    INFO = "info"


class Status(str, Enum):
    """The outcome for a file; `declined` means that a training loop is there and the file is untouched."""

    MIGRATED = "migrated"
    DECLINED = "declined"
    UNCHANGED = "unchanged"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """One change that was made, at a line (from 1) of the original file; `evidence`: what that line's names hold.

    cell: the one of a notebook (from 1) in which the line is counted.
    """

    line: int
    rule: str
    tier: Tier
    reason: str
    evidence: tuple[str, ...] = ()
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Something a person should look at; its line (from 1) is of the new file when the file was migrated.

    cell: the one of a notebook (from 1) in which the line is counted. shows: the places, `train.py:57`, at which
    values of one process's own are shown or saved. also: the other lines of which the same is said, in the order of
    the file and each with its own message; `message` names them too.
    """

    line: int
    rule: str
    tier: Tier
    message: str
    evidence: tuple[str, ...] = ()
    cell: int | None = None
    shows: tuple[str, ...] = ()
    also: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file could not be read or parsed; `line` counts from 1, `column` from 0."""

    line: int | None
    column: int | None
    message: str
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class FileResult:
    """The outcome for one file; `after` is `before` unless the status is migrated.

    notes: what a person should look at. kept: what was looked at and is right as it stands, each place with its reason.
    because: why a file that trains is unchanged, and what to do next; empty where there is nothing to say.
    """

    path: str
    status: Status
    before: bytes = b""
    after: bytes = b""
    changes: tuple[ChangeRecord, ...] = ()
    notes: tuple[Note, ...] = ()
    error: Problem | None = None
    because: str = ""
    kept: tuple[Note, ...] = ()


def failed(error: FileError) -> FileResult:
    """The result of a file that could not be read, parsed or written."""
    return FileResult(error.path, Status.ERROR, error=Problem(error.line, error.column, error.reason, error.cell))


def joined(one: FileResult, other: FileResult) -> FileResult:
    """What two programs say of one file, as the result of the first."""
    return replace(one, notes=notes_in_order([*one.notes, *other.notes]), because=one.because or other.because)


def notes_in_order(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Notes by line, each once."""
    return tuple(dict.fromkeys(sorted(notes, key=lambda n: (n.cell or 0, n.line, n.rule, n.message))))
