"""What the accelerator does in a training step: backward passes, windows of micro-batches, precision, clipping."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any  # what Tensor.backward and clipping take

import torch
from torch import nn
from torch.optim import Optimizer

from accelify.errors import AccelifyError
from accelify.runtime.data.dealing import Sharing
from accelify.runtime.data.passage import Passages
from accelify.runtime.gradients import optim
from accelify.runtime.gradients.accumulation import Accumulation
from accelify.runtime.gradients.precision import Full
from accelify.runtime.gradients.single import Single
from accelify.runtime.options import AutocastKwargs
from accelify.runtime.standing import Standing


class UnevenInputs(AccelifyError):
    """A training step that not all ranks take."""


class Training(Standing):
    """The part of the accelerator that has to do with steps."""

    _parallel: Single
    _precision: Full
    _accumulation: Accumulation
    _passages: Passages
    _sharing: Sharing
    _models: list[nn.Module]
    _optimizers: list[Optimizer]
    _schedulers: list[Any]
    _draws_apart: bool  # whether ranks draw their own data, and may come to the end at different times

    @property
    def gradient_accumulation_steps(self) -> int:
        """How many micro-batches make up a step."""
        return self._accumulation.steps

    @gradient_accumulation_steps.setter
    def gradient_accumulation_steps(self, steps: int) -> None:
        self._accumulation.steps = steps
        for optimizer in self._optimizers:
            self._watch(optimizer)
        for scheduler in self._schedulers:
            self._hold(scheduler)

    def _hold(self, scheduler: Any, times: int = 1) -> Any:
        size = self._world.size
        return optim.prepare_scheduler(scheduler, self._accumulation, self._precision, self._collectives, size, times)

    def _watch(self, optimizer: Optimizer) -> Optimizer:
        size = self._world.size
        return optim.prepare_optimizer(optimizer, self._collectives, size, self._precision, self._accumulation)

    @property
    def mixed_precision(self) -> str:
        """`no`, `bf16` or `fp16`."""
        return self._precision.name

    @property
    def scaler(self) -> Any:
        """What scales the loss in fp16; None in any other precision."""
        return self._precision.scaler

    @property
    def sync_gradients(self) -> bool:
        """Whether the step that the script is at completes its window."""
        return self._accumulation.is_complete

    @property
    def optimizer_step_was_skipped(self) -> bool:
        """Whether some optimizer's last step was left out because a gradient overflowed."""
        steps = [optim.steps_of(optimizer) for optimizer in self._optimizers]
        return self.sync_gradients and any(step.was_skipped for step in steps if step is not None)

    # -- the step

    def backward(self, loss: torch.Tensor, *, weight: float | None = None, **options: Any) -> None:
        """Run the backward pass; afterwards every prepared model's gradients agree on all ranks.

        `weight` is how much this loss, a mean, stands for (its count of tokens): the step then takes the weighted mean
        over the window's micro-batches and over the ranks. The other options are those of `Tensor.backward`.
        """
        step = self._passages.step
        if step is not None and step.is_partial and not self._parallel.is_joining:
            raise UnevenInputs(
                "backward on a step for which some ranks have no batch (even_batches=False): the others would wait for "
                "them forever. Train inside join_uneven_inputs, or leave even_batches on"
            )
        share = 1.0 if step is None or weight is not None else step.weight(self._world.rank)
        loss = self._accumulation.divide(loss if share == 1.0 else loss * share, weight)
        may_end = self._draws_apart and step is None
        self._parallel.backward(self._precision.scale(loss), may_end=may_end, **options)
        self._accumulation.settle(weight, self._parameters, self._world.size)

    def _parameters(self, models: Sequence[nn.Module]) -> Iterator[torch.Tensor]:
        """What these models (if none is named, all) train, and what their optimizers step that is no model's."""
        everyone = {id(parameter) for model in self._models for parameter in model.parameters()}
        wanted = [parameter for model in models or self._models for parameter in model.parameters()]
        yield from wanted
        known = set(map(id, wanted))
        for optimizer in self._optimizers:
            stepped = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            if not models or any(id(parameter) in known for parameter in stepped):
                yield from (parameter for parameter in stepped if id(parameter) not in everyone)

    def accumulate(self, *models: nn.Module) -> AbstractContextManager[None]:
        """One micro-batch of these models inside; `step` and `zero_grad` take effect when their window is complete."""
        return self._accumulation.window(models)

    def _give_up_windows(self) -> None:
        self._accumulation.forget()
        for optimizer in self._optimizers:
            if (steps := optim.steps_of(optimizer)) is not None:
                steps.begin_anew()

    def no_sync(self, model: nn.Module | None = None) -> AbstractContextManager[None]:
        """Let gradients add up on each rank inside; the next backward pass outside averages the sums."""
        return self._parallel.no_sync()

    def trigger_sync_in_backward(self, model: nn.Module | None = None) -> AbstractContextManager[None]:
        """Have the backward passes inside average the gradients, sums made under `no_sync` included."""
        return self._parallel.sync()

    @contextmanager
    def join_uneven_inputs(
        self, joinables: Sequence[nn.Module] = (), even_batches: bool | None = None
    ) -> Iterator[None]:
        """Let ranks have different numbers of batches inside; one that has no more waits, and ends with the same state.

        `even_batches` holds for the loaders' passes inside. Gradients are means over the ranks that had a batch. Other
        collectives must not be called inside while some rank is through: that raises Desync.
        """
        before = self._sharing.even_batches
        self._sharing.even_batches = before if even_batches is None else even_batches
        try:
            with self._parallel.join(self._catch_up):
                yield
        finally:
            self._sharing.even_batches = before

    def _catch_up(self, source: int) -> None:
        """Take over what a rank has that took more steps: weights, optimizers, schedulers."""
        kept = [*self._models, *self._optimizers, *self._schedulers]
        loose = self._parallel.loose_parameters()
        states = [one.state_dict() for one in kept], [parameter.detach() for parameter in loose]
        theirs, values = self._collectives.broadcast_object(states, source)
        if self.process_index != source:
            for one, state in zip(kept, theirs, strict=True):
                one.load_state_dict(state)
            for parameter, value in zip(loose, values, strict=True):
                parameter.data.copy_(value)

    def autocast(self, autocast_handler: AutocastKwargs | None = None) -> AbstractContextManager[Any]:
        """The context in which mixed precision computes; nothing in full precision."""
        if autocast_handler is not None and not autocast_handler.enabled:
            return torch.autocast(self.device.type, enabled=False)
        return self._precision.autocast()

    def unscale_gradients(self, optimizer: Optimizer | Sequence[Optimizer] | None = None) -> None:
        """Divide gradients by the loss's scale, once in a step however often it is asked."""
        given = self._optimizers if optimizer is None else optimizer
        self._precision.unscale([given] if isinstance(given, Optimizer) else given)

    def clip_grad_norm_(self, parameters: Any, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Scale the gradients down to the norm `max_norm`, and return the norm that they had.

        While a window is under way nothing is scaled.
        """
        owned = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if not self.sync_gradients:
            gradients = [parameter.grad for parameter in owned if parameter.grad is not None]
            return nn.utils.get_total_norm(gradients, norm_type)
        self._precision.unscale(self._owners(owned))
        return nn.utils.clip_grad_norm_(owned, max_norm, norm_type=norm_type)

    def clip_grad_value_(self, parameters: Any, clip_value: float) -> None:
        """Limit every gradient's values to `clip_value`; while a window is under way nothing is limited."""
        owned = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if self.sync_gradients:
            self._precision.unscale(self._owners(owned))
            nn.utils.clip_grad_value_(owned, clip_value)

    def _owners(self, parameters: list[torch.Tensor]) -> list[Optimizer]:
        """The optimizers that step any of these parameters."""
        if not self._precision.needs_steps:
            return []
        wanted = set(map(id, parameters))
        return [
            optimizer
            for optimizer in self._optimizers
            if any(id(parameter) in wanted for group in optimizer.param_groups for parameter in group["params"])
        ]
