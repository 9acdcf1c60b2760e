"""A backward pass that a process skips because of its own batch.

    if torch.isnan(loss):            skip = torch.isnan(loss).float()
        continue               ->    dist.all_reduce(skip, op=dist.ReduceOp.MAX)
    loss.backward()                  if skip: continue

Why: the gradients are averaged in the backward pass, and all processes wait there for each other. Where one of them
goes on to its next batch, or leaves the loop, the run hangs, or averages gradients of different steps.
Left alone: conditions on what was reduced, and those that end the process.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import Processes
from accelify.codemod.checks.rank_values import RankValues
from accelify.codemod.checks.training import Loop, Trained
from accelify.codemod.libraries import vocabulary
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.reports import updated_text

NAME = "skipped_backward"
_SKIPS = (
    "a process that skips its backward pass because of its own batch leaves the others waiting: decide from a "
    "value that is reduced across processes"
)
_LEAVES = "a process that leaves its loop for a batch of its own leaves the others waiting: decide together"
_ENDING = (ast.Break, ast.Return)


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each `continue` in front of a backward pass, and each `break`, that its own batch decides on."""
    trained = processes.once(Trained)
    if not processes.is_distributed or not (trained.wraps or trained.prepares):
        return
    values, found = processes.once(RankValues), dict[ast.If, str]()
    for backward, loss in trained.backwards.items():
        loop = trained.loop(backward)
        if loop is None or not processes.is_run(backward):
            continue
        names = {n.id for n in ast.walk(loss) if isinstance(n, ast.Name)}
        for each, message in _deciding(processes, backward, loop, names):
            if each not in found and _asks_for(trained, values, loop, each.test, names):
                found[each] = message
        for outer in processes.program.loops_round(loop) if loop in values.loops else ():
            for each in (s for s in outer.body if isinstance(s, ast.If) and isinstance(s.body[-1], _ENDING)):
                if values.is_of_last_batch(each.test):
                    found[each] = _LEAVES
    for each in sorted(found, key=processes.program.position):
        yield Finding(NAME, each, found[each])


def _deciding(processes: Processes, backward: ast.Call, loop: Loop, names: set[str]) -> Iterator[tuple[ast.If, str]]:
    """The conditions of a loop that decide whether its backward pass is made: before it, round it, or for the rest."""
    tests = set(processes.tests_before(backward))
    for each in (n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.If)):
        if processes.frame(each) is not processes.frame(backward) or processes.program.loops_round(each)[0] is not loop:
            continue
        end = each.body[-1]
        if each.test in tests and isinstance(end, ast.Continue):
            yield each, _SKIPS
        elif isinstance(end, _ENDING):
            yield each, _LEAVES
        elif each.test in tests and processes.program.inside(backward, each) and not _is_made_otherwise(each, names):
            yield each, _SKIPS


def _is_made_otherwise(branch: ast.If, names: set[str]) -> bool:
    """Whether the other branch makes a backward pass, too, or passes the loss on."""
    sides = [[n for s in side for n in ast.walk(s)] for side in (branch.body, branch.orelse)]
    return all(
        any((isinstance(n, ast.Attribute) and n.attr == "backward") or getattr(n, "id", "") in names for n in side)
        for side in sides
    )


def _asks_for(trained: Trained, values: RankValues, loop: Loop, test: ast.expr, names: set[str]) -> bool:
    """Whether a condition reads what comes from this process's batch, and nothing that was reduced."""
    read = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    texts = [ast.unparse(source) for source in trained.sources(test)]
    is_reduced = any(map(vocabulary.may_be_reduced, texts))
    is_counted = any(isinstance(n, ast.Constant) and n.value is None for n in ast.walk(test))
    is_own = _is_of_its_batches(values, loop, test) if loop in values.loops else bool(read & names)
    return is_own and not is_reduced and not is_counted


def _is_of_its_batches(values: RankValues, loop: Loop, test: ast.expr) -> bool:
    """Whether a condition is about this process's batch, or about what the loop adds up of them."""
    rank, read = values.ranks.of(test), {ast.unparse(n) for n in ast.walk(test) if isinstance(n, ast.expr)}
    added = (o.node for o in rank.of(Mark.RUNNING) if values.program.inside(o.node, loop))
    is_added = any(updated_text(values.ranks.chains, node) in read for node in added)
    return rank.is_own and (bool(rank.of(Mark.BATCH)) or is_added)
