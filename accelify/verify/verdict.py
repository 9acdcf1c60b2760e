"""What verify concludes: a row for each thing that must agree, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Status(str, Enum):
    """How one thing came out; only `differs` speaks against the rewritten script."""

    HOLDS = "holds"
    NATURE = "by nature"
    NOTHING = "not seen"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was compared with the original.

    processes: of the rewritten script's run. step counts from 1; `at` is a line of the script that ran.
    """

    name: str
    processes: int
    status: Status
    words: str
    at: str | None = None
    step: int | None = None

    @property
    def place(self) -> str | None:
        """The line to look at, where there is something to see and the words do not say it."""
        tells = self.status in (Status.DIFFERS, Status.NATURE)
        return self.at if tells and self.at is not None and self.at not in self.words else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The whole of it; `error` says why there is none."""

    script: str
    processes: int
    rows: tuple[Row, ...] = ()
    error: str | None = None
    steps: int = 0
    is_whole: bool = False  # the runs ended by themselves
    made_comparable: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    diff: str = ""
    curves: dict[str, tuple[float, ...]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def status(self) -> int:
        """0 proven, 1 differs, 2 could not run."""
        if self.error is not None:
            return 2
        return int(any(row.status is Status.DIFFERS for row in self.rows))

    @property
    def word(self) -> str:
        """The verdict in a word or three."""
        return ("proven", "differs", "could not run")[self.status]
