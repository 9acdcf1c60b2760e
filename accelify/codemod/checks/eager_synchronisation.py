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
from accelify.codemod.checks.training import Loop, Trained

NAME = "eager_synchronisation"


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each backward pass of a loop that steps its optimizer in some rounds only."""
    texts = [parsed.text for parsed in processes.program.files]
    if any("no_sync" in text or ".accumulate(" in text or "require_backward_grad_sync" in text for text in texts):
        return
    trained = processes.once(Trained)
    if not processes.is_distributed or not (trained.wraps or trained.prepares):
        return
    told: set[ast.AST] = set()
    for backward in trained.backwards:
        loop = trained.loop(backward)
        if loop is None or loop in told or not processes.is_run(backward):
            continue
        step = _rare_step(processes, loop, backward) or _step_behind(processes, trained, loop)
        if step is not None:
            told.add(loop)
            line = processes.program.line(step)
            message = f"gradients are averaged in every pass, though steps are taken in some only (line {line})"
            yield Finding(NAME, backward, f"{message}: use `no_sync` in the other passes")


def _rare_step(processes: Processes, loop: Loop, backward: ast.Call) -> ast.expr | None:
    """The condition `(i + 1) % steps == 0` under which a loop steps its only optimizer, not its backward."""
    steps = _steps_in(processes, loop)
    of_backward = set(processes.tests_before(backward))
    found = {_counted(processes, step, loop, of_backward) for step in steps}
    return found.pop() if len(found) == 1 else None


def _step_behind(processes: Processes, trained: Trained, loop: Loop) -> ast.expr | None:
    """The step right behind a loop over the parts of one batch: `for part in range(4): net(x).backward()`."""
    around = processes.program.loops_round(loop)
    is_counted = isinstance(loop, ast.For) and ast.unparse(loop.iter).startswith("range(")
    if not around or not is_counted or _steps_in(processes, loop) or _clears(loop):
        return None
    calls = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Call)]
    if not any(isinstance(c.func, (ast.Name, ast.Attribute)) and trained.is_wrapped(c.func) for c in calls):
        return None
    body = around[0].body
    behind = body[body.index(loop) + 1 :] if loop in body else []
    found = [n for s in behind for n in ast.walk(s) if isinstance(n, ast.Call) and _steps(processes, n)]
    return found[0] if found else None


def _steps_in(processes: Processes, loop: Loop) -> list[ast.Call]:
    return [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Call) and _steps(processes, n)]


def _clears(loop: Loop) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "zero_grad" for s in loop.body for n in ast.walk(s))


def _steps(processes: Processes, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "step":
        return False
    held = ast.unparse(call.func.value)
    return "optimizer" in processes.kinds.of(call.func.value) or held.endswith(("optimizer", "optim", "opt", "scaler"))


def _counted(processes: Processes, step: ast.Call, loop: Loop, others: set[ast.expr]) -> ast.expr | None:
    """The condition on the number of the pass that decides about a step in its loop."""
    inside = (t for t in processes.tests_before(step) if processes.program.inside(t, loop) and t not in others)
    return next((test for test in inside if _counts(processes, test) or _counts_up(processes, test, loop)), None)


def _counts(processes: Processes, test: ast.expr) -> bool:
    """Whether a condition, or a variable that it reads, is about every so many passes: `(i + 1) % 4 == 0`."""
    texts = [test, *(given for n in ast.walk(test) if isinstance(n, ast.Name) for given in processes.given(n))]
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for each in texts for n in ast.walk(each))


def _counts_up(processes: Processes, test: ast.expr, loop: Loop) -> bool:
    """Whether a condition compares a counter that the loop raises, and puts back where it holds."""
    names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    inside = [n for s in loop.body for n in ast.walk(s)]
    raised = {ast.unparse(n.target) for n in inside if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add)}
    holder = processes.program.parent(test)
    block = holder.body if isinstance(holder, ast.If) else []
    put_back = {ast.unparse(t) for s in block if isinstance(s, ast.Assign) and _is_zero(s.value) for t in s.targets}
    return isinstance(test, ast.Compare) and bool(names & raised & put_back)


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0
