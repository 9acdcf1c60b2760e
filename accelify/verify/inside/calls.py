"""Records when a script clears and clips gradients and steps schedules; its passes and steps are recorded elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any  # torch's functions take what they take

import torch
from torch import nn
from torch.optim import lr_scheduler

from accelify.verify.inside.record import Recorder

CLIPS = ("clip_grad_norm_", "clip_grad_value_")


def install(recorder: Recorder) -> None:
    """Record from here on. What such a call makes of its own, a schedule of other schedules say, is part of it."""
    depth = [0]

    def watch(owner: Any, name: str, kind: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        @wraps(real)
        def call(*given: Any, **options: Any) -> Any:
            if depth[0] == 0:
                recorder.write("call", kind=kind, at=recorder.place())
            depth[0] += 1
            try:
                return real(*given, **options)
            finally:
                depth[0] -= 1

        setattr(owner, name, call)

    for name in CLIPS:
        watch(nn.utils, name, name)
    for owner in (torch.optim.Optimizer, nn.Module):
        watch(owner, "zero_grad", "zero_grad")
    for kind in vars(lr_scheduler).values():
        if isinstance(kind, type) and issubclass(kind, lr_scheduler.LRScheduler) and "step" in vars(kind):
            watch(kind, "step", "scheduler.step")
