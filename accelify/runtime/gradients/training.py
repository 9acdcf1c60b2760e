"""A training step: what it trains, its backward passes and windows, clipping, ranks that end at different times.

It holds what was prepared and the parts that a step goes through: strategy, precision, accumulation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol  # Any: what Tensor.backward and clipping take, every scheduler

import torch
from torch import nn
from torch.optim import Optimizer

from accelify.errors import AccelifyError
from accelify.runtime.gradients.accumulation import Accumulation
from accelify.runtime.gradients.agreement import Agreement, UnpreparedOptimizers
from accelify.runtime.gradients.optimizers import Draws, Stepping, steps_of
from accelify.runtime.gradients.precision import Precision
from accelify.runtime.gradients.strategy import Strategy
from accelify.runtime.held import Garbage, Held
from accelify.runtime.world.collectives import Collectives
from accelify.runtime.world.process_group import World

# Units: models and optimizers held, from which on ranks look which of them the script has let go: one of each
FIRST = 2


class UnevenInputs(AccelifyError):
    """A training step that not all ranks take."""


class BatchStep(Protocol):
    """The step whose batch a loss comes from, as the data know it."""

    @property
    def is_partial(self) -> bool:
        """Whether some ranks have no batch at all in this step."""

    def weight(self, rank: int) -> float:
        """The factor of the mean over this rank's rows that makes the mean over ranks that of the whole batch."""


