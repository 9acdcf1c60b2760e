"""Records how modules and optimizers are set, at each backward pass where that changes, and the modules' buffers."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import wraps
from itertools import count
from typing import Any  # settings are anything

import torch
from torch import nn
from torch.optim import Optimizer

from accelify.verify.inside.record import Recorder, digest

PLAIN = (bool, int, float, str, type(None))
# Of an optimizer's groups: what is compared elsewhere, or is how and not what it computes.
ELSEWHERE = {"params", "lr", "initial_lr", "foreach", "fused", "capturable"}
# Wrappers of a module on several GPUs or processes that compute the same: a migration may take them off.
WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel, nn.SyncBatchNorm)


class Settings:
    """The settings that were recorded last."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._modules: list[tuple[str, nn.Module]] | None = None
        self._last: dict[str, str] = {}
        self._made = _count_modules()

    def before_pass(self) -> None:
        """Record what has changed since the last backward pass."""
        if self._modules is None:
            self._modules = list(_modules(self._made))
        now = {f"{path}.{name}": value for path, module in self._modules for name, value in _of_module(module)}
        self._write(now)

    def before_step(self, number: int, optimizer: Optimizer) -> None:
        """Record how an optimizer is set."""
        found = {f"optimizer {number + 1}: len(param_groups)": str(len(optimizer.param_groups))}
        for index, group in enumerate(optimizer.param_groups):
            front = f"optimizer {number + 1}" + (f", group {index + 1}" if len(optimizer.param_groups) > 1 else "")
            found |= {f"{front}: {name}": value for name, value in _plain(group) if name not in ELSEWHERE}
        self._write(found)

    def after_step(self) -> None:
        """Record the buffers of all modules."""
        buffers = {
            f"{path}.{name}": digest(buffer)
            for path, module in self._modules or ()
            for name, buffer in module._buffers.items()
            if buffer is not None and not buffer.is_meta
        }
        if buffers:
            self._recorder.write("buffers", at=self._recorder.place(), digests=buffers)

    def _write(self, now: dict[str, str]) -> None:
        new = {name: value for name, value in now.items() if self._last.get(name) != value}
        if new:
            self._last |= new
            self._recorder.write("settings", values=new)


def _of_module(module: nn.Module) -> Iterator[tuple[str, str]]:
    if not isinstance(module, WRAPPERS):
        yield "class", type(module).__name__
    yield from ((name, value) for name, value in _plain(vars(module)) if not name.startswith("_"))
    yield from ((name, "None" if buffer is None else "a tensor") for name, buffer in module._buffers.items())


def _plain(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        is_short = isinstance(value, (tuple, list)) and len(value) <= 8 and all(isinstance(x, PLAIN) for x in value)
        if isinstance(value, PLAIN) or is_short:
            yield name, repr(value)[:80]
        elif isinstance(value, torch.Tensor) and value.numel() == 1 and not value.requires_grad:
            yield name, repr(value.item())


def _count_modules() -> dict[int, int]:
    """The order in which modules are made from here on, by identity: the garbage collector knows another one."""
    made: dict[int, int] = {}
    numbers, start = count(), nn.Module.__init__

    @wraps(start)
    def started(module: nn.Module, *given: Any, **options: Any) -> None:
        start(module, *given, **options)
        made[id(module)] = next(numbers)

    nn.Module.__init__ = started  # type: ignore[method-assign, assignment]
    return made


def _modules(made: dict[int, int]) -> Iterator[tuple[str, nn.Module]]:
    """Every module of the script's models and losses, by the root's class and its path below it."""
    everything = [each for each in gc.get_objects() if isinstance(each, nn.Module)]
    everything.sort(key=lambda module: made.get(id(module), len(made)))
    children = {id(child) for module in everything for child in module._modules.values() if child is not None}
    counts: Counter[str] = Counter()
    for root in _roots(everything, children):
        name = type(root).__name__
        counts[name] += 1
        front = name if counts[name] == 1 else f"{name} {counts[name]}"
        for path, module in root.named_modules():
            yield (f"{front}.{path}" if path else front), module


def _roots(everything: Sequence[nn.Module], children: set[int]) -> Iterator[nn.Module]:
    for each in everything:
        if id(each) not in children:
            yield (each.module if isinstance(each, nn.parallel.DistributedDataParallel) else each)
