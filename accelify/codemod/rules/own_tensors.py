"""Let operations mix devices where a script makes tensors itself, or reads them in the CPU's memory.

    accelerator = Accelerator(mixed_devices=True)

Why: `prepare` brings a model to the process's GPU, and a prepared loader brings its batches there. A script that names
no device makes tensors of its own in the CPU's memory, where the plain script computed with them, and hands results to
NumPy and to plots, which read there only: it would stop on a machine with a GPU. With `mixed_devices=True`, the runtime
moves what PyTorch or NumPy would refuse, on a GPU only; each call of torch's functions costs about a microsecond more
then. To do without, bring all tensors to `accelerator.device`, those that NumPy reads back with `.cpu()`, and take
`mixed_devices=True` away.
A script that trains no module, that asks whether tensors are in the CPU's memory, or that changes a tensor through its
NumPy array, keeps training on the CPU, with `Accelerator(cpu=True)` and a note that says at which line. With
`--runtime accelerate`, which cannot mix devices, so does any such script.
A script that uses a GPU keeps its tensors where it has them: see `accelify explain device_moves`. It mixes devices only
where `nn.DataParallel`, which goes, brought batches there, or where nothing is known of a device.
Left alone: scripts whose tensors all come from prepared loaders, and are read by models and losses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.edits.values import Remark
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "own_tensors"


def find(script: Script) -> Iterator[Remark]:
    """A note at the first place that keeps a script on the CPU, and at what other code may put on a device."""
    yield from _shared(script)
    together = script.devices.together
    for node, message in (
        (
            together.homemade if together.homemade not in together.changed_by_arrays else None,
            "the script names no device, and what meets at `{}` may be on two: so the script keeps training on the "
            "CPU; to use GPUs, move all tensors that no prepared loader yields to the accelerator's device, what NumPy "
            "reads to the CPU, and remove `cpu=True`",
        ),
        (
            together.from_others,
            "`{}` and what it is computed with may now be on different devices: move one of them to the other's device",
        ),
    ):
        if node is not None:
            yield Remark(NAME, script.path(node), node, message.format(_short(node)), Tier.REVIEW)


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


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else f"{text[:37]}..."
