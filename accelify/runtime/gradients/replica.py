"""A model of which every rank holds a copy: which parameters it trains, and the hooks that report their gradients."""

from __future__ import annotations

import itertools
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable
from operator import is_not
from typing import Any, Protocol  # modules hold anything by name

import torch
from torch import nn
from torch.nn.parameter import is_lazy


class Trained(Protocol):
    """An object with parameters to train: a model, or parameters of an optimizer that no prepared model owns."""

    def parameters(self) -> Iterable[torch.Tensor]:
        """The parameters that are trained, and those that may be trained later."""

    def modules(self) -> Iterable[nn.Module]:
        """The modules whose buffers must agree."""

    def buffers(self) -> Iterable[torch.Tensor]:
        """Their buffers."""


class Owner(Protocol):
    """The strategy that averages a replica's gradients: that of the accelerator that prepared the model last."""

    synchronises: bool

    def begin_unannounced(self) -> None:
        """Begin a round for a backward pass that did not come through the accelerator."""

    def disown(self, replica: Replica) -> None:
        """Leave this replica to another owner."""


class GradientHook:
    """Reports to a replica that one of its gradients is complete; also marks a parameter as prepared."""

    __slots__ = ("index", "replica")

    def __init__(self, replica: Replica, index: int) -> None:
        self.replica = replica
        self.index = index

    def __call__(self, parameter: torch.Tensor) -> None:
        self.replica.arrived(self.index, parameter)


class Replica(ABC):
    """One model, or an optimizer's parameters that no prepared model owns, of which every rank holds a copy."""

    def __init__(self, model: Trained, world_size: int) -> None:
        self.model = weakref.ref(model)
        self.world_size = world_size
        self.owner: Owner | None = None
        self.is_open = False
        self.parameters: list[torch.Tensor] = []
        # Hashes of the sets of parameters that all ranks have trained at once.
        self.agreed: set[int] = set()
        self._structure: Structure | None = None
        self._kinds: list[tuple[torch.dtype, torch.device]] = []
        self._handles: list[torch.utils.hooks.RemovableHandle] = []
        # Kept alive, so that an id stands for one parameter.
        self._known: dict[int, torch.Tensor] = {}

    # -- what each backend does in its own way

    @abstractmethod
    def copy_from_rank_0(self, tensors: list[torch.Tensor]) -> None:
        """Rank 0's values in the tensors of all ranks, in place."""

    @abstractmethod
    def arrange(self, modules: list[nn.Module]) -> None:
        """Make ready for the parameters as they are now, and for the modules' buffers."""

    @abstractmethod
    def open(self) -> None:
        """Begin a round."""

    @abstractmethod
    def arrived(self, index: int, parameter: torch.Tensor) -> None:
        """Take in a gradient that the backward pass has completed; called by autograd."""

    def close(self) -> None:
        """End a round, finished or given up."""
        self.is_open = False

    # -- layout

    def is_stale(self) -> bool:
        """Whether the model trains other parameters now than those laid out."""
        if self._structure is not None:
            has_changed = self.model() is None or self._structure.has_changed()
        else:
            current = self._trainable()
            has_changed = len(current) != len(self.parameters) or any(map(is_not, current, self.parameters))
        return has_changed or self._kinds != _kinds(self.parameters)

    def lay_out(self) -> None:
        """Take the parameters that train now, broadcast those that are new, and hook them; on every rank at once."""
        for handle in self._handles:
            handle.remove()
        self.parameters = self._trainable()
        self._structure = structure_of(self.model())
        self._kinds = _kinds(self.parameters)
        self._broadcast_new_parameters()
        self.arrange([] if (model := self.model()) is None else list(model.modules()))
        self._handles = [
            parameter.register_post_accumulate_grad_hook(GradientHook(self, index))  # type: ignore[no-untyped-call]
            for index, parameter in enumerate(self.parameters)
        ]
        self.close()

    def _trainable(self) -> list[torch.Tensor]:
        model = self.model()
        return [] if model is None else [p for p in _own_parameters(model) if p.requires_grad]

    def release(self) -> None:
        """Remove the hooks: the model is no longer prepared."""
        for handle in self._handles:
            handle.remove()
        self.owner = None

    def has(self, parameter: torch.Tensor) -> bool:
        """Whether this is one of the parameters, trained at present or not."""
        return self._known.get(id(parameter)) is parameter

    def broadcast(self) -> None:
        """Start every rank from rank 0's parameters and buffers."""
        model = self.model()
        if model is None:
            return
        self._broadcast_new_parameters()
        self.copy_from_rank_0([buffer for buffer in model.buffers() if not is_lazy(buffer)])

    def _broadcast_new_parameters(self) -> None:
        model = self.model()
        everything = [] if model is None else _own_parameters(model)
        fresh = [parameter for parameter in everything if id(parameter) not in self._known]
        # The memory of a sparse tensor is not that of its `.data`.
        self.copy_from_rank_0([p.data if p.layout is torch.strided else p for p in fresh])
        self._known.update({id(parameter): parameter for parameter in fresh})


def _own_parameters(model: Trained) -> list[torch.Tensor]:
    """Those that are there, without results that stand in a parameter's place (weights that another network makes)."""
    return [one for one in model.parameters() if one.is_leaf and not is_lazy(one)]


def _kinds(parameters: list[torch.Tensor]) -> list[tuple[torch.dtype, torch.device]]:
    return [(parameter.dtype, parameter.device) for parameter in parameters]


def replica_of(model: nn.Module) -> Replica | None:
    """The replica that an earlier `prepare` made of this model, by the hooks on its parameters."""
    for parameter in model.parameters():
        for hook in (getattr(parameter, "_post_accumulate_grad_hooks", None) or {}).values():
            if isinstance(hook, GradientHook) and hook.replica.model() is model:
                return hook.replica
    return None


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
    """The structure of a module with PyTorch's own `parameters` and `named_modules`; None of anything else."""
    if not isinstance(model, nn.Module):
        return None
    own = (nn.Module.parameters, nn.Module.named_parameters, nn.Module.named_modules)
    kind = type(model)
    return Structure(model) if (kind.parameters, kind.named_parameters, kind.named_modules) == own else None


def shapes_of(model: nn.Module) -> str:
    """A model's parameters and buffers as text, for ranks to compare."""
    named = [*model.named_parameters(), *model.named_buffers()]
    return " ".join(f"{name}:{str(tensor.dtype).removeprefix('torch.')}{shape_of(tensor)}" for name, tensor in named)


def shape_of(tensor: torch.Tensor) -> list[int] | str:
    """A tensor's shape, where it has one already."""
    return "lazy" if is_lazy(tensor) else list(tensor.shape)
