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

NAME = "skipped_backward"
_SKIPS = (
    "a process that skips its backward pass because of its own batch leaves the others waiting: decide from a "
    "value that is reduced across processes"
)
_LEAVES = "a process that leaves its loop for a batch of its own leaves the others waiting: decide together"


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each `continue` in front of a backward pass, and each `break`, that its own batch decides on."""
    trained = Trained(processes)
    if not processes.is_distributed or not (trained.wraps or trained.prepares):
        return
    values, seen = RankValues(processes), set[ast.If]()
    for backward, loss in trained.backwards.items():
        loop = trained.loop(backward)
        statement = processes.program.statement(backward)
        if loop is None or statement not in loop.body:
            continue
        names = {n.id for n in ast.walk(loss) if isinstance(n, ast.Name)}
        before = loop.body[: loop.body.index(statement)]
        for each in loop.body:
            if not isinstance(each, ast.If) or each in seen or not _asks_for(trained, values, loop, each.test, names):
                continue
            message = _SKIPS if each in before and isinstance(each.body[-1], ast.Continue) else _LEAVES
            if message is _SKIPS or isinstance(each.body[-1], ast.Break):
                seen.add(each)
                yield Finding(NAME, each, message)


def _asks_for(trained: Trained, values: RankValues, loop: Loop, test: ast.expr, names: set[str]) -> bool:
    """Whether a condition reads what comes from this process's batch, and nothing that was reduced."""
    read = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    texts = [ast.unparse(source) for source in trained.sources(test)]
    is_reduced = any(map(vocabulary.may_be_reduced, texts))
    is_counted = any(isinstance(n, ast.Constant) and n.value is None for n in ast.walk(test))
    is_own = values.ranks.is_own(test) if loop in values.loops else bool(read & names)
    return is_own and not is_reduced and not is_counted
