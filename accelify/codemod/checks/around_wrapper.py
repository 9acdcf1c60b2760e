"""A loss that was computed past the wrapper.

    loss = model.module(x).sum()    ->    loss = model(x).sum()

Why: `DistributedDataParallel` prepares the averaging of gradients in its own `forward`. What is computed with the model
inside is not averaged, so that each process trains a model of its own. So it is with what Accelerate's `unwrap_model`
returns.
Left alone: evaluation, and models that are not seen to be wrapped.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import Processes
from accelify.codemod.checks.training import Trained

NAME = "around_wrapper"


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each call of the model inside the wrapper whose result is differentiated."""
    trained = processes.once(Trained)
    if not (trained.wraps or trained.prepares):
        return
    for loss in trained.backwards.values():
        sources = list(trained.sources(loss))
        calls = [n for source in sources for n in ast.walk(source) if isinstance(n, ast.Call)]
        past = [c for c in calls if _goes_past(trained, c)]
        through = [c for c in calls if isinstance(c.func, (ast.Name, ast.Attribute)) and trained.is_wrapped(c.func)]
        for call in dict.fromkeys(past) if not through else ():
            message = (
                f"`{ast.unparse(call.func)}` bypasses the wrapper, so its gradients are not averaged: call the "
                "wrapped model"
            )
            yield Finding(NAME, call, message)


def _goes_past(trained: Trained, call: ast.Call) -> bool:
    """`model.module(x)`, `model.module.loss(x)`, `accelerator.unwrap_model(model)(x)`."""
    called = call.func
    queue = [called, called.value] if isinstance(called, ast.Attribute) else [called]
    queue += [given for each in queue for given in trained.processes.given(each)]
    return any(map(trained.is_inside_wrapper, queue))
