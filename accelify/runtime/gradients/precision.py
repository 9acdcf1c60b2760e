"""In which precision the forward pass computes, and what keeps small fp16 gradients from vanishing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any  # hooks see whatever the model takes and returns
from weakref import WeakValueDictionary

import torch
from torch import nn
from torch.optim import Optimizer

from accelify.runtime.world import tensors

_LOW = (torch.float16, torch.bfloat16)


class Precision:
    """The script's own precision: nothing is done."""

    name = "no"
    scaler: Any = None  # a GradScaler where there is one

    def autocast(self) -> AbstractContextManager[Any]:
        """Nothing to switch on."""
        return nullcontext()

    def prepare_model(self, model: nn.Module) -> None:
        """Leave the model as it is."""

    def release(self, model: nn.Module) -> None:
        """Nothing was done to the model."""

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss itself."""
        return loss

    def unscale(self, optimizers: Iterable[Optimizer]) -> None:
        """Nothing was scaled."""

    @property
    def needs_steps(self) -> bool:
        """Whether optimizers must step through `step`."""
        return False

    def step(self, optimizer: Optimizer, step: Callable[[], Any]) -> tuple[Any, bool]:
        """The result of the step, and whether the step was taken."""
        return step(), True

    def watch(self, optimizer: Optimizer) -> None:
        """Nothing to keep of an optimizer."""

    def forget(self) -> None:
        """Nothing was kept."""


class BFloat16(Precision):
    """bf16 where autocast finds it safe; what the model returns comes back in fp32.

    Inside the script's own `autocast` it comes back as autocast leaves it, as any module's result would.
    """

    name = "bf16"
    _dtype = torch.bfloat16

    def __init__(self, device: torch.device, options: dict[str, Any]) -> None:
        self._device_type = device.type
        self._options = options

    def autocast(self) -> AbstractContextManager[Any]:
        """The context in which the forward pass computes."""
        return torch.autocast(self._device_type, **{"dtype": self._dtype, **self._options})

    @property
    def is_running(self) -> bool:
        """Whether this is inside such a context already."""
        is_enabled = torch.is_autocast_enabled(self._device_type)
        return is_enabled and torch.get_autocast_dtype(self._device_type) is self._dtype

    def enter(self) -> Any:
        """The same context entered by a call, and what to leave it with: torch.compile can follow these calls."""
        options = {"enabled": True, "cache_enabled": None, "dtype": self._dtype, **self._options}
        chosen = options["dtype"], options["enabled"], options["cache_enabled"]
        return torch.amp.autocast_mode._enter_autocast(self._device_type, *chosen)  # type: ignore[no-untyped-call]

    def prepare_model(self, model: nn.Module) -> None:
        """Let the model's `__call__` compute under autocast, by hooks that no copy and no file of the model has."""
        if any(isinstance(hook, _Enter) for hook in model._forward_pre_hooks.values()):
            return
        for name in ("_forward_pre_hooks", "_forward_hooks", "_forward_hooks_always_called"):
            hooks = _OwnHooks(getattr(model, name))
            vars(model)[name] = hooks
        entered: list[Any] = []
        model.register_forward_pre_hook(_Enter(self, entered), prepend=True)
        model.register_forward_hook(_Leave(entered), always_call=True)

    def release(self, model: nn.Module) -> None:
        """Remove the hooks."""
        for hooks in (model._forward_pre_hooks, model._forward_hooks):
            for key in [key for key, hook in hooks.items() if isinstance(hook, (_Enter, _Leave))]:
                del hooks[key]
                model._forward_hooks_always_called.pop(key, None)


