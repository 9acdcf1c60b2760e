"""Bring to the CPU what NumPy or a plot reads, and what a tensor of the CPU's is made of.

    losses.append(loss.data.numpy())    ->    losses.append(loss.data.cpu().numpy())
    np.array(y)                         ->    np.array(y.cpu())
    plt.plot(x, y)                      ->    plt.plot(x.cpu(), y.cpu())
    torch.FloatTensor(x)                ->    torch.FloatTensor(x.cpu())

Why: prepared loaders and models keep their tensors on the process's device, and these read the CPU's memory only. A
script that knew of no GPU, or left the labels where they were, would stop there on a GPU; on the CPU `cpu()` does
nothing.
Left alone: what is brought to the CPU already, and tensors that the script made itself and that stay there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from accelify.codemod.devices.on_device import read_on_cpu
from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Replace
from accelify.codemod.script import Script

NAME = "to_numpy"


def find(script: Script) -> Iterator[Change]:
    """A change for each tensor on the device that becomes an array, or another on the CPU."""
    if script.devices.homemade is not None:
        return  # it stays on the CPU
    for call in script.program.calls:
        if script.program.frame(call) not in script.program.reachable:
            continue
        for tensor in read_on_cpu(script.program, call):
            if tensor in script.devices.brought.read or _is_there(script, tensor):
                yield Change(
                    NAME,
                    script.path(call),
                    call.lineno,
                    "it is on the device, and this reads the CPU's memory only",
                    (Replace(tensor, on_the_cpu, keeps=(tensor,)),),
                )


def _is_there(script: Script, tensor: ast.expr) -> bool:
    return script.path(tensor) in script.files and script.devices.on_device.holds(tensor)


def on_the_cpu(tensor: cst.CSTNode) -> cst.BaseExpression:
    """`tensor.cpu()`."""
    assert isinstance(tensor, cst.BaseExpression)
    if not tensor.lpar and not isinstance(tensor, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)):
        tensor = tensor.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return snippets.expression("{tensor}.cpu()", tensor=tensor)
