"""Move to the CPU what NumPy or a plot reads, in a script that names no GPU.

    losses.append(loss.data.numpy())    ->    losses.append(loss.data.cpu().numpy())
    np.array(y)                         ->    np.array(y.cpu())
    axes[0].plot(x, y)                  ->    axes[0].plot(x.cpu(), y.cpu())
    losses.append(loss.detach())        ->    losses.append(loss.detach().cpu()), for plt.plot(losses)
    pack_padded_sequence(x, lengths)    ->    pack_padded_sequence(x, lengths.cpu())

Why: prepared loaders and models keep their tensors on the process's device, and these read the CPU's memory only. A
script that knew of no GPU would stop there on a GPU; on the CPU `cpu()` does nothing.
A library of arrays reads there whatever its function is, or its object's method: an axis of a plot, an estimator.
An array in a tensor's memory on the CPU, and that the script changes, would leave the tensor as it is on a GPU:
a script that names no device keeps training on the CPU, with `Accelerator(cpu=True)` and a note at the change.
Left alone: what is brought to the CPU already, tensors that the script made itself and that stay there, and what may be
no tensor: then the accelerator is `Accelerator(mixed_devices=True)`, which reads both. Scripts that use a GPU say
themselves what is where.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Remark, Replace
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "to_numpy"


def find(script: Script) -> Iterator[Change | Remark]:
    """A change for each tensor on the device that becomes an array, or that meets what is on the CPU.

    A note for what may be such a tensor.
    """
    yield from _shared(script)
    together = script.devices.together
    if together.homemade is not None:
        return  # it stays on the CPU
    for tensor in together.back:
        reason = "the tensor is on the device, but this reads CPU memory only"
        line = script.program.line(tensor)
        yield Change(NAME, script.path(tensor), line, reason, (Replace(tensor, on_the_cpu, keeps=(tensor,)),))
    for node in together.doubtful:
        text = ast.unparse(node)
        message = (
            f"`{text}` has to be in the CPU's memory here, and a prepared loader brings the tensors of a batch to the "
            f"device: write `{text}.cpu()` if it is a tensor"
        )
        yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)


def _shared(script: Script) -> Iterator[Remark]:
    """A note for each tensor that a script which names no device changes through NumPy."""
    for tensor, change in script.devices.together.changed_by_arrays.items():
        text = ast.unparse(tensor)
        said = f"`{text}` changes with this array only as long as it is in CPU memory"
        cure = f"change `{text}` itself, or copy the array back to it (`copy_`)"
        message = f"{said}, and it may be on a GPU here: {cure}"
        if script.devices.together.homemade is not None:
            message = f"{said}, so the script keeps training on the CPU: to use GPUs, {cure}, and remove `cpu=True`"
        yield Remark(NAME, script.path(change), change, message, Tier.REVIEW)


def on_the_cpu(tensor: cst.CSTNode) -> cst.BaseExpression:
    """`tensor.cpu()`."""
    assert isinstance(tensor, cst.BaseExpression)
    if not tensor.lpar and not isinstance(tensor, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)):
        tensor = tensor.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return snippets.expression("{tensor}.cpu()", tensor=tensor)