class Float16(BFloat16):
    """fp16 where autocast finds it safe, with the loss scaled so that small gradients survive."""

    name = "fp16"
    _dtype = torch.float16

    def __init__(self, device: torch.device, options: dict[str, Any], scaler: dict[str, Any]) -> None:
        super().__init__(device, options)
        self.scaler = torch.amp.GradScaler(device.type, **scaler)
        self._watched: WeakValueDictionary[int, Optimizer] = WeakValueDictionary()
        self._stepped: set[int] = set()
        self._unscaled: set[int] = set()

    def watch(self, optimizer: Optimizer) -> None:
        """Update the scale only when this optimizer, too, has stepped."""
        self._watched[id(optimizer)] = optimizer

    def forget(self) -> None:
        """Forget every optimizer."""
        self._watched.clear()
        self._forget()

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss times the scale."""
        return self.scaler.scale(loss)  # type: ignore[no-any-return]  # a GradScaler here

    def unscale(self, optimizers: Iterable[Optimizer]) -> None:
        """Divide these optimizers' gradients by the scale, once in a step however often it is asked."""
        for optimizer in optimizers:
            self._begin(optimizer)
            if id(optimizer) not in self._unscaled:
                self.scaler.unscale_(optimizer)
                self._unscaled.add(id(optimizer))

    @property
    def needs_steps(self) -> bool:
        """Steps must go through the scaler, which leaves one out after an overflow."""
        return True

    def step(self, optimizer: Optimizer, step: Callable[[], Any]) -> tuple[Any, bool]:
        """The step, unless a gradient overflowed; then one update of the scale for all optimizers that stepped."""
        if self.scaler._scale is None:  # no backward pass yet: there is nothing to unscale
            return step(), True
        self.unscale([optimizer])
        found = self.scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        is_taken = not sum(flag.item() for flag in found.values())
        result = step() if is_taken else None
        self._stepped.add(id(optimizer))
        if self._stepped >= set(self._watched):
            self.scaler.update()
            self._forget()
        return result, is_taken

    def _begin(self, optimizer: Optimizer) -> None:
        """Let an optimizer step again before the others have: the scale follows from those that stepped.

        Gradients that wait, of this one and of those that have not stepped, were made by the scale before and are
        brought to the new one.
        """
        if id(optimizer) not in self._stepped:
            return
        waiting = [one for key, one in self._watched.items() if key not in self._unscaled or one is optimizer]
        before = self.scaler.get_scale()
        self.scaler.update()
        self._forget()
        if (factor := self.scaler.get_scale() / before) != 1.0:
            for parameter in {id(p): p for one in waiting for g in one.param_groups for p in g["params"]}.values():
                if parameter.grad is not None:
                    parameter.grad.mul_(factor)

    def _forget(self) -> None:
        self._stepped.clear()
        self._unscaled.clear()


class _OwnHooks(OrderedDict[int, Any]):
    """A module's hooks; a copy or a file of the module has all but ours."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        ours = (_Enter, _Leave)
        kept = [(key, hook) for key, hook in self.items() if not isinstance(hook, ours) and hook is not True]
        return OrderedDict, (kept,)


class _Enter:
    def __init__(self, precision: BFloat16, entered: list[Any]) -> None:
        self._precision = precision
        self._entered = entered

    def __call__(self, module: nn.Module, inputs: Any) -> None:
        self._entered.append(None if self._precision.is_running else self._precision.enter())


class _Leave:
    def __init__(self, entered: list[Any]) -> None:
        self._entered = entered

    def __call__(self, module: nn.Module, inputs: Any, output: Any) -> Any:
        context = self._entered.pop() if self._entered else None
        if context is None:
            return output
        torch.amp.autocast_mode._exit_autocast(context)  # type: ignore[no-untyped-call]
        return _widened(output)


def _widened(output: Any) -> Any:
    if isinstance(output, torch.Tensor):
        return output.float() if output.dtype in _LOW else output
    if any(isinstance(leaf, torch.Tensor) and leaf.dtype in _LOW for leaf in tensors.leaves(output)):
        return tensors.map_leaves(lambda leaf: _widened(leaf) if isinstance(leaf, torch.Tensor) else leaf, output)
    return output


def choose_precision(name: str, device: torch.device, autocast: dict[str, Any], scaler: dict[str, Any]) -> Precision:
    """The precision of this name."""
    if name == "bf16":
        return BFloat16(device, autocast)
    if name == "fp16":
        return Float16(device, autocast, scaler)
    return Precision()
