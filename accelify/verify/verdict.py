"""The conclusion of verify: a row for each fact that must agree, and the verdict that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

RESUME = "a resume"  # what only a script comes to that is given a checkpoint


class Status(str, Enum):
    """How one comparison came out; only `differs` speaks against the rewritten script."""

    HOLDS = "ok"
    NATURE = "by nature"
    NOTHING = "not seen"
    DIFFERS = "differs"


class Which(str, Enum):
    """Which run of the rewritten script showed something."""

    ALONE = "alone"
    COMPARED = "compared"
    LAUNCHED = "launched"
    RESUMED = "resumed"
    RESUMED_TOGETHER = "resumed together"
    PRETEND = "pretend GPU"
    GPU = "GPU"


@dataclass(frozen=True, slots=True)
class Row:
    """One fact that was compared with the original.

    processes: of the rewritten script's run. step counts from 1; `at` is a line of the script that ran.
    """

    name: str
    processes: int
    status: Status
    words: str
    at: str | None = None
    step: int | None = None
    shown_by: Which | None = None

    @property
    def run(self) -> Which:
        """The run that showed it."""
        return self.shown_by or (Which.ALONE if self.processes == 1 else Which.COMPARED)

    @property
    def place(self) -> str | None:
        """The line to look at, where there is something to see and the words do not say it."""
        tells = self.status in (Status.DIFFERS, Status.NATURE)
        return self.at if tells and self.at is not None and self.at not in self.words else None


@dataclass(frozen=True, slots=True)
class Circumstances:
    """When, how and where a proof was made."""

    date: str = ""
    command: str = ""
    versions: str = ""
    machine: str = ""

    def __str__(self) -> str:
        return "; ".join(part for part in (self.date, self.command, self.versions, self.machine) if part)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The whole of it; `error` says why there is none."""

    script: str
    processes: int
    rows: tuple[Row, ...] = ()
    error: str | None = None
    steps: int = 0
    is_whole: bool = False  # the runs ended by themselves
    not_reached: tuple[str, ...] = ()  # what they would have to go on for
    resumed_by: str = ""  # how runs were made to go on from a checkpoint
    made_comparable: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    diff: str = ""
    curves: dict[str, tuple[float, ...]] = field(default_factory=dict)
    seconds: float = 0.0
    circumstances: Circumstances = Circumstances()

    @property
    def conclusion(self) -> str:
        """The verdict and how far it goes, the same in every report."""
        if self.status == 2:
            return self.word
        wrong = [row.name for row in self.rows if row.status is Status.DIFFERS]
        if wrong:
            return f"{self.word} ({', '.join(dict.fromkeys(wrong))})"
        natural = [row.name for row in self.rows if row.status is Status.NATURE]
        but = f", but for what differs by nature ({', '.join(dict.fromkeys(natural))})" if natural else ""
        reach = "" if self.is_whole else f" for {self.steps} steps"
        rest = f"; not reached: {', '.join(self.not_reached)}" if self.not_reached else ""
        return f"{self.word}{reach}{but}{rest}"

    @property
    def ways_on(self) -> list[str]:
        """How to come to what was not reached."""
        ways = ["more is reached with --steps, or --full"] if set(self.not_reached) - {RESUME} else []
        if RESUME in self.not_reached:
            ways.append(
                f"{RESUME} is reached by giving the script a checkpoint, by the option or path that it has for one"
            )
        return ways

    @property
    def parts(self) -> list[tuple[Which, str, list[Row]]]:
        """The rows of each run, under a heading."""
        how = "run to their end" if self.is_whole else f"stopped after {self.steps} steps"
        headings = {
            Which.ALONE: f"one process against the original ({how})",
            Which.COMPARED: f"{self.processes} processes against the original ({how})",
            Which.LAUNCHED: f"{self.processes} processes as launched",
            Which.RESUMED: f"one process, resumed {self.resumed_by}, against the original",
            Which.RESUMED_TOGETHER: f"{self.processes} processes, resumed {self.resumed_by}, against the original",
            Which.PRETEND: f"{self.processes} processes, each with a pretend GPU",
            Which.GPU: "on this machine's GPUs, a process for each",
        }
        parts = [(run, words, [row for row in self.rows if row.run is run]) for run, words in headings.items()]
        return [part for part in parts if part[2]]

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
