"""Whether a model is still made of what it was: asked before every backward pass, so answered quickly."""

from __future__ import annotations

import itertools
from operator import is_not
from typing import Any  # what modules hold by name

import torch
from torch import nn
from torch.nn.parameter import is_lazy


class Structure:
    """A model's modules and parameters as they were at one time; the model itself is not kept alive."""

    def __init__(self, model: nn.Module) -> None:
        self._held: list[dict[str, Any]] = [
            held for module in model.modules() for held in (module._parameters, module._modules)
        ]
        self._things = list(self._everything())
        self._parameters = [thing for thing in self._things if isinstance(thing, torch.Tensor)]
        self._is_trained = [parameter.requires_grad for parameter in self._parameters]
        self._lazy = [parameter for parameter in self._parameters if is_lazy(parameter)]

    def _everything(self) -> itertools.chain[Any]:
        return itertools.chain.from_iterable([held.values() for held in self._held])

    def has_changed(self) -> bool:
        """Whether there are other modules or parameters now, or others of them are trained."""
        return (
            sum(map(len, self._held)) != len(self._things)
            or any(map(is_not, self._everything(), self._things))
            or [parameter.requires_grad for parameter in self._parameters] != self._is_trained
            or not all(map(is_lazy, self._lazy))
        )


def structure_of(model: Any) -> Structure | None:
    """The structure of a module that says itself what its parameters are; None of anything else."""
    if not isinstance(model, nn.Module):
        return None
    own = (nn.Module.parameters, nn.Module.named_parameters, nn.Module.named_modules)
    kind = type(model)
    return Structure(model) if (kind.parameters, kind.named_parameters, kind.named_modules) == own else None


def shapes_of(model: nn.Module) -> str:
    """A model's parameters and buffers in words, for ranks to compare."""
    named = [*model.named_parameters(), *model.named_buffers()]
    return " ".join(f"{name}:{str(tensor.dtype).removeprefix('torch.')}{shape_of(tensor)}" for name, tensor in named)


def shape_of(tensor: torch.Tensor) -> list[int] | str:
    """A tensor's shape, where it has one already."""
    return "lazy" if is_lazy(tensor) else list(tensor.shape)
