"""A loss that was computed past the wrapper.

    loss = model.module(x).sum()    ->    loss = model(x).sum()

Why: `DistributedDataParallel` prepares the averaging of gradients in its own `forward`. What is computed with the model
inside is not averaged, so that each process trains a model of its own.
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
    trained = Trained(processes)
    if not trained.wraps:
        return
    for loss in trained.backwards.values():
        sources = list(trained.sources(loss))
        calls = [n for source in sources for n in ast.walk(source) if isinstance(n, ast.Call)]
        past = [c for c in calls if _goes_past(trained, c)]
        through = [c for c in calls if isinstance(c.func, (ast.Name, ast.Attribute)) and trained.is_wrapped(c.func)]
        for call in dict.fromkeys(past) if not through else ():
            message = f"`{ast.unparse(call.func)}` goes past the wrapper: its gradients are not averaged"
            yield Finding(NAME, call, message)


def _goes_past(trained: Trained, call: ast.Call) -> bool:
    """`model.module(x)`, `model.module.loss(x)`."""
    inner = call.func
    if isinstance(inner, ast.Attribute) and inner.attr != "module":
        inner = inner.value
    return isinstance(inner, ast.Attribute) and inner.attr == "module" and trained.is_wrapped(inner.value)