class Training:
    """The models, optimizers and schedulers that were prepared, and the steps that train them."""

    def __init__(
        self,
        *,
        world: World,
        collectives: Collectives,
        strategy: Strategy,
        precision: Precision,
        accumulation: Accumulation,
        draws: Draws,
        is_per_epoch: Callable[[int], bool] = lambda steps: steps > 1,
        holds_schedulers: bool = True,
        compile_options: dict[str, Any] | None = None,
    ) -> None:
        """`compile_options`: what `nn.Module.compile` takes; None compiles nothing.

        `is_per_epoch`: whether what the script does now, after so many steps since it last did so, is done per epoch.
        """
        self.models: Held[nn.Module] = Held()
        self.optimizers: Held[Optimizer] = Held()
        self.schedulers: Held[Any] = Held()
        self._many = FIRST
        self._garbage = Garbage()
        self._world = world
        self._collectives = collectives
        self._strategy = strategy
        self._precision = precision
        self._accumulation = accumulation
        self._stepping = Stepping(
            collectives=collectives,
            draws=draws,
            world_size=world.size,
            precision=precision,
            accumulation=accumulation,
            is_per_epoch=is_per_epoch,
        )
        self._agreement = Agreement(collectives, lambda: self.optimizers.lasting, strategy.models)
        self._unprepared = UnpreparedOptimizers(self.optimizers, strategy.is_averaged)
        self._holds_schedulers = holds_schedulers
        self._compile_options = compile_options

    # -- preparing

    def look_again(self) -> None:
        """Something has been prepared: look again for what else the losses reach."""
        self._unprepared.look_again()

    def prepare_model(self, model: nn.Module, *, is_moved: bool, is_trained: bool) -> nn.Module:
        """The model itself, on this process's device and, if it is trained, equal on all ranks."""
        if is_moved and not hasattr(model, "hf_device_map"):
            model.to(self._world.device)
        self._precision.prepare_model(model)
        if self._compile_options is not None:
            # In place: what comes back is the same object, under the same keys.
            model.compile(**self._compile_options)
        self._hold(self.models, model)
        return self._strategy.prepare_model(model) if is_trained else model

    def prepare_optimizer(self, optimizer: Optimizer) -> Optimizer:
        """The optimizer itself; its parameters that no prepared model owns are averaged, too."""
        own = set(map(id, _parameters_of(optimizer)))
        others = (one for one in self.optimizers if one is not optimizer)
        replaced = {id(one) for one in others if own.issuperset(map(id, _parameters_of(one)))}
        self.optimizers.loosen(lambda one: id(one) in replaced)
        self.schedulers.loosen(lambda one: id(getattr(one, "optimizer", None)) in replaced)
        self._hold(self.optimizers, optimizer)
        if self._world.size > 1:
            self._agreement.watch(optimizer)
        _move_state(optimizer)
        self._strategy.prepare_optimizer(optimizer)
        return self._stepping.prepare_optimizer(optimizer)

    def _hold(self, those: Held[Any], given: Any) -> None:
        if self._world.size == 1:
            those.add_loosely(given)
            return
        if self._count() >= self._many and given not in those and not self._agreement.is_following:
            self._let_go()
            self._many = max(FIRST, 2 * self._count())
        those.add(given)

    def _count(self) -> int:
        return len(self.models.lasting) + len(self.optimizers.lasting)

    def _let_go(self) -> None:
        """Let go what the script has let go on any rank; all ranks do so at once, as each has prepared as much.

        Models whose parameters an optimizer steps that the script has kept are kept: a part of one may be in use.
        """
        self._ask(self.schedulers, self.optimizers)
        stepped = {id(parameter) for one in self.optimizers.lasting for parameter in _parameters_of(one)}
        self._ask(self.models, is_meant=lambda model: stepped.isdisjoint(map(id, model.parameters())))
        self._strategy.let_go()

    def _ask(self, *those: Held[Any], is_meant: Callable[[Any], bool] = lambda _: True) -> None:
        """Keep of the objects that are meant only those that the script has kept, on all ranks."""
        asked = [each.let_go(is_meant) for each in those]
        self._garbage.collect()
        everyone = self._collectives.gather_object([[one() is not None for one in each] for each in asked])
        for each, references, *kept in zip(those, asked, *everyone, strict=True):
            each.keep([one() for one, *is_kept in zip(references, *kept, strict=True) if all(is_kept)])

    @property
    def steps_may_wait(self) -> bool:
        """Whether an optimizer's step may have to wait for its window, or be skipped."""
        return self._stepping.may_wait

    def prepare_scheduler(self, scheduler: Any, times: int | None) -> Any:
        """The scheduler itself; a call of its `step` counts `times`; None: once per rank or, for an epoch, once."""
        self._hold(self.schedulers, scheduler)
        if not self._holds_schedulers and times in (1, None):
            return scheduler
        return self._stepping.prepare_scheduler(scheduler, times)

    def accumulate_over(self, steps: int) -> None:
        """Let a window have so many micro-batches from here on."""
        self._accumulation.steps = steps
        for optimizer in self.optimizers:
            self._stepping.prepare_optimizer(optimizer)
        for scheduler in self.schedulers if self._holds_schedulers else ():
            self._stepping.prepare_scheduler(scheduler)

    def forget(self) -> None:
        """Forget everything that was prepared."""
        for prepared in (self.models, self.optimizers, self.schedulers):
            prepared.clear()
        self._strategy.forget()
        self._precision.forget()
        self._accumulation.forget()
        self._unprepared.forget()

    # -- the step

    def backward(
        self, loss: torch.Tensor, step: BatchStep | None, *, weight: float | None, may_end: bool, **options: Any
    ) -> None:
        """The backward pass of a loss from this step's batch, None where that is not known.

        `may_end`: whether ranks that draw their own data may have come to the script's end.
        Raises: UnevenInputs where other ranks have no batch.
        """
        if step is not None and step.is_partial and not self._strategy.is_joining:
            raise UnevenInputs(
                "backward on a step for which some ranks have no batch (even_batches=False): the others would wait for "
                "them forever. Train inside join_uneven_inputs, or leave even_batches on"
            )
        factor = 1.0 if step is None or weight is not None else step.weight(self._world.rank)
        loss = self._accumulation.divide(loss if factor == 1.0 else loss * factor, weight)
        is_compared = self._world.size > 1 and self._world.device.type != "xla"
        if is_compared:
            self._unprepared.look(loss)
        may_end = may_end and step is None
        self._strategy.backward(self._precision.scale(loss), may_end=may_end, **options)
        is_complete = self._accumulation.is_complete and self._strategy.is_complete
        if is_compared and self._strategy.synchronises and is_complete:
            self._agreement.check()
        self._accumulation.settle(weight, self._parameters, self._world.size)

    def _parameters(self, models: Sequence[nn.Module]) -> Iterator[torch.Tensor]:
        """The parameters that these models (all, if none is named) train, and those of optimizers without a model."""
        everyone = {id(parameter) for model in self.models for parameter in model.parameters()}
        wanted = [parameter for model in models or self.models for parameter in model.parameters()]
        yield from wanted
        known = set(map(id, wanted))
        for optimizer in self.optimizers:
            stepped = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            if not models or any(id(parameter) in known for parameter in stepped):
                yield from (parameter for parameter in stepped if id(parameter) not in everyone)

    @property
    def step_was_skipped(self) -> bool:
        """Whether some optimizer's last step was left out because a gradient overflowed."""
        steps = [steps_of(optimizer) for optimizer in self.optimizers]
        return self._accumulation.is_complete and any(step.was_skipped for step in steps if step is not None)

    def give_up_windows(self) -> None:
        """Drop the windows under way, and their gradients."""
        self._accumulation.forget()
        for optimizer in self.optimizers:
            if (steps := steps_of(optimizer)) is not None:
                steps.begin_anew()

    # -- ranks that end at different times

    def join(self) -> AbstractContextManager[None]:
        """Let ranks have different numbers of steps inside; all end with the state of a rank that took all steps."""
        return self._strategy.join(self._catch_up)

    def meet(self) -> None:
        """Wait for the ranks that still take steps, and take over the state of one that took all."""
        self._strategy.meet(self._catch_up)

    def _catch_up(self, source: int) -> None:
        """Take over what a rank has that took more steps: weights, optimizers, schedulers."""
        kept = [*self.models, *self.optimizers, *self.schedulers]
        unowned = self._strategy.unowned_parameters()
        states = [each.state_dict() for each in kept], [parameter.detach() for parameter in unowned]
        theirs, values = self._collectives.broadcast_object(states, source)
        if self._world.rank != source:
            for each, state in zip(kept, theirs, strict=True):
                each.load_state_dict(state)
            for parameter, value in zip(unowned, values, strict=True):
                parameter.data.copy_(value)

    # -- gradients

    def unscale(self, given: Optimizer | Sequence[Optimizer] | None) -> None:
        """Divide gradients by the loss's scale, once in a step however often it is asked; None: all optimizers'."""
        chosen = self.optimizers if given is None else given
        self._precision.unscale([chosen] if isinstance(chosen, Optimizer) else chosen)

    def clip_norm(self, parameters: Any, max_norm: float, norm_type: float) -> torch.Tensor:
        """Scale the gradients down to this norm if their window is complete, and return the norm that they had."""
        owned = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if not self._accumulation.is_complete:
            gradients = [parameter.grad for parameter in owned if parameter.grad is not None]
            return nn.utils.get_total_norm(gradients, norm_type)
        self._precision.unscale(self._owners(owned))
        return nn.utils.clip_grad_norm_(owned, max_norm, norm_type=norm_type)

    def clip_value(self, parameters: Any, clip_value: float) -> None:
        """Limit the gradients' values if their window is complete."""
        owned = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if self._accumulation.is_complete:
            self._precision.unscale(self._owners(owned))
            nn.utils.clip_grad_value_(owned, clip_value)

    def _owners(self, parameters: list[torch.Tensor]) -> list[Optimizer]:
        """The optimizers that step any of these parameters."""
        if not self._precision.needs_steps:
            return []
        wanted = set(map(id, parameters))
        return [
            optimizer
            for optimizer in self.optimizers
            if any(id(parameter) in wanted for group in optimizer.param_groups for parameter in group["params"])
        ]


def _parameters_of(optimizer: Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _move_state(optimizer: Optimizer) -> None:
    """Bring what was loaded into an optimizer before its model was moved to where its parameters are.

    torch keeps the counts of steps on the CPU unless the optimizer says otherwise, and so they stay where they are.
    """
    for parameter, state in optimizer.state.items():
        for name, value in state.items() if isinstance(parameter, torch.Tensor) else ():
            if isinstance(value, torch.Tensor) and value.device != parameter.device and name != "step":
                state[name] = value.to(parameter.device)
