"""Say what mixed precision by hand means over many processes.

    scaler.scale(loss).backward()    ->    accelerator.backward(scaler.scale(loss))

Why: the script's own `autocast` and `GradScaler` stay right: gradients agree on all processes before the scaler looks
at them, so every process skips the same steps and keeps the same scale.
Left alone: all of it but the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator

from accelify.codemod.edits import Plan, Remark
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "mixed_precision"


def find(script: Script, plan: Plan) -> Iterator[Remark]:
    """A note for each gradient scaler."""
    for call in script.program.calls:
        if script.path(call) in script.files and any(n.endswith("GradScaler") for n in script.program.called(call)):
            message = (
                "stays: the script scales its losses itself, alike in every process; "
                "`Accelerator(mixed_precision=...)` would do it"
            )
            yield Remark(NAME, script.path(call), call, message, Tier.ADVICE)
