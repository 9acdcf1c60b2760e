"""Keep a script on the CPU that names no device, and gives its models tensors of its own.

    accelerator = Accelerator(cpu=True)

Why: `prepare` brings a model to the process's GPU, and a prepared loader brings its batches there. Tensors that the
script makes itself, and batches of loaders that are not prepared, stay in the CPU's memory, where the plain script
computed with them; the first step would stop on a machine with a GPU. To use GPUs, bring these to
`accelerator.device`, and take `cpu=True` away.
Left alone: scripts that name a device, and those whose models get batches of prepared loaders only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.edits import Plan, Remark
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "own_tensors"


def find(script: Script, plan: Plan) -> Iterator[Remark]:
    """A note at the first such tensor."""
    node = script.homemade
    if node is not None:
        message = (
            f"`{_short(node)}` is in the CPU's memory, and the script names no device: it stays on the CPU; for GPUs, "
            "bring what no prepared loader yields to the accelerator's device, and take `cpu=True` away"
        )
        yield Remark(NAME, script.path(node), node, message, Tier.REVIEW)


def _short(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else f"{text[:37]}..."
