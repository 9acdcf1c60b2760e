"""Optimizers and schedulers that take the same steps on all ranks, and wait while gradients accumulate."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import Any, Protocol  # step's arguments are the optimizer's own

import numpy
import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from accelify.errors import AccelifyError
from accelify.runtime.gradients.accumulation import Accumulation
from accelify.runtime.gradients.precision import Precision
from accelify.runtime.world.collectives import Collectives


class _MeanLoss:
    """A step hook: a closure's loss becomes the mean over ranks.

    LBFGS decides by the loss how often to call the closure; on their own losses the ranks would diverge and wait
    for each other forever.
    """

    def __init__(self, collectives: Collectives) -> None:
        self._collectives = collectives

    def __call__(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # torch passes the optimizer as the first of `args` too.
        given = list(args)
        if len(given) > 1 and callable(given[1]):
            given[1] = self._with_mean_loss(given[1])
        elif callable(kwargs.get("closure")):
            kwargs = {**kwargs, "closure": self._with_mean_loss(kwargs["closure"])}
        else:
            return None
        return tuple(given), kwargs

    def _with_mean_loss(self, closure: Any) -> Any:
        def mean_loss() -> Any:
            loss = closure()
            is_number = isinstance(loss, (int, float, torch.Tensor))
            return self._collectives.reduce(loss, "mean") if is_number else loss

        return mean_loss


def has_hooks(optimizer: Optimizer) -> bool:
    """Whether an optimizer was set up by torch's constructor: one that only wraps another may leave that out."""
    return hasattr(optimizer, "_optimizer_step_pre_hooks")


def wrapped_by(optimizer: Optimizer) -> list[Optimizer]:
    """The optimizers that another keeps in its attributes, to step with them."""
    kept = [one for held in vars(optimizer).values() for one in (held if isinstance(held, (list, tuple)) else [held])]
    return [one for one in kept if isinstance(one, Optimizer) and one is not optimizer]


class Draws(Protocol):
    """The random numbers from which an optimizer may draw in its step, as Langevin dynamics do."""

    def begin_step(self) -> None:
        """Let all ranks draw the same from here on."""

    def end_step(self) -> None:
        """Let each rank draw again as before."""


