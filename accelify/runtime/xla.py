"""PyTorch/XLA: one process that trains as it is on the XLA device, whose operations are traced and run together.

Source: https://docs.pytorch.org/xla/release/r2.9/learn/pytorch-on-xla-devices.html
"""

from __future__ import annotations

import importlib
from typing import Any  # torch_xla has no type hints that hold without it

import torch
from torch.optim import Optimizer

from accelify.errors import AccelifyError
from accelify.runtime.parallel import Single


class CannotUseXla(AccelifyError):
    """$PJRT_DEVICE asks for XLA, and it cannot be used."""


def xla_device(world_size: int) -> torch.device:
    """The device that $PJRT_DEVICE names. Raises: CannotUseXla without torch_xla, or for several processes."""
    if world_size > 1:
        raise CannotUseXla("$PJRT_DEVICE is set: several processes on XLA devices are not supported, one is")
    device: torch.device = _torch_xla().device()
    # Moved there, a module would get new parameters, and an optimizer made before would go on stepping the old ones.
    torch.__future__.set_swap_module_params_on_conversion(True)
    return device


def _torch_xla() -> Any:
    try:
        return importlib.import_module("torch_xla")
    except ImportError as error:
        reason = "torch_xla cannot be imported; install it, or unset the variable"
        raise CannotUseXla(f"$PJRT_DEVICE asks for XLA, and {reason} ({error})") from error


class Traced(Single):
    """One process on an XLA device: what a step traced is run when its optimizer has stepped."""

    def prepare_optimizer(self, optimizer: Optimizer) -> None:
        """Have its steps end the trace, as `xm.optimizer_step(optimizer, barrier=True)` does."""
        sync = _torch_xla().sync
        optimizer.register_step_post_hook(lambda *_: sync())
