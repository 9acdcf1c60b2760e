"""In which loops over a script's own rows do the rows say how many steps are taken?"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelify.codemod.metrics.comparisons import Answer
from accelify.codemod.metrics.decisions import decided_apart, decided_together, given_up, goes_by_size
from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.training.experience import Results
from accelify.codemod.training.item_numbers import ItemNumbers
from accelify.codemod.training.loops.bodies import Loop
from accelify.codemod.training.loops.model_runs import ModelRuns


def taken_by_rows(metrics: Metrics) -> dict[Loop, ast.AST]:
    """The loops over a script's own rows of which each rank takes a shard, though the rows say how many steps it takes.

    Each with the condition of a step: `len(batch) == 16`, where some rows are left out of the batch, or what fails for
    some, or what ends the loop by an item's index. Not one that goes by a model's results, as `isnan(loss)`, nor by the
    size of batches that are made before.
    """
    program, training = metrics.measured.program, metrics.measured.training
    loops = [d.loop for d in training.data if d.loop and metrics.measured.prepared.is_sharded_sequence(d.loop)]
    apart = list(decided_apart(metrics)) if loops else []
    together = decided_together(metrics, apart) if apart else {}
    results = Results(program, metrics.measured.tracer, ModelRuns(program, metrics.measured.roles).is_one)
    found: dict[Loop, ast.AST] = {
        loop: n for n in (given_up(metrics) if loops else ()) for loop in loops if program.inside(n, loop)
    }
    for loop, node in _ending(metrics, loops):
        if not any(map(results.holds, ast.walk(node.test))):
            found.setdefault(loop, node.test)
    left = (c for c in apart if together.get(c) is not Answer.FIRST and not goes_by_size(metrics, c.test))
    for choice in left:
        if any(map(results.holds, ast.walk(choice.test))):
            continue
        origins = metrics.ranks.of(choice.test).of(Mark.BATCH, Mark.CHOSEN, Mark.ROWS, Mark.RUNNING)
        for loop in (one for one in loops if any(program.inside(o.node, one) for o in origins)):
            found.setdefault(loop, choice.test)
    return found


def _ending(metrics: Metrics, loops: Sequence[Loop]) -> Iterator[tuple[Loop, ast.If]]:
    """Loops with each condition on an item's index that does nothing but leave them: `if i + 16 > n: break`."""
    measured = metrics.measured
    numbers = ItemNumbers(measured.program, measured.roles, measured.tracer, measured.training)
    dropped = measured.range_ends
    for loop in loops:
        for node, steers in numbers.asked(loop):
            if not steers or not isinstance(node, ast.If) or node in dropped:
                continue
            is_plain = [type(s) for s in node.body] == [ast.Break] and not node.orelse
            if is_plain and measured.program.loops_round(node)[0] is loop:
                yield loop, node