class _SharedDraws:
    """A step hook, before and after: what the step draws is the same on all ranks, whose parameters must be."""

    def __init__(self, change: Callable[[], None]) -> None:
        self._change = change

    def __call__(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._change()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepping:
    """The parts that decide when optimizers and schedulers step: their number of ranks, the precision, the windows."""

    collectives: Collectives
    draws: Draws
    world_size: int
    precision: Precision
    accumulation: Accumulation
    is_per_epoch: Callable[[int], bool]

    @property
    def may_wait(self) -> bool:
        """Whether a step may have to wait for its window, or be skipped."""
        return self.precision.needs_steps or self.accumulation.steps > 1

    def prepare_optimizer(self, optimizer: Optimizer) -> Optimizer:
        """The optimizer itself: on several ranks with a hook for closures, and with our `step` where steps may wait."""
        if not hasattr(optimizer, "step_was_skipped"):
            optimizer.step_was_skipped = False  # type: ignore[attr-defined]  # for scripts that ask for it
        if steps_of(optimizer) is None and self.may_wait:
            OptimizerSteps(optimizer, self.precision, self.accumulation)
        hooks = optimizer._optimizer_step_pre_hooks.values()
        if self.world_size > 1 and not any(isinstance(hook, _MeanLoss) for hook in hooks):
            optimizer.register_step_pre_hook(_MeanLoss(self.collectives))
            # Those of torch draw nothing, and need no hooks that take time.
            if not type(optimizer).__module__.startswith("torch.optim"):
                optimizer.register_step_pre_hook(_SharedDraws(self.draws.begin_step))
                optimizer.register_step_post_hook(_SharedDraws(self.draws.end_step))
        return optimizer

    def prepare_scheduler(self, scheduler: Any, times: int | None = 1) -> Any:
        """The scheduler itself, held while the optimizer's step is: one call is `times` steps.

        With None it is as many as there are ranks where it is called for a step of its optimizer, and one where it is
        called for an epoch.
        """
        is_prepared = isinstance(getattr(getattr(scheduler, "step", None), "__self__", None), SchedulerSteps)
        is_many = self.world_size > 1 and (times is None or takes_metric(scheduler))
        if not is_prepared and (self.may_wait or is_many or (times or 1) > 1):
            SchedulerSteps(scheduler, self, times)
        return scheduler


class UnscaledGradients(AccelifyError, RuntimeError):
    """Gradients that did not come through `accelerator.backward`, where that scales or divides the loss."""


class OptimizerSteps:
    """Replaces an optimizer's `step` and `zero_grad` where a step may have to wait or be skipped.

    `zero_grad` counts only when the last thing done was a completed step, so that it may stand at the top of the loop
    or at its bottom.
    """

    def __init__(self, optimizer: Optimizer, precision: Precision, accumulation: Accumulation) -> None:
        self.was_skipped = False
        self.is_fresh = True
        self.calls = 0
        self.taken = 0
        self._passes_seen = accumulation.backward_passes
        self._optimizer = optimizer
        self._precision = precision
        self._accumulation = accumulation
        self._step = optimizer.step
        self._zero_grad = optimizer.zero_grad
        precision.watch(optimizer)
        optimizer.step = MethodType(_step, optimizer)  # type: ignore[method-assign]
        optimizer.zero_grad = MethodType(_zero_grad, optimizer)  # type: ignore[method-assign]
        optimizer._accelify_steps = self  # type: ignore[attr-defined]

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """Step if the window is complete and no gradient overflowed."""
        self.calls += 1
        if not self._accumulation.is_complete:
            self.is_fresh = False
            return None
        self._check_passes(has_closure=bool(args or kwargs))
        result, is_taken = self._precision.step(self._optimizer, lambda: self._step(*args, **kwargs))
        self.is_fresh = True
        self.was_skipped = not is_taken
        self._optimizer.step_was_skipped = self.was_skipped  # type: ignore[attr-defined]
        self.taken += is_taken
        self._optimizer._opt_called = True  # type: ignore[attr-defined]  # schedulers warn without it
        return result

    def begin_anew(self) -> None:
        """Drop a window under way, and its gradients."""
        if not self.is_fresh:
            self._zero_grad()
        self.is_fresh = True

    def _check_passes(self, *, has_closure: bool) -> None:
        before, self._passes_seen = self._passes_seen, self._accumulation.backward_passes
        if before < self._passes_seen or has_closure:
            return
        groups = self._optimizer.param_groups
        if any(parameter.grad is not None for group in groups for parameter in group["params"]):
            raise UnscaledGradients(
                "step: no accelerator.backward(loss) since the last one, and there are gradients. In fp16 and with "
                "gradient accumulation loss.backward() leaves them without their scale"
            )

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Clear the gradients, unless a window is under way."""
        if self.is_fresh:
            self._zero_grad(*args, **kwargs)


def _step(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self._accelify_steps.step(*args, **kwargs)


# A scheduler wraps the step to know that it came before its own, and warns when its wrapper is gone, unless marked so.
_step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]


def _zero_grad(self: Any, *args: Any, **kwargs: Any) -> None:
    self._accelify_steps.zero_grad(*args, **kwargs)


def steps_of(optimizer: Optimizer | None) -> OptimizerSteps | None:
    """Our replacement of this optimizer's `step`, if there is one."""
    return getattr(optimizer, "_accelify_steps", None)


class SchedulerSteps:
    """Replaces a scheduler's `step` where that may have to wait, or to count for several batches."""

    def __init__(self, scheduler: Any, stepping: Stepping, times: int | None) -> None:
        self._scheduler = scheduler
        self._stepping = stepping
        self._is_by_metric = takes_metric(scheduler)
        self._times = times
        self._taken = 0
        self._seen = 0, 0
        self._step = scheduler.step
        self._state_dict = scheduler.state_dict
        scheduler.step = self.step
        scheduler.state_dict = self.state_dict
        if isinstance(getattr(scheduler, "optimizer", None), Optimizer):
            scheduler.optimizer.register_step_post_hook(self._note_step)

    def _note_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._taken += 1

    def step(self, *args: Any, **kwargs: Any) -> None:
        """Step unless the optimizer's own steps since the last call waited or were left out."""
        calls, taken = self._since_last()
        # A schedule in epochs goes on, however the epoch's last window or step came out.
        if taken == 0 if calls else not self._stepping.accumulation.is_complete:
            return
        if self._is_by_metric:
            args, kwargs = self._mean(args), {name: self._mean(value) for name, value in kwargs.items()}
        # A schedule that takes an epoch or a metric gets there by one call.
        times = 1 if args or kwargs else self._count(calls)
        for _ in range(times):
            if times == 1 or not self._is_over:
                self._step(*args, **kwargs)

    def _since_last(self) -> tuple[int, int]:
        """The steps of its optimizer that were asked for, and those that were taken, since the last call."""
        steps = steps_of(getattr(self._scheduler, "optimizer", None))
        before, self._seen = self._seen, (self._taken, self._taken) if steps is None else (steps.calls, steps.taken)
        return self._seen[0] - before[0], self._seen[1] - before[1]

    def _count(self, calls: int) -> int:
        """How many steps this call is, after so many of its optimizer."""
        if self._times is not None:
            return self._times
        return 1 if self._stepping.is_per_epoch(calls) else self._stepping.world_size

    def _mean(self, value: Any) -> Any:
        """The mean over ranks of a number that differs between them: by their own they would come to other rates."""
        if isinstance(value, tuple):
            return tuple(map(self._mean, value))
        if isinstance(value, bool) or not isinstance(value, (int, float, numpy.number, torch.Tensor)):
            return value
        number = float(value)
        is_alike = self._stepping.collectives.is_alike("the metric of a scheduler", number.hex())
        return value if is_alike else self._stepping.collectives.reduce(number, "mean")

    @property
    def _is_over(self) -> bool:
        """Whether a schedule that knows its length has come to its end: the last step of an epoch counts for less."""
        total = getattr(self._scheduler, "total_steps", None)
        return total is not None and self._scheduler.last_epoch >= total

    def state_dict(self) -> dict[str, Any]:
        """The scheduler's state without us: torch takes all attributes for state."""
        return {key: value for key, value in self._state_dict().items() if key not in ("step", "state_dict")}


def is_scheduler(value: object) -> bool:
    """Whether this is a learning rate scheduler, torch's or one that looks like it."""
    return isinstance(value, LRScheduler) or (
        hasattr(value, "optimizer") and callable(getattr(value, "step", None)) and hasattr(value, "state_dict")
    )


def takes_metric(scheduler: Any) -> bool:
    """Whether the scheduler decides by a number that the script measures, as ReduceLROnPlateau does."""
    try:
        names = inspect.signature(scheduler.step).parameters
    except (TypeError, ValueError):
        return False
    return "metrics" in names or "metric" in names
