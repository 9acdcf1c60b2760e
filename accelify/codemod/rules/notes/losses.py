"""Notes on losses whose gradients grow with the batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from accelify.codemod.edits.values import Remark
from accelify.codemod.preparing.batch_sizes import is_same_size
from accelify.codemod.rules.notes.remarks import review
from accelify.codemod.script import Script
from accelify.codemod.training.losses import DividedMeans, Losses, MeanLosses, is_for_inputs, losses_of


def summed(script: Script) -> Iterator[Remark]:
    """Losses whose gradients grow with the batch, while those of the processes are averaged."""
    kinds = {d.kind for d in script.training.data}
    if kinds <= {"full"} or (kinds <= {"full", "sequence"} and not script.preparation.sharded):
        return  # all compute on the same data, and that is said
    ranks = script.metrics.ranks

    def is_alike(node: ast.expr) -> bool:
        return not ranks.is_own(node)

    losses = Losses(script.program, script.roles, partial(_is_whole_size, script), is_alike)
    divided = DividedMeans(script.program, script.roles)
    means = MeanLosses(script.program, script.roles)
    for backward in script.training.backwards:
        if is_for_inputs(script.program, backward, script.training.steps, is_alike):
            continue
        of_step = losses_of(script.program, backward)
        if script.options.keep_global_batch and any(map(divided.has, of_step)):
            message = (
                "this loss is a mean that is divided by the number of its rows once more: each of N processes has "
                "1/N of the rows of a batch, which gives N times the gradient of the whole batch: divide by "
                "`accelerator.num_processes`, too"
            )
        elif not any(map(losses.is_sum, of_step)):
            continue
        elif any(map(means.has, of_step)):
            if not script.options.keep_global_batch:
                continue  # each process weighs the terms as one process does, and the mean of its gradients is right
            terms = ", ".join(f"`{ast.unparse(t)}`" for loss in of_step for t in losses.summed(loss))
            message = (
                f"a sum over the batch is added to means here ({terms}): each of N processes adds up its part of the "
                "batch, and gradients are averaged, which leaves 1/N of the sum: multiply it by "
                "`accelerator.num_processes`, and not the means"
            )
        elif script.options.keep_global_batch:
            message = (
                "this loss is a sum over the batch: each of N processes adds up its part of it, and gradients are "
                "averaged, which gives 1/N of the gradient of the whole batch: multiply by `accelerator.num_processes`"
            )
        elif not script.is_by_hand and (script.batch_sizes.loaders or script.batch_sizes.loops):
            continue  # said with the batch size
        else:
            message = (
                "this loss is a sum over the batch: gradients are averaged over the processes, so a step stays as "
                "large as for one process's batch, although N batches went into it: multiply the loss by "
                "`accelerator.num_processes` for a step as large as their sum"
            )
        yield review(script, backward, message)


def _is_whole_size(script: Script, node: ast.expr) -> bool:
    """Whether a number is the size of the batches that the processes divide, and so no process's own."""
    divided = script.batch_sizes.loaders if script.options.keep_global_batch else ()
    return any(is_same_size(script.tracer, size, node, "batch") for size in divided)
