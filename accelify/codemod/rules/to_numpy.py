"""Bring to the CPU what NumPy reads, and what a tensor of the CPU's is made of.

    losses.append(loss.data.numpy())    ->    losses.append(loss.data.cpu().numpy())
    np.array(y)                         ->    np.array(y.cpu())
    torch.FloatTensor(x)                ->    torch.FloatTensor(x.cpu())

Why: prepared loaders and models keep their tensors on the process's device, and these read the CPU's memory only. A
script that knew of no GPU, or left the labels where they were, would stop there on a GPU; on the CPU `cpu()` does
nothing.
Left alone: what is brought to the CPU already, and tensors that the script made itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from accelify.codemod import snippets
from accelify.codemod.analysis.on_device import CPU_TENSORS
from accelify.codemod.edits import Change, Plan, Replace
from accelify.codemod.script import Script

NAME = "to_numpy"
_MADE = {"numpy.array", "numpy.asarray", *CPU_TENSORS}


def find(script: Script, plan: Plan) -> Iterator[Change]:
    """A change for each tensor on the device that becomes an array, or another on the CPU."""
    if script.homemade is not None:
        return  # it stays on the CPU
    for call in script.program.calls:
        if script.path(call) not in script.files or script.program.frame(call) not in script.program.reachable:
            continue
        tensor = _tensor(script, call)
        if tensor is not None and script.on_device.holds(tensor):
            yield Change(
                NAME,
                script.path(call),
                call.lineno,
                "it is on the device, and this reads the CPU's memory only",
                (Replace(tensor, on_the_cpu, keeps=(tensor,)),),
            )


def _tensor(script: Script, call: ast.Call) -> ast.expr | None:
    """`x` of `x.numpy()`, of `np.array(x)` and of `torch.FloatTensor(x)`."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" and not call.args:
        return call.func.value
    is_made = bool(script.program.called(call) & _MADE) and bool(call.args)
    return call.args[0] if is_made and not isinstance(call.args[0], ast.Starred) else None


def on_the_cpu(tensor: cst.CSTNode) -> cst.BaseExpression:
    """`tensor.cpu()`."""
    assert isinstance(tensor, cst.BaseExpression)
    if not tensor.lpar and not isinstance(tensor, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)):
        tensor = tensor.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return snippets.expression("{tensor}.cpu()", tensor=tensor)
