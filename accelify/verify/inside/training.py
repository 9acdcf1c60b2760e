"""Records each backward pass's loss, and at each optimizer step learning rates, gradients and parameters."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import reduce, wraps
from typing import Any, NoReturn  # torch's hooks are untyped

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from accelify.verify.inside import calls
from accelify.verify.inside.reach import Reach
from accelify.verify.inside.record import Recorder, Sketcher, digest
from accelify.verify.inside.settings import Settings


class Training:
    """The state of the training under way, as far as it is known."""

    def __init__(self, recorder: Recorder, steps: int | None, reach: Reach, stop: Callable[[], NoReturn]) -> None:
        self._recorder = recorder
        self._reach = reach
        self._sketcher = Sketcher()
        self._limit = steps
        self._stop = stop
        self._settings = Settings(recorder)
        self._optimizers: list[Optimizer] = []  # kept alive, so that no other gets one's identity
        self._sizes: dict[int, int] = {}
        self._by_hand: list[nn.Module] | None = None  # models that the script steps without an optimizer
        self._backward = torch.autograd.backward
        self._is_inside = False
        self._step_depth = 0
        self.passes = 0
        self.steps = 0

    def backward(self, tensors: Any, *rest: Any, **options: Any) -> None:
        """Stands in `torch.autograd.backward`, through which every backward pass goes."""
        if self._is_inside:  # activation checkpointing runs passes of its own inside one
            self._backward(tensors, *rest, **options)
            return
        self._before_pass(tensors)
        self._is_inside = True
        try:
            self._backward(tensors, *rest, **options)
        finally:
            self._is_inside = False

    def _before_pass(self, tensors: Any) -> None:
        if self.passes == 0 and not any(isinstance(each, Optimizer) for each in gc.get_objects()):
            self._by_hand = list(_roots())
        if self._by_hand is not None and self.passes:
            self._step_by_hand(self._by_hand)
        losses = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        with torch._C.DisableTorchFunction():  # no operation of the script's
            value = _sum_of(losses)
        dtype = str(losses[0].dtype).removeprefix("torch.") if losses else "float32"
        self.passes += 1
        self._reach.learned()
        self._settings.before_pass()
        self._recorder.write("backward", loss=value, dtype=dtype, at=self._recorder.place())

    def _step_by_hand(self, models: list[nn.Module]) -> None:
        parameters: list[torch.Tensor] = [each for model in models for each in model.parameters()]
        if 0 not in self._sizes:
            self._announce(0, "no optimizer", parameters, None)
        self._record_step(0, parameters, [], None)

    def before_step(self, optimizer: Optimizer, *_: Any) -> None:
        """Called by torch before each optimizer's step: the gradients are as the step will use them."""
        self._step_depth += 1
        number, parameters = self._number(optimizer), _parameters(optimizer)
        if self._sizes.get(number) != len(parameters):
            self._announce(number, type(optimizer).__name__, parameters, optimizer)
        gradients = [None if each.grad is None else self._sketcher.sketch(each.grad) for each in parameters]
        rates = [float(group.get("lr", 0.0)) for group in optimizer.param_groups]
        self._settings.before_step(number, optimizer)
        self._recorder.write("rates", optimizer=number, rates=rates, gradients=gradients)

    def after_step(self, optimizer: Optimizer, *_: Any) -> None:
        """Called by torch after each optimizer's step."""
        self._step_depth -= 1
        rates = [float(group.get("lr", 0.0)) for group in optimizer.param_groups]
        self._record_step(self._number(optimizer), _parameters(optimizer), rates, optimizer)

    def _record_step(
        self, number: int, parameters: list[torch.Tensor], rates: list[float], optimizer: Optimizer | None
    ) -> None:
        self._recorder.write(
            "step",
            optimizer=number,
            at=self._recorder.place(),
            digests=[digest(each) for each in parameters],
            sketches=[self._sketcher.sketch(each) for each in parameters],
        )
        if self._step_depth == 0:
            self._settings.after_step()
            self.steps += 1
            if self._limit is not None and self.steps >= self._limit and self._reach.is_far_enough(self.steps):
                self._stop()

    def _number(self, optimizer: Optimizer) -> int:
        for number, known in enumerate(self._optimizers):
            if known is optimizer:
                return number
        self._optimizers.append(optimizer)
        return len(self._optimizers) - 1

    def _announce(self, number: int, kind: str, parameters: list[torch.Tensor], optimizer: Optimizer | None) -> None:
        names = _names()
        self._sizes[number] = len(parameters)
        self._recorder.write(
            "optimizer",
            optimizer=number,
            kind=kind,
            names=[names.get(id(each), f"parameter {index}") for index, each in enumerate(parameters)],
            dtypes=[str(each.dtype).removeprefix("torch.") for each in parameters],
            sketches=[self._sketcher.sketch(each) for each in parameters],
        )


def install(recorder: Recorder, steps: int | None, reach: Reach, stop: Callable[[], NoReturn]) -> None:
    """Record from here on; call `stop` after so many optimizer steps, once the run has come far enough."""
    training = Training(recorder, steps, reach, stop)
    calls.install(recorder)
    torch.autograd.backward = training.backward
    load: Any = Optimizer.load_state_dict

    @wraps(load)
    def loaded(optimizer: Optimizer, *given: Any, **options: Any) -> None:
        reach.loaded()
        load(optimizer, *given, **options)

    Optimizer.load_state_dict = loaded  # type: ignore[method-assign, assignment]
    register_optimizer_step_pre_hook(training.before_step)
    register_optimizer_step_post_hook(training.after_step)


def count_steps(recorder: Recorder, steps: int | None, stop: Callable[[], NoReturn]) -> None:
    """Only count optimizer steps, and call `stop` after so many."""
    taken = [0]

    def after_step(*_: Any) -> None:
        taken[0] += 1
        recorder.write("taken")
        if taken[0] == steps:
            stop()

    register_optimizer_step_post_hook(after_step)


def _sum_of(losses: list[torch.Tensor]) -> float:
    """The sum of what goes backward together: of single numbers as the script would add them, to the last bit."""
    if losses and all(loss.numel() == 1 for loss in losses):
        return float(reduce(torch.add, [loss.detach().reshape(()) for loss in losses]))
    return sum(float(loss.detach().to(torch.float64).sum()) for loss in losses)


def _parameters(optimizer: Optimizer) -> list[torch.Tensor]:
    return [each for group in optimizer.param_groups for each in group["params"]]


def _roots() -> Iterator[nn.Module]:
    """The modules that are no other module's child."""
    modules = [each for each in gc.get_objects() if isinstance(each, nn.Module)]
    children = {id(child) for module in modules for child in module._modules.values() if child is not None}
    return (module for module in modules if id(module) not in children)


def _names() -> dict[int, str]:
    """A name for each parameter, with the model's class in front where there are several models."""
    roots = [root for root in _roots() if any(True for _ in root.parameters())]
    names: dict[int, str] = {}
    for root in roots:
        front = f"{type(root).__name__}." if len(roots) > 1 else ""
        if isinstance(root, nn.parallel.DistributedDataParallel):
            root = root.module
        for name, parameter in root.named_parameters():
            names.setdefault(id(parameter), front + name)
    return names
