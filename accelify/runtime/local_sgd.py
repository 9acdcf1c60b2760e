"""Local SGD: each process takes steps of its own, and now and then all take the mean of their parameters."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType

import torch
from torch import nn

from accelify.runtime.accelerator import Accelerator


class LocalSGD:
    """A block in which gradients are not averaged; every `local_sgd_steps` calls of `step`, parameters are.

    Momentum and other state of the optimizer stay each process's own. Go on with them in another such block: where one
    has momentum, a backward pass outside raises Diverged; `save_state` warns, and keeps process 0's. One process trains
    as without it.
    Units: local_sgd_steps in calls of `step`.
    Source: https://arxiv.org/abs/1805.09767
    """

    def __init__(self, accelerator: Accelerator, model: nn.Module, local_sgd_steps: int, enabled: bool = True) -> None:
        """Raises: ValueError for fewer than one step."""
        if local_sgd_steps < 1:
            raise ValueError(f"local_sgd_steps={local_sgd_steps}: at least 1")
        self.enabled = enabled and accelerator.use_distributed
        self.num_steps = 0
        self._accelerator = accelerator
        self._model = model
        self._every = local_sgd_steps
        self._block = ExitStack()

    def __enter__(self) -> LocalSGD:
        if self.enabled:
            self._block.enter_context(self._accelerator.no_sync(self._model))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._block:
            # After an error the others may not come here.
            if self.enabled and error is None:
                self._average()

    def step(self) -> None:
        """Count a step, and average the parameters if it is their turn. Every process must call it."""
        self.num_steps += 1
        if self.enabled and self.num_steps % self._every == 0:
            self._average()

    def _average(self) -> None:
        parameters = [parameter.detach() for parameter in self._model.parameters()]
        means = self._accelerator.reduce(parameters, "mean")
        with torch.no_grad():
            for parameter, mean in zip(parameters, means, strict=True):
                parameter.copy_(mean)
