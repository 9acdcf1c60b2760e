"""What an optimizer steps that belongs to no prepared model: tensors of the script's own, a model never prepared."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from operator import is_not

import torch
from torch import nn
from torch.optim import Optimizer


class Loose:
    """An optimizer's parameters that are nobody's, seen as a model is; a model prepared later takes its own away."""

    def __init__(self, optimizer: Optimizer, is_owned: Callable[[torch.Tensor], bool]) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._is_owned = is_owned

    def belongs_to(self, optimizer: Optimizer) -> bool:
        """Whether this optimizer steps them."""
        return self._optimizer() is optimizer

    def parameters(self) -> Iterator[torch.Tensor]:
        """The parameters that no model has."""
        optimizer = self._optimizer()
        for group in [] if optimizer is None else optimizer.param_groups:
            for parameter in group["params"]:
                if not self._is_owned(parameter):
                    yield parameter

    def modules(self) -> Iterator[nn.Module]:
        """None: buffers belong to models."""
        return iter(())

    def buffers(self) -> Iterator[torch.Tensor]:
        """None."""
        return iter(())


class Groups:
    """What an optimizer stepped when it was last looked at."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = weakref.ref(optimizer)
        self._stepped = _stepped(optimizer)

    def have_changed(self) -> bool:
        """Whether other parameters are in them now than when this was last asked."""
        optimizer = self.optimizer()
        before, self._stepped = self._stepped, [] if optimizer is None else _stepped(optimizer)
        return len(before) != len(self._stepped) or any(map(is_not, before, self._stepped))


def _stepped(optimizer: Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
