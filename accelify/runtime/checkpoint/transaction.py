"""Load states so that a failure changes nothing: what would not fit is found before, the rest is taken back.

A module of torch's own copies tensor by tensor and fails at the first that does not fit, so its names and shapes are
compared before. What loads in a way of its own, as a registered object, may fail anywhere: what it held is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any  # objects and states of every kind

import torch
from torch import nn
from torch.optim import Optimizer

from accelify.errors import AccelifyError
from accelify.runtime.world.tensors import map_leaves


class DoesNotFit(AccelifyError):
    """A state that is not one of the object that was prepared."""


class Transaction:
    """The changes made so far, and how each is undone."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def before(self, undo: Callable[[], None]) -> None:
        """Note how the change that comes now is taken back."""
        self._undo.append(undo)

    def load(self, name: str, one: Any, state: Any, **options: Any) -> None:
        """Let an object load its state. Raises: DoesNotFit with the object's name and what it says."""
        self.before(undo_of(one))
        try:
            one.load_state_dict(state, **options)
        except Exception as error:  # of an object of the script's own, whatever it is
            raise DoesNotFit(f"{name} ({type(one).__name__}): {type(error).__name__}: {error}") from error

    def roll_back(self) -> None:
        """Take everything back, the last change first."""
        while self._undo:
            self._undo.pop()()


def check_model(name: str, model: nn.Module, state: Mapping[str, Any], *, strict: bool = True) -> None:
    """Raises: DoesNotFit where names or shapes differ; a model that loads in a way of its own is asked when it does."""
    if loads_itself(model):
        return
    here = model.state_dict()
    lacking = {
        "the checkpoint": [key for key in here if key not in state],
        "it": [key for key in state if key not in here],
    }
    if strict and any(lacking.values()):
        words = [
            f"{who} has no {', '.join(keys[:3])}{' and more' * (len(keys) > 3)}"
            for who, keys in lacking.items()
            if keys
        ]
        raise DoesNotFit(f"{name} ({type(model).__name__}): {'; '.join(words)}")
    for key in (key for key in here if key in state):
        shapes = [list(one.shape) if isinstance(one, torch.Tensor) else None for one in (here[key], state[key])]
        if shapes[0] != shapes[1]:
            raise DoesNotFit(f"{name} ({type(model).__name__}): {key} has the shape {shapes[0]}, and was {shapes[1]}")


def check_optimizer(name: str, optimizer: Any, state: Mapping[str, Any]) -> None:
    """Raises: DoesNotFit where it has other groups of parameters."""
    if not isinstance(optimizer, Optimizer) or "param_groups" not in state:
        return
    here, there = (
        [len(group["params"]) for group in groups] for groups in (optimizer.param_groups, state["param_groups"])
    )
    if here != there:
        raise DoesNotFit(f"{name} ({type(optimizer).__name__}): it has groups of {here} parameters, and had {there}")


def undo_of(one: Any) -> Callable[[], None]:
    """A function that puts the object back into its present state, whatever it loads meanwhile."""
    if isinstance(one, nn.Module) and not loads_itself(one):
        return lambda: None  # it was compared before, and cannot fail
    attributes = dict(vars(one)) if hasattr(one, "__dict__") else {}
    if isinstance(one, Optimizer) and type(one).load_state_dict is Optimizer.load_state_dict:
        # It loads into new tensors, and keeps none of the old: they need no copy.
        return lambda: _set_attributes(one, attributes)
    with suppress(Exception):  # a state that cannot be had or copied: there are the attributes
        state = map_leaves(_copied, one.state_dict())
        return lambda: _load_back(one, attributes, state)
    return lambda: _set_attributes(one, attributes)


def loads_itself(model: nn.Module) -> bool:
    """Whether some module in a model loads its state by code of its own, or a hook."""
    return any(
        module._load_state_dict_pre_hooks
        or module._load_state_dict_post_hooks
        or (not type(module).__module__.startswith("torch.nn.modules.") and _loads_by_itself(type(module)))
        for module in model.modules()
    )


def _loads_by_itself(kind: type[nn.Module]) -> bool:
    names = ("load_state_dict", "_load_from_state_dict", "set_extra_state", "state_dict", "_save_to_state_dict")
    return any(
        name in vars(base)
        for base in kind.__mro__
        if not base.__module__.startswith("torch.nn.modules.") and base is not object
        for name in names
    )


def _copied(leaf: Any) -> Any:
    """A copy; of a tensor in the CPU's memory: on the GPU there may be no room for all of them twice."""
    return leaf.detach().to("cpu", copy=True) if isinstance(leaf, torch.Tensor) else copy.deepcopy(leaf)


def _load_back(one: Any, attributes: dict[str, Any], state: Any) -> None:
    _set_attributes(one, attributes)
    with suppress(Exception):  # it may refuse this as it refused the other
        one.load_state_dict(state)
    _set_attributes(one, attributes)


def _set_attributes(one: Any, attributes: dict[str, Any]) -> None:
    if attributes:
        vars(one).clear()
        vars(one).update(attributes)
