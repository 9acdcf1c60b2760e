"""One process: a model is trained as it is. What every other way to train together does differently, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any  # backward hands on what Tensor.backward takes

import torch
from torch import nn
from torch.optim import Optimizer


class Single:
    """One process: a model is trained as it is."""

    synchronises = True

    def prepare_model(self, model: nn.Module) -> nn.Module:
        """The model itself."""
        return model

    def prepare_optimizer(self, optimizer: Optimizer) -> None:
        """Its parameters are trained as they are."""

    def backward(self, loss: torch.Tensor, *, may_end: bool = False, **options: Any) -> None:
        """The plain backward pass."""
        loss.backward(**options)  # type: ignore[no-untyped-call]

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Nothing is ever synchronised."""
        yield

    @contextmanager
    def sync(self) -> Iterator[None]:
        """Nothing has to be."""
        yield

    @property
    def is_joining(self) -> bool:
        """Whether ranks may come to their end at different times: one process never does."""
        return True

    def end_apart(self) -> None:
        """Nobody else goes on."""

    @contextmanager
    def join(self, catch_up: Callable[[int], None]) -> Iterator[None]:
        """Nobody to wait for."""
        yield

    def loose_parameters(self) -> list[torch.Tensor]:
        """None that would need to be known."""
        return []

    def forget(self) -> None:
        """Nothing is kept."""
