"""What optimizers and schedulers need so that all ranks take the same steps."""

from __future__ import annotations

from typing import Any  # step's arguments are the optimizer's own

import torch
from torch.optim import Optimizer

from accelify.runtime.collectives import Alone


class _SameLoss:
    """A step hook: a closure's loss becomes the mean over ranks.

    LBFGS decides by the loss how often to call the closure; on their own losses the ranks would part and wait for
    each other forever.
    """

    def __init__(self, collectives: Alone) -> None:
        self._collectives = collectives

    def __call__(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # torch passes the optimizer as the first of `args` too.
        given = list(args)
        if len(given) > 1 and callable(given[1]):
            given[1] = self._shared(given[1])
        elif callable(kwargs.get("closure")):
            kwargs = {**kwargs, "closure": self._shared(kwargs["closure"])}
        else:
            return None
        return tuple(given), kwargs

    def _shared(self, closure: Any) -> Any:
        def shared() -> Any:
            loss = closure()
            is_number = isinstance(loss, (int, float, torch.Tensor))
            return self._collectives.reduce(loss, "mean") if is_number else loss

        return shared


def prepare_optimizer(optimizer: Optimizer, collectives: Alone, world_size: int) -> Optimizer:
    """The optimizer itself; over several processes with a hook for closures."""
    hooks = optimizer._optimizer_step_pre_hooks.values()
    if world_size > 1 and not any(isinstance(hook, _SameLoss) for hook in hooks):
        optimizer.register_step_pre_hook(_SameLoss(collectives))
    return optimizer
