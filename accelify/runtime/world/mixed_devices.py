"""Let operations take tensors of the host's memory and of the device together, as they do where all is on the CPU.

A script that was written for the CPU alone makes tensors anywhere, and hands the results to NumPy. Once its models are
on a GPU, PyTorch refuses the first operation in which both meet. Here what was refused is moved, and done again; what
PyTorch accepts costs one more call of a Python function, and nothing is looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any  # the arguments and results of all of torch's functions

import torch
from torch import nn, overrides
from torch.optim import Optimizer
from torch.utils._pytree import tree_iter, tree_map, tree_map_only

_Given = tuple[tuple[Any, ...], dict[str, Any]]  # positional and named arguments
_HOST = torch.device("cpu")
_READS_HOST = ("numpy", "__array__")
_MIXED = 2  # devices
_OF_THE_FIRST = frozenset({"__getitem__", "__setitem__", "__set__"})
# Of gradients, only those that are given can be moved: the graph knows the other tensors as they are. How many come
# first, by position, and what they are called.
_GRAPHS = {"grad": 2, "backward": 1}
_OF_GRAPHS = ("outputs", "inputs", "tensors")
# Lengths and split points are read in the host's memory, wherever the data are: the position of the argument.
_COUNTS = {"_pack_padded_sequence": 1, "_pad_packed_sequence": 1, "tensor_split": 1}
_COUNTS |= dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), 1)
# The statistics that a layer keeps are changed in place: their positions.
_STATISTICS = dict.fromkeys(("batch_norm", "instance_norm"), slice(1, 3))
# `parameter.data = value`: never refused, it would take the parameter from the device, and its model apart. Where a
# module moves its parameters that way, it is meant.
_SET_DATA = torch.Tensor.data.__set__  # type: ignore[attr-defined]  # of torch's C part
_MOVES = nn.Module._apply.__code__

# What `with mode:` is made of; a mode that is entered for good cannot be left in the order of blocks.
_stack: Callable[[overrides.TorchFunctionMode], None] = overrides._push_mode
_unstacked: Callable[[], overrides.TorchFunctionMode] = overrides._pop_mode
_depth: Callable[[], int] = overrides._len_torch_function_stack  # type: ignore[attr-defined]  # of torch's C part


class MixedDevices(overrides.TorchFunctionMode):
    """While it is entered, tensors that an operation refuses on different devices are moved, and it is done again.

    They go to `device`, the process's own; to what is changed in place or taken from, where there is such a tensor.
    The weights of a network stay there from then on.
    NumPy gets copies in the host's memory. Gradients flow back through the moves.
    Not helped is what calls no function of torch's in Python: the backward pass of an own `autograd.Function`, an
    extension in C++. Source: `torch.overrides.TorchFunctionMode`.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self.is_entered = False

    def enter(self) -> None:
        """From here on, until `leave`."""
        if not self.is_entered:
            self.is_entered = True
            _stack(self)

    def leave(self) -> None:
        """Until `enter`, PyTorch refuses what it always does; where all is on one device, that is faster."""
        if self.is_entered:
            self.is_entered = False
            modes = [_unstacked() for _ in range(_depth())]
            for mode in reversed(modes):
                if mode is not self:
                    _stack(mode)

    def skip_steps(self, optimizer: Optimizer) -> None:
        """Be left while an optimizer steps: its states are where its parameters are."""
        if self._before_step in optimizer._optimizer_step_pre_hooks.values():
            return
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(self._after_step)

    def _before_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        has_closure = any(map(callable, [*args[1:], *kwargs.values()]))
        if not has_closure:
            self.leave()

    def _after_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.enter()

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Torch's function; once more, with its tensors together, where it refuses them."""
        if function == _SET_DATA and sys._getframe(1).f_code is not _MOVES:
            return function(args[0], args[1].to(args[0].device))
        given = (args, kwargs or {})
        try:
            return function(*args, **given[1])
        except (RuntimeError, TypeError):
            moved = self._together(function, given)
            if moved is None:
                raise
        args, kwargs = moved
        return function(*args, **kwargs)

    def _together(self, function: Callable[..., Any], given: _Given) -> _Given | None:
        """What a function was given, on one device; None where that is not why it was refused."""
        name = getattr(function, "__name__", "")
        before = [t.device for t in _tensors(given)]
        places = {*before, *([_HOST] if any(map(_is_array, tree_iter(given))) else [])}
        if len(places) < _MIXED and name not in _READS_HOST and name not in _COUNTS:
            return None
        place = _HOST if name in _READS_HOST else self._place(name, given)
        self._bring_for_good(name, given, place)
        args, kwargs = tree_map(lambda each: torch.as_tensor(each) if _is_array(each) else each, given)
        args, kwargs = tree_map_only(torch.Tensor, lambda tensor: tensor.to(place), (args, kwargs))
        first = _GRAPHS.get(name, 0)
        args = (*given[0][:first], *args[first:])
        if first:
            kwargs.update((each, given[1][each]) for each in _OF_GRAPHS if each in kwargs)
        position = _COUNTS.get(name, len(args))
        if position < len(args) and _is_count(args[position]):
            args = (*args[:position], args[position].to(_HOST), *args[position + 1 :])
        return (args, kwargs) if before != [t.device for t in _tensors((args, kwargs))] else None

    def _bring_for_good(self, name: str, given: _Given, place: torch.device) -> None:
        """Bring the weights of a network to the device once, and not in each pass; and what a layer changes itself."""
        layer: list[torch.Tensor] = [t for t in _tensors(given) if isinstance(t, nn.Parameter)]
        layer += _tensors(given[0][_STATISTICS.get(name, slice(0))])
        for tensor in layer if place == self.device else ():
            data, gradient = tensor.data.to(place), tensor.grad if tensor.is_leaf else None
            if torch._has_compatible_shallow_copy_type(tensor, data):
                tensor.data = data
                if gradient is not None:
                    tensor.grad = gradient.to(place)

    def _place(self, name: str, given: _Given) -> torch.device:
        """Where a function's tensors come together: with the one that it changes or takes from, else on the device."""
        args, kwargs = given
        is_in_place = name.endswith("_") and not name.startswith("__")
        is_of_the_first = is_in_place or name.startswith("__i") or name in _OF_THE_FIRST
        owners = _tensors(kwargs["out"] if "out" in kwargs else args[:1] if is_of_the_first else ())
        return owners[0].device if owners else self.device


@cache
def mixed_devices_of(device: torch.device) -> MixedDevices | None:
    """This process's, entered for good; None on the CPU, where there is nothing to move."""
    if device.type == "cpu":
        return None
    mixed = MixedDevices(device)
    mixed.enter()
    return mixed


def _tensors(given: Any) -> list[torch.Tensor]:
    return [each for each in tree_iter(given) if isinstance(each, torch.Tensor)]


def _is_array(given: Any) -> bool:
    """Whether it is one of NumPy's, which a comparison takes like a tensor in the host's memory."""
    return hasattr(given, "__array_interface__") and given.ndim > 0 and not isinstance(given, torch.Tensor)


def _is_count(given: Any) -> bool:
    """Whether an argument holds whole numbers, not the state that some calls have at the same position."""
    return isinstance(given, torch.Tensor) and not given.is_floating_point()
