"""Count over all processes what a loop over shared data counts.

    for x, y in train_loader:
        ...
        correct += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    correct, total = accelerator.reduce((correct, total), "sum")    # added
    print(correct / total)

    for x, y in test_loader:
        scores = model(x)
        scores, y = accelerator.gather_for_metrics((scores, y))    # added
        correct += (scores.argmax(1) == y).sum().item()

Why: each process adds up its own share; what is printed, returned or decided from the sums is meant of all the data.
What the script divides by `len(train_loader)`, which counts the batches of one process, is reduced by its mean. The
rows that a prepared loader adds to even out the last step of an epoch, fewer than one for each process, count too.
A loop that evaluates, where all that leaves it is counted row by row, gathers the rows instead, each once, and its
loader is prepared; any other evaluation stays whole in every process, which is right but no faster.
Left alone: a sum that does not begin at zero just outside its loop, or that is read nowhere after it; one whose use
after the loop cannot be followed. A note names each.
"""

from __future__ import annotations

from collections.abc import Iterator

from accelify.codemod import snippets
from accelify.codemod.analysis.sums import Reduction
from accelify.codemod.edits import Change, Insert, Plan, Remark
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "metrics"


def find(script: Script, plan: Plan) -> Iterator[Change | Remark]:
    """A statement after a loop for the sums that are reduced alike; one in a loop that evaluates, for its rows."""
    for gathering in script.gathered:
        accelerator = script.accelerator(gathering.loop)
        names = ", ".join(gathering.names)
        yield Change(
            rule=NAME,
            path=script.path(gathering.loop),
            line=gathering.forward.lineno,
            reason=f"{names}: the rows of all processes, each counted once",
            edits=(Insert(gathering.forward, "after", f"{names} = {accelerator}.gather_for_metrics(({names}))"),),
        )
    for order, reduction in enumerate(script.reductions):
        accelerator = script.accelerator(reduction.loop)
        assert accelerator is not None
        whole = (
            "the processes, each of which takes as many batches"
            if reduction.how == "mean"
            else ("all processes; what is added to even out the last step of an epoch counts too")
        )
        yield Change(
            rule=NAME,
            path=script.path(reduction.loop),
            line=reduction.anchor.end_lineno or reduction.anchor.lineno,
            reason=f"{', '.join(reduction.names)}: the {reduction.how} over {whole}",
            edits=(Insert(reduction.anchor, "after", _statement(reduction, accelerator), order=order),),
            tier=Tier.REVIEW,
        )
        yield from _running(script, reduction)


def _running(script: Script, reduction: Reduction) -> Iterator[Remark]:
    """What the loop itself shows of a sum before it is reduced."""
    for name in reduction.names:
        for read in script.read_in(reduction.loop, name)[:1]:
            message = f"`{name}` is this process's share until the loop is over"
            yield Remark(NAME, script.path(read), read, message, Tier.ADVICE)


def _statement(reduction: Reduction, accelerator: str) -> str:
    names = ", ".join(reduction.names)
    value = f"({names})" if len(reduction.names) > 1 else names
    indent = reduction.anchor.col_offset
    if reduction.condition is None:
        return snippets.call_statement(names, f"{accelerator}.reduce", f'{value}, "{reduction.how}"', indent)
    inner = snippets.call_statement(names, f"{accelerator}.reduce", f'{value}, "{reduction.how}"', indent + 4)
    lines = "\n".join(f"    {line}" for line in inner.split("\n"))
    return f"if {reduction.condition}:\n{lines}"
