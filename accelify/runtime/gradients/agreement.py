"""Do the ranks still train the same? Rates, step counts, parameters and buffers, compared now and then.

Gradients agree after each backward pass. What is done with them afterwards is the script's own: a learning rate by
rank, a step or a clipping on some ranks only, noise on parameters. From then on the ranks train different models.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any  # options of optimizers are of every kind

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from accelify.errors import AccelifyError
from accelify.runtime.world.collectives import Collectives
from accelify.runtime.world.desync import call_site
from accelify.runtime.world.divergence import Divergence, find_divergence, named_buffers, named_parameters, numbered

# Units: backward passes between two comparisons, once training is under way; before, at 1, 2, 4, 8 and so on
INTERVAL = 128
# Units: parameters of one optimizer of whose state a number is compared
SAMPLED = 64
# Units: backward passes whose graph is looked at, at the beginning and after something else has been prepared
LOOKS = 8

_ALIKE = "All ranks must take the same steps, and clip alike"
_ONCE = (
    ", though no step has been taken: the forward pass has set it from each rank's own batch. All ranks go on from "
    "rank 0's"
)
_ALWAYS = (
    ": no prepared optimizer steps it, and each rank sets it by itself, from its own batch or random numbers. From "
    "here on all ranks take over rank 0's after each backward pass"
)
_LED = (
    ". The gradients were the same on all ranks: something else is each rank's own (noise on weights or gradients, "
    "clipping, a condition on its own loss, a gradient that did not come through accelerator.backward). Make it the "
    "same on all ranks: accelerator.broadcast, or reduce. Until then all take over rank 0's parameters after each step"
)
_LED_BY_RATES = (
    ". Set it alike on all ranks, from a value that accelerator.reduce made the same. From here on all take over rank "
    "0's parameters after each step"
)


class Diverged(AccelifyError, RuntimeError):
    """Ranks whose optimizers no longer do the same. The same on every rank."""


class NotPrepared(AccelifyError, RuntimeError):
    """An optimizer that was not prepared steps what the loss trains: each rank would go its own way."""


class Agreement:
    """The comparison of what the ranks train: what optimizers do, parameters, and the buffers of trained models.

    What the forward pass sets from each rank's own batch becomes rank 0's: weights before their first step, once; what
    no optimizer steps (codebooks, averages) from then on after each backward pass, as buffers do anyhow. Weights that
    the script itself changes otherwise on each rank become rank 0's after each step: what rank 0 has drawn or decided
    holds, as in one process; so do its rates. Numbers of steps and momentum must be the same.
    """

    def __init__(
        self,
        collectives: Collectives,
        optimizers: Callable[[], Sequence[Optimizer]],
        models: Callable[[], Iterable[nn.Module]],
    ) -> None:
        self._collectives = collectives
        self._optimizers = optimizers
        self._models = models
        self._passes = 0
        self._followed: tuple[str, ...] = ()
        self._stepped: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._watched: list[tuple[weakref.ref[Optimizer], RemovableHandle]] = []
        self._doubted: set[int] = set()
        self._is_led = False
        self._due: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._asked: weakref.WeakSet[Optimizer] = weakref.WeakSet()

    @property
    def is_following(self) -> bool:
        """Whether there are tensors, known by their numbers in the models, that are rank 0's after each pass."""
        return bool(self._followed)

    def watch(self, optimizer: Optimizer) -> None:
        """Note the first step of an optimizer: from then on only the script itself can make parameters differ."""
        if not self._passes and all(known() is not optimizer for known, _ in self._watched):
            self._watched.append((weakref.ref(optimizer), optimizer.register_step_post_hook(self._note_step)))

    def _note_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._stepped.add(optimizer)

    def _fresh(self) -> list[Optimizer]:
        """The optimizers that have taken no step; the others are no longer listened to."""
        for known, handle in self._watched:
            if known() in self._stepped:
                handle.remove()
        self._watched = [(known, handle) for known, handle in self._watched if known() not in self._stepped]
        return [optimizer for known, _ in self._watched if (optimizer := known()) is not None]

    def check(self) -> None:
        """Compare, at some of the backward passes for which this is called. Raises: Diverged."""
        self._passes += 1
        self._due.update(self._asked)
        if self._followed:
            self._take_over(self._followed)
        if self._passes & (self._passes - 1) if self._passes < INTERVAL else self._passes % INTERVAL:
            return
        fresh, tensors = self._fresh(), self._tensors()
        facts = dict(facts_of(self._optimizers(), {id(one): place for place, one in enumerate(tensors.values())}))
        rates = dict(rates_of(self._optimizers()))
        found = find_divergence(self._collectives, "backward, what the optimizers do", facts | rates | tensors)
        if found is None:
            return
        unstepped = {id(one) for optimizer in fresh for one in _trained(optimizer)}
        trained = {id(one) for optimizer in self._optimizers() for one in _trained(optimizer)} - unstepped
        if any(name in facts for name in found.names):
            raise Diverged(f"backward at {call_site()}: {difference(found, facts)}. {_ALIKE}")
        self._doubted = {id(tensors[name]) for name in found.names if id(tensors.get(name)) in trained}
        if any(name in rates for name in found.names):
            self._follow(f"backward at {call_site()}: {difference(found, rates)}{_LED_BY_RATES}")
        if self._doubted or self._is_led:
            self._ask_after_the_step()
        others = {name: tensors[name] for name in found.names if name in tensors}
        others = {name: one for name, one in others.items() if id(one) not in trained}
        if others:
            self._heal(replace(found, names=tuple(others)), [id(one) in unstepped for one in others.values()])

    def _heal(self, found: Divergence, is_unstepped: Sequence[bool]) -> None:
        """Take over what no step has made, now or, if no step ever will, from now on."""
        followed = [name for name, is_set_once in zip(found.names, is_unstepped, strict=True) if not is_set_once]
        self._followed += tuple(followed)
        self._take_over(found.names)
        words = _ONCE if any(is_unstepped) else _ALWAYS
        warnings.warn(f"backward at {call_site()}: {found}{words}", stacklevel=3)

    def _ask_after_the_step(self) -> None:
        """Compare again then: weights with noise, or those of an inner loop, are put back before it."""
        for optimizer in self._optimizers():
            if optimizer not in self._asked:
                self._asked.add(optimizer)
                optimizer.register_step_post_hook(self._check_step)
        self._due.update(self._asked)

    def _check_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Have rank 0's parameters where they still differ after a step, and from then on after each one.

        Only the first step after a backward pass is one that all ranks take.
        """
        stepped = {id(one) for one in _readable(optimizer)}
        is_asked = optimizer in self._due and (self._is_led or self._doubted & stepped)
        self._due.discard(optimizer)
        if not is_asked:
            return
        self._doubted -= stepped
        tensors = {name: one for name, one in self._tensors().items() if id(one) in stepped}
        found = find_divergence(self._collectives, "step, what it has made of the parameters", tensors)
        if found is None:
            return
        self._take_over(found.names)
        self._follow(f"step at {call_site()}: {found}{_LED}")

    def _follow(self, why: str) -> None:
        if not self._is_led:
            warnings.warn(why, stacklevel=3)
        self._is_led = True

    def _tensors(self) -> dict[str, torch.Tensor]:
        models = list(self._models())
        named = named_parameters(models) | named_buffers(models)
        known = set(map(id, named.values()))
        for name, optimizer in numbered(self._optimizers()):
            others = (one for one in _readable(optimizer) if id(one) not in known)
            named |= {f"parameter {number} of {name}": one for number, one in enumerate(others)}
        return named

    def _take_over(self, names: Iterable[str]) -> None:
        """Go on from what rank 0 has under these names."""
        tensors = self._tensors()
        taken = [tensors[name] for name in names if name in tensors]
        values = self._collectives.broadcast([one.detach() for one in taken])
        for one, value in zip(taken, values, strict=True):
            one.data.copy_(value)


def rates_of(optimizers: Iterable[Optimizer]) -> Iterator[tuple[str, Any]]:
    """The rates and other options of each group, each under the name by which it is reported."""
    for name, optimizer in numbered(optimizers):
        for index, group in enumerate(optimizer.param_groups):
            for key, value in group.items():
                if key != "params":
                    place = f"group {index} of " if len(optimizer.param_groups) > 1 else ""
                    yield f"{key} of {place}{name}", _plain(value)


def facts_of(optimizers: Iterable[Optimizer], places: Mapping[int, int]) -> Iterator[tuple[str, Any]]:
    """The counts of steps and samples of what optimizers keep, each under the name by which it is reported.

    places: where in the models a parameter stands, by its id. Groups may list them in any order: those that are made
    from a set do so in another order on each rank.
    """
    for name, optimizer in numbered(optimizers):
        readable = sorted(_readable(optimizer), key=lambda parameter: places.get(id(parameter), len(places)))
        sampled = readable[:SAMPLED]
        steps = [_plain(optimizer.state[one].get("step")) for one in sampled[:1] if _has_state(optimizer, one)]
        yield f"number of steps of {name}", steps
        kept = [value for one in sampled for value in _state_of(optimizer, one)]
        if kept:
            yield f"state of {name}", torch.stack(kept).tolist()


def _has_state(optimizer: Optimizer, parameter: torch.Tensor) -> bool:
    """Whether an optimizer keeps anything for a parameter: to read the state of another makes an empty entry."""
    kept = optimizer.state.get(parameter)
    return bool(kept) if isinstance(kept, dict) else kept is not None


def _state_of(optimizer: Optimizer, parameter: torch.Tensor) -> Iterator[torch.Tensor]:
    """A number of each tensor that an optimizer keeps for a parameter, but for its count of steps."""
    kept = optimizer.state.get(parameter)
    for name, value in kept.items() if isinstance(kept, dict) else ():
        is_like_it = isinstance(value, torch.Tensor) and value.device == parameter.device and not value.is_complex()
        if is_like_it and name != "step" and value.layout == torch.strided and value.numel():
            yield value.detach().flatten()[0].double()


def _readable(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        for one in group["params"]:
            is_there = one.layout == torch.strided and one.device.type != "meta" and not is_lazy(one)
            if is_there and one.numel() and not one.is_complex():
                yield one


def _trained(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    """Those that it steps, or did: what is frozen from the start is often given, too."""
    for one in _readable(optimizer):
        if one.requires_grad or one.grad is not None or _has_state(optimizer, one):
            yield one


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__


def difference(found: Divergence, facts: Mapping[str, Any]) -> str:
    """In what the ranks differ, in words: of several values the first; facts come before tensors."""
    name, (mine, other) = found.names[0], found.values
    if name not in facts:
        return str(found)
    values = "" if isinstance(mine, list) else f": {mine} on rank 0, {other} on rank {found.rank}"
    return f"the {name} differ between ranks 0 and {found.rank}{values}"


class UnpreparedOptimizers:
    """Finds optimizers that step what the loss reaches and nobody averages: copies, later models, bare tensors."""

    def __init__(self, prepared: Iterable[Optimizer], is_averaged: Callable[[torch.Tensor], bool]) -> None:
        self._prepared = prepared
        self._is_averaged = is_averaged
        self._reached: dict[int, weakref.ref[torch.Tensor]] = {}
        self._looks = LOOKS
        self._handle: RemovableHandle | None = None

    def look_again(self) -> None:
        """Something has been prepared: what is trained from here on may be another."""
        self._looks = LOOKS

    def look(self, loss: torch.Tensor) -> None:
        """Note the leaves of this loss's graph that are not averaged, for the next few losses."""
        if not self._looks:
            return
        self._looks -= 1
        found = {id(leaf): weakref.ref(leaf) for leaf in leaves_of(loss) if not self._is_averaged(leaf)}
        self._reached.update(found)
        if found and self._handle is None:
            self._handle = register_optimizer_step_pre_hook(self._check)

    def _check(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if any(optimizer is one for one in self._prepared):
            return
        stepped: list[torch.Tensor] = [one for group in optimizer.param_groups for one in group["params"]]
        reached = [one for one in stepped if id(one) in self._reached and self._reached[id(one)]() is one]
        # A layer that was added to a prepared model has become that model's in the backward pass.
        reached = [one for one in reached if not self._is_averaged(one)]
        if reached:
            shapes = ", ".join(str(list(one.shape)) for one in reached[:3])
            raise NotPrepared(
                f"step at {call_site()}: a {type(optimizer).__name__} that was not prepared steps what the loss trains "
                f"and no prepared model owns ({len(reached)} tensors, of shape {shapes}): the gradients are this "
                "process's alone. Prepare the model or the optimizer"
            )

    def forget(self) -> None:
        """Look no more."""
        if self._handle is not None:
            self._handle.remove()
        self._reached.clear()
        self._handle = None


def leaves_of(loss: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors at which the graph of a loss ends."""
    waiting, seen = [loss.grad_fn], {loss.grad_fn}
    while waiting:
        node = waiting.pop()
        if node is None:
            continue
        if (leaf := getattr(node, "variable", None)) is not None:
            yield leaf
        for following, _ in node.next_functions:
            if following not in seen:
                seen.add(following)
                waiting.append(following)
