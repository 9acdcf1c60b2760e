"""Gradients that are averaged in each of several accumulated steps.

    loss.backward()                              with model.no_sync() if not is_last else nullcontext():
    if (i + 1) % steps == 0:           ->            loss.backward()
        optimizer.step()                         if is_last:
                                                     optimizer.step()

Why: the wrapper averages the gradients across processes in every backward pass. Where several are accumulated, all
but the last of these are for nothing. The result is the same, the time is not. With an accelerator,
`with accelerator.accumulate(model):` does it.
Left alone: programs that mention `no_sync`, and models that are not seen to be wrapped.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import Processes
from accelify.codemod.checks.training import Trained

NAME = "eager_synchronisation"


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each backward pass of a loop that steps its optimizer in some rounds only."""
    texts = [parsed.text for parsed in processes.program.files]
    if any("no_sync" in text or ".accumulate(" in text or "require_backward_grad_sync" in text for text in texts):
        return
    trained = Trained(processes)
    if not processes.is_distributed or not (trained.wraps or trained.prepares):
        return
    told: set[ast.AST] = set()
    for backward in trained.backwards:
        loop = trained.loop(backward)
        if loop is None or loop in told or not processes.is_run(backward):
            continue
        step = _rare_step(processes, loop)
        if step is not None and not processes.program.inside(backward, step):
            told.add(loop)
            line = processes.program.line(step)
            message = f"gradients are averaged in every pass, though steps are taken in some only (line {line})"
            yield Finding(NAME, backward, f"{message}: use `no_sync` in the other passes")


def _rare_step(processes: Processes, loop: ast.For | ast.AsyncFor | ast.While) -> ast.If | None:
    """The condition `(i + 1) % steps == 0` under which the only optimizer of a loop is stepped."""
    steps = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Call) and _steps(processes, n)]
    found = {_counted(processes, step, loop) for step in steps}
    return found.pop() if len(found) == 1 else None


def _steps(processes: Processes, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "step":
        return False
    held = ast.unparse(call.func.value)
    return "optimizer" in processes.kinds.of(call.func.value) or held.endswith(("optimizer", "optim", "opt", "scaler"))


def _counted(processes: Processes, step: ast.Call, loop: ast.AST) -> ast.If | None:
    for ancestor in processes.program.ancestors(step):
        if ancestor is loop:
            return None
        if isinstance(ancestor, ast.If) and _counts(ancestor.test):
            return ancestor
    return None


def _counts(test: ast.expr) -> bool:
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in ast.walk(test))
