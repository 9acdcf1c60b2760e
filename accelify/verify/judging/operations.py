"""Does the first training step compute by the same operations, set alike? Asked only where its loss differs."""

from __future__ import annotations

from collections import Counter

from accelify.verify.judging.words import DIFFERS, HOLDS, counted, make_row
from accelify.verify.trace import Operation, Run, Trace
from accelify.verify.verdict import Row


def operations_of_one(original: Run, one: Run) -> Row | None:
    """The original's operations, in one process; nothing where none were recorded."""
    theirs, ours = original.ranks[0], one.ranks[0]
    if not theirs.operations or not ours.operations:
        return None
    return _compared(theirs, ours, one, "in the original") or _same(one)


def operations_of_ranks(many: Run) -> Row | None:
    """The first rank's operations on every rank."""
    if not all(trace.operations for trace in many.ranks):
        return None
    for trace in many.ranks[1:]:
        found = _compared(many.ranks[0], trace, many, "on rank 0", f" on rank {trace.rank}")
        if found is not None:
            return found
    return _same(many)


def _same(run: Run) -> Row:
    words = f"the same {counted(len(run.ranks[0].operations), 'operation')} up to the first backward pass"
    return make_row("operations", run, HOLDS, words)


def _compared(theirs: Trace, ours: Trace, run: Run, whose: str, which: str = "") -> Row | None:
    """The first operation that is another one, or is set otherwise."""
    counts, wanted = (Counter(each.name for each in trace.operations) for trace in (ours, theirs))
    for mine, other in zip(ours.operations, theirs.operations, strict=False):
        words = ""
        if mine.name != other.name:
            is_missing = counts[other.name] < wanted[other.name]
            is_new = not is_missing and counts[mine.name] > wanted[mine.name]
            words = f"{mine.name}{which}, where {whose} {other.name} follows at {other.at}"
            words = f"no {other.name}{which}, {whose} there is one at {other.at}" if is_missing else words
            words = f"{mine.name}{which}, {whose} there is none" if is_new else words
        elif mine.settings != other.settings:
            words = f"{mine.name} with {_settings(mine, other)}{which}, {whose} with {_settings(other, mine)}"
        if words:
            return make_row("operations", run, DIFFERS, words, mine.at, 1)
    common = min(len(ours.operations), len(theirs.operations))
    for more in ours.operations[common:]:
        return make_row("operations", run, DIFFERS, f"{more.name}{which}, {whose} there is none", more.at, 1)
    for lost in theirs.operations[common:]:
        words = f"no {lost.name}{which}, {whose} there is one at {lost.at}"
        return make_row("operations", run, DIFFERS, words, ours.operations[-1].at, 1)
    return None


def _settings(one: Operation, other: Operation) -> str:
    """How an operation is set where another one of the same name is not."""
    known = dict(other.settings)
    names = dict(one.settings)
    found = [f"{_argument(key)}{value}" for key, value in one.settings if known.get(key) != value]
    missing = [f"no {_argument(key).rstrip('= ')}" for key in known if key not in names]
    return ", ".join([*found, *missing])


def _argument(key: str) -> str:
    return f"argument {key} = " if key.isdigit() else f"{key}="
