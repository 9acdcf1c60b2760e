"""Does a loss depend on which rows a batch holds, a contrastive one say, and is that all that differs?

Such a loss of a part of a batch is not the part's contribution to the whole batch's, so that several processes differ
from one. What is right still shows: each rank's first losses and their gradients are what the original computes on the
rank's rows, and where every rank is given whole batches, all steps are the original's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from accelify.verify import compare
from accelify.verify.judging import training
from accelify.verify.judging.evidence import Evidence
from accelify.verify.trace import Run, Sketch, Trace
from accelify.verify.verdict import Status

MIXES_ROWS = (
    "the loss depends on which rows a batch holds: each rank's is the original's on the same rows, and on whole "
    "batches all steps agree"
)


def agree_on_parts(evidence: Evidence, parts: Sequence[Run]) -> bool:
    """Whether the ranks' losses up to the first step, and its gradients, follow from the original's on their rows."""
    pairs = list(zip(evidence.many.ranks, (part.ranks[0] for part in parts), strict=True))
    if any(part.error is not None or part.hang for part in parts):
        return False
    return all(_agrees(ours, theirs) for ours, theirs in pairs) and _is_mean(*zip(*pairs, strict=True))


def agree_undivided(evidence: Evidence, undivided: Run) -> bool:
    """Whether all steps are the original's where every rank is given the whole of every batch."""
    if undivided.error is not None or undivided.hang:
        return False
    whole = replace(evidence, many=undivided)
    rows = [judge(whole) for judge in (training.losses, training.gradients, training.parameters)]
    return rows[0].status is Status.HOLDS and not any(row.status is Status.DIFFERS for row in rows)


def _agrees(ours: Trace, theirs: Trace) -> bool:
    """Whether a rank learned up to its first step from the same rows as the original, with the same losses."""
    rows = [next((each for each in trace.passes if each.trains), None) for trace in (ours, theirs)]
    if rows[0] is None or rows[1] is None or rows[0].by_batch or rows[0].batches[:1] != rows[1].batches[:1]:
        return False
    pairs = list(zip(ours.backwards, theirs.backwards, strict=False))
    return 0 < len(theirs.backwards) == len(pairs) and all(
        compare.is_close(a.loss, b.loss, compare.tolerance(b.dtype) * abs(b.loss)) for a, b in pairs
    )


def _is_mean(ranks: Sequence[Trace], parts: Sequence[Trace]) -> bool:
    """Whether the first step's gradients are the mean of the parts', each with the weight of its rows.

    Where they are clipped, which is done to the mean, those of the parts say nothing.
    """
    calls = [call.kind for call in ranks[0].calls]
    if any(kind.startswith("clip") for kind in calls[: calls.index("step") if "step" in calls else None]):
        return True
    sizes = [next(len(each.batches[0] or ()) for each in part.passes if each.trains) for part in parts]
    weights = [size / sum(sizes) for size in sizes]
    steps = [trace.steps[0] for trace in (ranks[0], *parts) if trace.steps]
    if len(steps) <= len(parts):
        return False
    whole = compare.norm(steps[0].gradients)
    dtypes = ranks[0].optimizers[steps[0].optimizer].dtypes
    columns = zip(dtypes, *(step.gradients for step in steps), strict=True)
    return all(_is_sum(mine, theirs, weights, dtype, whole) for dtype, mine, *theirs in columns)


def _is_sum(
    mine: Sketch | None, theirs: Sequence[Sketch | None], weights: Sequence[float], dtype: str, whole: float
) -> bool:
    if mine is None:
        return not any(theirs)
    known = [(weight, sketch) for weight, sketch in zip(weights, theirs, strict=True) if sketch is not None]
    products = [sum(weight * sketch[at] for weight, sketch in known) for at in range(1, len(mine))]
    apart = math.sqrt(sum((a - b) ** 2 for a, b in zip(mine[1:], products, strict=True)) / max(len(products), 1))
    return compare.is_close(apart, 0.0, compare.tolerance(dtype) * max(mine[0], compare.FLOOR * whole))
