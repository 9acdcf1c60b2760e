"""A backward pass beside the accelerator.

    loss.backward()    ->    accelerator.backward(loss)

Why: the accelerator scales the loss for fp16 and divides it where gradients are accumulated. Without it, fp16 gradients
underflow, accumulated steps are too large, and accelify does not know that a step is due.
Left alone: scripts without an accelerator, those that choose between the two, and `backward` of anything else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import Processes
from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Edit, Replace

NAME = "plain_backward"
_MESSAGE = (
    "the accelerator does not see this backward pass, and neither scales nor divides the loss: call "
    "`accelerator.backward(loss)`"
)


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each plain backward pass in a function, or a class, that prepares what it trains."""
    backwards = [c for c in processes.program.calls if _is_backward(processes, c)]
    for call in sorted(backwards, key=processes.program.position):
        accelerator = _accelerator(processes, call)
        if accelerator and not _chooses(processes, call):
            yield Finding(NAME, call, _MESSAGE, _fix(call, accelerator))


def _is_backward(processes: Processes, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "backward" or call.args or call.keywords:
        return False
    owner = call.func.value
    is_own = bool(processes.program.flow.callees.get(call)) or ast.unparse(owner) == "self"
    return not is_own and not processes.is_accelerator(owner)


def _accelerator(processes: Processes, call: ast.Call) -> str:
    """The accelerator's name where its function calls it; empty without one."""
    frame = processes.frame(call)
    for other in processes.program.calls_in(frame):
        if isinstance(other.func, ast.Attribute) and processes.is_accelerator(other.func.value):
            return ast.unparse(other.func.value)
    return ""


def _chooses(processes: Processes, call: ast.Call) -> bool:
    """Whether another branch calls the accelerator's, or scales the loss."""
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        return True  # `scaler.scale(loss).backward()`, which does so itself
    return any(
        isinstance(n, ast.Attribute) and n.attr == "backward" and processes.is_accelerator(n.value)
        for a in processes.program.ancestors(call)
        if isinstance(a, ast.If)
        for n in ast.walk(a)
    )


def _fix(call: ast.Call, accelerator: str) -> tuple[Edit, ...]:
    def through_accelerator(node: cst.CSTNode) -> cst.BaseExpression:
        assert isinstance(node, cst.Call)
        assert isinstance(node.func, cst.Attribute)
        loss = node.func.value.with_changes(lpar=[], rpar=[])
        return snippets.expression(f"{accelerator}.backward({{loss}})", loss=loss)

    assert isinstance(call.func, ast.Attribute)
    return (Replace(call, through_accelerator, keeps=(call.func.value,), reads=(accelerator.partition(".")[0],)),)
