"""A backward pass that a process skips because of its own batch.

    if torch.isnan(loss):            skip = torch.isnan(loss).float()
        continue               ->    dist.all_reduce(skip, op=dist.ReduceOp.MAX)
    loss.backward()                  if skip: continue

Why: the gradients are averaged in the backward pass, and all processes wait there for each other. Where one of them
goes on to its next batch, the run hangs, or averages gradients of different steps.
Left alone: conditions on what was reduced, and those that end the process.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import Processes
from accelify.codemod.checks.training import Trained
from accelify.codemod.libraries import vocabulary

NAME = "skipped_backward"
_MESSAGE = "a process that skips its backward pass for a batch of its own leaves the others waiting: decide together"


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each `continue` in front of a backward pass that its loss decides on."""
    trained = Trained(processes)
    if not processes.is_distributed or not (trained.wraps or trained.prepares):
        return
    for backward, loss in trained.backwards.items():
        loop = trained.loop(backward)
        statement = processes.program.statement(backward)
        if loop is None or statement not in loop.body:
            continue
        names = {n.id for n in ast.walk(loss) if isinstance(n, ast.Name)}
        for before in loop.body[: loop.body.index(statement)]:
            if isinstance(before, ast.If) and _skips(before) and _asks_for(trained, before.test, names):
                yield Finding(NAME, before, _MESSAGE)


def _skips(statement: ast.If) -> bool:
    return isinstance(statement.body[-1], ast.Continue)


def _asks_for(trained: Trained, test: ast.expr, names: set[str]) -> bool:
    """Whether a condition reads the loss of this process, and nothing that was reduced."""
    read = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    texts = [ast.unparse(source) for source in trained.sources(test)]
    is_reduced = any(map(vocabulary.may_be_reduced, texts))
    is_counted = any(isinstance(n, ast.Constant) and n.value is None for n in ast.walk(test))
    return bool(read & names) and not is_reduced and not is_counted
