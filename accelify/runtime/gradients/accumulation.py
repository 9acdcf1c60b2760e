"""Windows of micro-batches: when to synchronise and step, and by what a window's gradients are divided."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from accelify.runtime.gradients.strategy import Strategy
from accelify.runtime.world.collectives import Collectives

# The parameters that the models of a window train; those of all models for a window that names none.
Parameters = Callable[[Sequence[nn.Module]], Iterable[torch.Tensor]]


@dataclass(slots=True)
class Window:
    """The micro-batches whose gradients become one step of some models, which the script keeps."""

    references: tuple[weakref.ref[nn.Module], ...]
    count: int = 0
    weight: float = 0.0

    @property
    def models(self) -> list[nn.Module]:
        """The models that are still there."""
        return [model for reference in self.references if (model := reference()) is not None]


class Accumulation:
    """One window per set of models, so that a GAN's two networks keep their own."""

    def __init__(
        self,
        *,
        steps: int,
        strategy: Strategy,
        collectives: Collectives,
        is_last_batch: Callable[[], bool],
        sync_with_dataloader: bool = True,
        sync_each_batch: bool = False,
    ) -> None:
        self.steps = steps
        self.is_complete = True
        self.backward_passes = 0
        self._strategy = strategy
        self._collectives = collectives
        self._is_last_batch = is_last_batch
        self._with_loader = sync_with_dataloader
        self._each_batch = sync_each_batch
        self._windows: dict[tuple[weakref.ref[nn.Module], ...], Window] = {}
        self._current: Window | None = None

    @contextmanager
    def window(self, models: tuple[nn.Module, ...]) -> Iterator[None]:
        """One micro-batch of these models; the window is complete after `steps` of them or at the loader's end.

        Whether it is, holds for what the script does after the block, too: until the next window or backward pass.
        """
        window = self._window_of(tuple(map(weakref.ref, models)))
        window.count += 1
        outer, was_complete = self._current, self.is_complete
        at_end = self._with_loader and self._is_last_batch()
        self._current, self.is_complete = window, window.count >= self.steps or at_end
        try:
            if self.is_complete or self._each_batch:
                yield
            else:
                with self._strategy.no_sync():
                    yield
        finally:
            if self.is_complete:
                window.count, window.weight = 0, 0.0
            self._current = outer
            if outer is not None:
                self.is_complete = was_complete

    def _window_of(self, models: tuple[weakref.ref[nn.Module], ...]) -> Window:
        if models not in self._windows:
            self._windows = {
                known: window for known, window in self._windows.items() if all(one() is not None for one in known)
            }
        return self._windows.setdefault(models, Window(models))

    def forget(self) -> None:
        """Drop every window."""
        self._windows.clear()
        self.is_complete = True

    def divide(self, loss: torch.Tensor, weight: float | None) -> torch.Tensor:
        """The part of the loss that goes into the backward pass."""
        self.backward_passes += 1
        if self._current is None:
            self.is_complete = True
        if weight is not None:
            if self._current is not None:
                self._current.weight += weight
            return loss * weight
        return loss if self.steps == 1 else loss / self.steps

    def settle(self, weight: float | None, parameters: Parameters, world_size: int) -> None:
        """After the backward pass that completes a window: divide by its true length or weight."""
        if not self.is_complete:
            return
        window = self._current
        if weight is not None:
            total = self._collectives.reduce(float(weight if window is None else window.weight), "sum")
            # Without any weight there is no gradient, and nothing to divide.
            _multiply(parameters(() if window is None else window.models), world_size / (total or 1.0))
        elif window is not None and window.count < self.steps:
            _multiply(parameters(window.models), self.steps / window.count)


def _multiply(parameters: Iterable[torch.Tensor], factor: float) -> None:
    with torch.no_grad():
        for gradient in {id(p.grad): p.grad for p in parameters if p.grad is not None}.values():
            gradient.mul_(factor)
