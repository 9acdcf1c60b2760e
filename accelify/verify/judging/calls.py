"""Are gradients cleared, computed, clipped and applied, and schedules stepped, as often and in the order as before?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from accelify.verify.judging import training
from accelify.verify.judging.evidence import Evidence
from accelify.verify.judging.words import DIFFERS, HOLDS, NOTHING, counted, make_row
from accelify.verify.trace import Call, Run, Trace
from accelify.verify.verdict import Row


def calls_of_one(original: Run, one: Run) -> Row:
    """The same calls before each step, where it is not the same bit for bit without them."""
    found = (training.losses_of_one, training.parameters_of_one, training.learning_rate_of_one)
    return _calls(original.ranks[0], one, any(row(original, one).status is DIFFERS for row in found))


def calls(evidence: Evidence) -> Row:
    """The same calls on every rank before each step, where anything that follows from them differs."""
    many = evidence.many
    found = (training.learning_rate, training.losses, training.gradients, training.parameters)
    return _calls(evidence.baseline.ranks[0], many, any(row(evidence).status is DIFFERS for row in found))


def _calls(original: Trace, run: Run, differs: bool) -> Row:
    theirs = _by_step(original.calls)
    for rank, trace in enumerate(run.ranks if differs else ()):
        for number, (mine, other) in enumerate(zip(_by_step(trace.calls), theirs, strict=False)):
            if [call.kind for call in mine] != [call.kind for call in other]:
                where = f" on rank {rank}" if run.world > 1 else ""
                words = f"before step {number + 1}{where}: {_apart(mine, other)}"
                at = next((a.at for a, b in zip(mine, other, strict=False) if a.kind != b.kind), mine[-1].at)
                return make_row("calls", run, DIFFERS, words, at, number + 1)
    if not theirs:
        return make_row("calls", run, NOTHING, "no optimizer step")
    words = f"gradients cleared, computed, clipped and applied alike in {counted(len(theirs), 'step')}"
    return make_row("calls", run, HOLDS, words if not differs else f"{words}, schedules stepped alike")


def _by_step(calls: Sequence[Call]) -> list[list[Call]]:
    """The calls up to each optimizer step, and that step."""
    steps: list[list[Call]] = [[]]
    for call in calls:
        steps[-1].append(call)
        if call.kind == "step":
            steps.append([])
    return steps[:-1]


def _apart(mine: Sequence[Call], other: Sequence[Call]) -> str:
    """How the calls before a step differ."""
    ours, theirs = (Counter(call.kind for call in calls) for calls in (mine, other))
    for kind in dict.fromkeys((*(call.kind for call in other), *ours)):
        if not ours[kind]:
            return f"no {kind}, which the original calls at {next(call.at for call in other if call.kind == kind)}"
        if not theirs[kind]:
            return f"{kind}, which the original does not call"
        if ours[kind] != theirs[kind]:
            return f"{kind} {counted(ours[kind], 'time')} for {theirs[kind]}"
    ordered = (", ".join(call.kind for call in calls) for calls in (mine, other))
    return "{} for {}".format(*ordered)
