"""A row of a verdict, and the words in it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from accelify.verify import compare
from accelify.verify.trace import Run, Sketch, Step, Trace
from accelify.verify.verdict import Row, Status

HOLDS, NATURE, NOTHING, DIFFERS = Status.HOLDS, Status.NATURE, Status.NOTHING, Status.DIFFERS


def make_row(name: str, run: Run, status: Status, words: str, at: str | None = None, step: int | None = None) -> Row:
    """A row about a run."""
    return Row(name, run.world, status, words, at, step)


def counted(number: int, noun: str) -> str:
    """`1 step`, `2 steps`, `2 batches`."""
    plural = noun + ("es" if noun.endswith(("s", "h")) else "s")
    return f"{number} {noun if number == 1 else plural}"


def named_ranks(ranks: Sequence[int]) -> str:
    """`rank 1`, `ranks 0 and 1`."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def some_of(indices: Sequence[object], count: int = 6) -> str:
    """The first of some indices."""
    shown = ", ".join(map(str, indices[:count]))
    return f"[{shown}{', ...' if len(indices) > count else ''}]"


def masked(path: str) -> str:
    """A path without its digits: dates, steps."""
    return re.sub(r"\d+", "#", path)


def share(distance: float, size: float) -> str:
    """A distance as a fraction of a size."""
    return f"{distance / size:.2g}" if size else "all"


def factor_of(ours: float, theirs: float) -> str:
    """` (2 times the original's)`, or nothing where a factor says nothing."""
    if not theirs or not math.isfinite(ours / theirs):
        return ""
    words = compare.in_words(ours / theirs)
    return f" ({words} the original's)" if " of" not in words else ""


def parameter_name(trace: Trace, step: Step, number: int) -> str:
    """The name of a parameter that a step changes."""
    known = trace.optimizers.get(step.optimizer)
    return known.names[number] if known and number < len(known.names) else f"parameter {number}"


def one_has_none(name: str, mine: Sketch | None) -> str:
    """That one of two runs has no gradient."""
    ours, theirs = ("no", "one") if mine is None else ("a", "none")
    return f"{name} has {ours} gradient, in the original it has {theirs}"
