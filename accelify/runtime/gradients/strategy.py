"""How a model is trained: by one process as it is, or as replicas on several ranks whose gradients are averaged."""

from __future__ import annotations

import sys
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import is_not
from typing import Any, Generic, TypeVar  # backward passes on what Tensor.backward takes

import torch
from torch import nn
from torch.optim import Optimizer

from accelify.errors import AccelifyError
from accelify.runtime.gradients.replica import GradientHook, Replica, Trained, replica_of, shape_of, shapes_of
from accelify.runtime.world.collectives import Collectives
from accelify.runtime.world.desync import Desync, Unanswered, call_site, hash_of_text, missing
from accelify.runtime.world.divergence import find_divergence, named_parameters
from accelify.runtime.world.process_group import World

# Ranks whose numbers of steps differ by less than one in so many end at about the same time, as agents do.
LATE_SHARE = 16

R = TypeVar("R", bound=Replica)


class Strategy:
    """One process: a model is trained as it is. Other strategies override what they do differently."""

    synchronises = True

    def prepare_model(self, model: nn.Module) -> nn.Module:
        """The model itself."""
        return model

    def prepare_optimizer(self, optimizer: Optimizer) -> None:
        """Its parameters are trained as they are."""

    def is_averaged(self, parameter: torch.Tensor) -> bool:
        """Whether its gradients are those of all ranks."""
        return True

    def backward(self, loss: torch.Tensor, *, may_end: bool = False, **options: Any) -> None:
        """The plain backward pass."""
        loss.backward(**options)  # type: ignore[no-untyped-call]

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Nothing is ever synchronised."""
        yield

    @contextmanager
    def sync(self) -> Iterator[None]:
        """Nothing has to be."""
        yield

    @property
    def is_joining(self) -> bool:
        """Whether ranks may come to their end at different times: one process never does."""
        return True

    @property
    def is_complete(self) -> bool:
        """Whether all ranks took part in the last backward pass."""
        return True

    def models(self) -> list[nn.Module]:
        """The models that are kept equal on all ranks: none that anything would have to be done for."""
        return []

    @property
    def synchronised(self) -> int:
        """How many backward passes have made gradients and buffers agree: none has to."""
        return 0

    @property
    def has_buffers(self) -> bool:
        """Whether there are buffers that could differ between ranks."""
        return False

    def versions_of_buffers(self) -> int:
        """A number that is another one once a forward pass has changed buffers: nobody need know."""
        return 0

    def wait_at_exit(self) -> None:
        """Nobody else goes on."""

    def meet(self, catch_up: Callable[[int], None]) -> None:
        """Nobody to wait for."""

    @contextmanager
    def join(self, catch_up: Callable[[int], None]) -> Iterator[None]:
        """Nobody to wait for."""
        yield

    def unowned_parameters(self) -> list[torch.Tensor]:
        """None that would need to be known."""
        return []

    def let_go(self) -> None:
        """Nothing is kept."""

    def forget(self) -> None:
        """Nothing is kept."""


class TrainedApart(AccelifyError, RuntimeError):
    """Ranks that train different parameters of one model. The same on every rank."""


def trained_names(model: Trained | None) -> list[str]:
    """The names of the parameters that are trained now; of an optimizer's own, their numbers."""
    if isinstance(model, nn.Module):
        return [name for name, one in model.named_parameters() if one.requires_grad and one.is_leaf]
    return [] if model is None else [str(at) for at, one in enumerate(model.parameters()) if one.requires_grad]


def first_apart(everyone: Sequence[Sequence[str]]) -> str:
    """Which rank trains what rank 0 does not, or the other way round."""
    first = everyone[0]
    for rank, theirs in enumerate(everyone[1:], start=1):
        for here, there, names in ((0, rank, set(first) - set(theirs)), (rank, 0, set(theirs) - set(first))):
            if names:
                some = ", ".join(sorted(names)[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
                return (
                    f"rank {here} trains {some}, and rank {there} does not: requires_grad must be the same on all ranks"
                )
    return "the ranks train their parameters in another order"


class _Ending:
    """The callback that autograd runs after a backward pass; after one that failed, it is dropped without a call."""

    def __init__(self, replicas: Replicas[Any]) -> None:
        self._replicas = replicas
        self._is_called = False

    def __call__(self) -> None:
        self._is_called = True
        self._replicas.finish_unannounced()

    def __del__(self) -> None:
        if not self._is_called:
            self._replicas.forget_unannounced()


class Replicas(Strategy, ABC, Generic[R]):
    """Several ranks, each with a copy of the model; gradients agree after every backward pass that synchronises."""

    def __init__(self, *, world: World, collectives: Collectives) -> None:
        self.synchronises = True
        self._world = world
        self._collectives = collectives
        self._replicas: list[R] = []
        self._unowned: list[tuple[UnownedParameters, R]] = []
        self._groups: list[SteppedParameters] = []
        self._announced = False
        self._has_begun = False
        self._synchronised = 0
        self._joining = False
        self._active = list(range(world.size))
        self._rounds = 0
        self._incomplete: int | None = 0

    def prepare_model(self, model: nn.Module) -> nn.Module:
        """The model itself, equal on all ranks from now on. Its parameters carry the hooks; nothing wraps it."""
        replica: R | None = replica_of(model)  # type: ignore[assignment]  # all of a world are of one kind
        if replica is None:
            self._collectives.agree("prepare", shapes_of(model))
            replica = self._replica(model)
        self._adopt(replica)
        self._drop_owned()
        return model

    def prepare_optimizer(self, optimizer: Optimizer) -> None:
        """Have its parameters that no prepared model owns start equal and be averaged as a model's are."""
        if all(groups.optimizer() is not optimizer for groups in self._groups):
            self._groups.append(SteppedParameters(optimizer))
        if any(unowned.belongs_to(optimizer) for unowned, _ in self._unowned):
            return
        unowned = UnownedParameters(optimizer, self._is_owned)
        if not self._collectives.is_alike("prepare", self._order_of(optimizer, unowned)):
            self._put_in_order(optimizer)
            self._collectives.agree("prepare", self._order_of(optimizer, unowned))
        if any(True for _ in unowned.parameters()):
            replica = self._replica(unowned)
            self._adopt(replica)
            self._unowned.append((unowned, replica))

    def _order_of(self, optimizer: Optimizer, unowned: UnownedParameters) -> str:
        """An optimizer's parameters as text: those of models by their places, the others by their shapes."""
        known = self._places()
        places = [str(known.get(id(parameter), "")) for parameter in _stepped(optimizer)]
        shapes = [f"{parameter.dtype}{shape_of(parameter)}" for parameter in unowned.parameters()]
        return " ".join(["optimizer", *shapes, *places])

    def _put_in_order(self, optimizer: Optimizer) -> None:
        """The models' order in each group: out of a `set` they come in another order on each rank.

        A saved state knows a parameter by its number.
        """
        places = self._places()
        for group in optimizer.param_groups:
            group["params"].sort(key=lambda parameter: places.get(id(parameter), len(places)))

    def _places(self) -> dict[int, int]:
        """Where in the prepared models each parameter stands, by its id."""
        return {id(p): place for place, p in enumerate(p for model in self.models() for p in model.parameters())}

    def models(self) -> list[nn.Module]:
        """The models that are kept equal on all ranks."""
        return [model for replica in self._replicas if isinstance(model := replica.model(), nn.Module)]

    @abstractmethod
    def make_replica(self, trained: Trained) -> R:
        """A replica of what is trained, with nothing shared and nothing laid out yet."""

    @abstractmethod
    def finish(self, replicas: list[R]) -> None:
        """End a backward pass, so that every replica's gradients agree; every rank does so at once."""

    def _replica(self, trained: Trained) -> R:
        replica = self.make_replica(trained)
        replica.broadcast()
        self._lay_out(replica)
        return replica

    def _lay_out(self, replica: R) -> None:
        """Lay a replica out anew. Raises: TrainedApart where the ranks would train other parameters of it."""
        names = trained_names(replica.model())
        text = " ".join(names)
        some = f"{', '.join(names[:5])} and so on" if len(names) > 5 else ", ".join(names)
        # Layouts on which the ranks once agreed need no message: a GAN's script freezes and thaws in each step.
        if hash_of_text(text) not in replica.agreed:
            if not self._collectives.is_alike("backward over others than before:", f"{some} ({hash_of_text(text):x})"):
                raise TrainedApart(f"at {call_site()}: {first_apart(self._collectives.gather_object(names))}")
            replica.agreed.add(hash_of_text(text))
        replica.lay_out()

    def is_averaged(self, parameter: torch.Tensor) -> bool:
        """Whether a prepared model or optimizer has it."""
        return self._is_owned(parameter) or any(replica.has(parameter) for replica in self._replicas)

    def _is_owned(self, parameter: torch.Tensor) -> bool:
        """Whether a model has this parameter, prepared here or by another accelerator; or another optimizer's rest."""
        unowned = {id(replica) for _, replica in self._unowned}
        if any(replica.has(parameter) for replica in self._replicas if id(replica) not in unowned):
            return True
        hooks = (getattr(parameter, "_post_accumulate_grad_hooks", None) or {}).values()
        return any(isinstance(hook, GradientHook) and hook.replica.owner is not self for hook in hooks)

    def _drop_owned(self) -> None:
        """Drop unowned parameters that a model owns now, and optimizers that are gone."""
        for pair in list(self._unowned):
            _, replica = pair
            if replica.is_stale():
                self._lay_out(replica)
            if not replica.parameters:
                self._unowned.remove(pair)
                self._drop(replica)

    def _adopt(self, replica: R) -> None:
        if replica.owner is not self:
            if replica.owner is not None:
                replica.owner.disown(replica)
            replica.owner = self
            self._replicas.append(replica)

    def disown(self, replica: Replica) -> None:
        """Leave this replica to another strategy, whose accelerator has prepared its model."""
        self._replicas = [each for each in self._replicas if each is not replica]

    def backward(self, loss: torch.Tensor, *, may_end: bool = False, **options: Any) -> None:
        """The backward pass, after which every model's gradients are means over all ranks.

        may_end: whether some ranks may have come to the script's end; the means are over the others then.
        """
        if not self.synchronises or self._announced:
            loss.backward(**options)  # type: ignore[no-untyped-call]
            return
        if self._world.debug and self._has_begun:
            self._compare()
        is_uneven = self._joining or may_end
        self._active = list(range(self._world.size))
        if is_uneven:
            self._count_active(is_here=True)
        self._begin()
        self._announced = True
        try:
            loss.backward(**options)  # type: ignore[no-untyped-call]
        except BaseException as error:
            self._give_up(error)
            raise
        finally:
            self._announced = False
        self._finish()
        self._has_begun = True
        if is_uneven:
            self._rescale()

    def _compare(self) -> None:
        """Raises: Desync where ranks no longer hold the same parameters."""
        named = named_parameters(self.models())
        if (difference := find_divergence(self._collectives, "backward", named)) is not None:
            raise Desync(f"at {call_site()} backward: {difference}")

    def begin_unannounced(self) -> None:
        """Average after a backward pass that did not come through the accelerator, too. Called by autograd's hooks."""
        if self._joining:
            self._count_active(is_here=True)
        self._open()
        torch.autograd.Variable._execution_engine.queue_callback(_Ending(self))

    def _begin(self) -> None:
        self._lay_out_what_changed()
        self._open()

    def _lay_out_what_changed(self) -> None:
        for groups in self._groups:
            if groups.have_changed() and (optimizer := groups.optimizer()) is not None:
                self.prepare_optimizer(optimizer)
        for replica in self._replicas:
            if replica.is_stale():
                self._lay_out(replica)

    def _open(self) -> None:
        for replica in self._replicas:
            replica.open()

    def _finish(self) -> None:
        if not self._replicas:
            return
        try:
            self.finish(self._replicas)
        except Unanswered as error:
            raise missing(self._world, "backward", error) from None
        finally:
            self._close()
        self._synchronised += 1

    @property
    def synchronised(self) -> int:
        """How many backward passes have made gradients and buffers agree."""
        return self._synchronised

    def finish_unannounced(self) -> None:
        """End such a backward pass."""
        self._finish()
        if self._joining:
            self._rescale()
            return
        if any(replica.is_stale() for replica in self._replicas):
            # Parameters without a hook yet took part: lay out again and average once more, which changes no mean.
            self._begin()
            self._finish()

    def forget_unannounced(self) -> None:
        """After an error in such a backward pass: the next one begins a round of its own."""
        if not self._announced:
            self._close()

    def _give_up(self, error: BaseException) -> None:
        """After an error in this rank's backward pass."""
        self._close()

    def _close(self) -> None:
        for replica in self._replicas:
            replica.close()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Let gradients add up on each rank; the next backward pass outside averages the sums."""
        before, self.synchronises = self.synchronises, False
        try:
            yield
        finally:
            self.synchronises = before

    @contextmanager
    def sync(self) -> Iterator[None]:
        """Average in the backward passes inside, also where `no_sync` is around."""
        before, self.synchronises = self.synchronises, True
        try:
            yield
        finally:
            self.synchronises = before

    @property
    def is_joining(self) -> bool:
        """Whether ranks may come to their end at different times."""
        return self._joining

    @property
    def is_complete(self) -> bool:
        """Whether all ranks took part in the last backward pass, none only because the others still do."""
        return len(self._active) == self._world.size

    @contextmanager
    def join(self, catch_up: Callable[[int], None]) -> Iterator[None]:
        """Let ranks run out of batches at different times: one that has none left takes part without gradients.

        Means are over the ranks that had a batch. At the end `catch_up` is called with a rank that took all steps.
        """
        self._joining, self._active = True, list(range(self._world.size))
        try:
            yield
            self._finish_with_others()
        finally:
            self._joining = False
        if len(self._active) < self._world.size:
            catch_up(self._active[0])

    def wait_at_exit(self) -> None:
        """At the end of a script that has not failed: take part without gradients until all ranks have come here."""
        if getattr(sys, "last_value", None) is None:
            with suppress(AccelifyError, RuntimeError):  # the ranks that go on report what is wrong
                self._finish_with_others(as_laid_out=True)

    def meet(self, catch_up: Callable[[int], None]) -> None:
        """Take part without gradients until all ranks have come here; `catch_up` with one that took all steps."""
        self._finish_with_others()
        if len(self._active) < self._world.size:
            catch_up(self._active[0])
            self._active = list(range(self._world.size))

    def _finish_with_others(self, *, as_laid_out: bool = False) -> None:
        """Take part in the others' backward passes; `as_laid_out`, though models that a function had are gone."""
        while self._count_active(is_here=False):
            self._forget_gradients()
            if not as_laid_out:
                self._lay_out_what_changed()
            self._open()
            self._finish()
            self._forget_gradients()

    def _count_active(self, *, is_here: bool) -> bool:
        """Whether any rank still has a batch; who has is kept."""
        operation = "backward in join_uneven_inputs" if self._joining else "backward"
        active = [rank for rank, is_there in enumerate(self._collectives.counts(int(is_here), operation)) if is_there]
        self._active = active or self._active
        if not self._joining and active:
            self._note_ended(active)
        return bool(active)

    def _note_ended(self, active: list[int]) -> None:
        """Warn, once, of ranks that have long ended: what is still learned is the others' alone."""
        self._rounds += 1
        if len(active) == self._world.size or self._incomplete is None:
            return
        self._incomplete += 1
        if self._incomplete * LATE_SHARE < self._rounds:
            return
        ended = ", ".join(str(rank) for rank in range(self._world.size) if rank not in active)
        files = " Its files hold what was learned until then." if 0 not in active else ""
        warnings.warn(
            f"backward: rank {ended} came to the training's end after {self._rounds - self._incomplete} backward "
            f"passes; rank {', '.join(map(str, active))} goes on alone, with gradients of its own data only.{files} "
            "Where the ranks stop by what each has measured, let all decide by the same number: "
            "accelerator.reduce(..., 'mean')",
            stacklevel=2,
        )
        self._incomplete = None

    def _rescale(self) -> None:
        """Turn means over all ranks into means over those that had a batch."""
        if len(self._active) == self._world.size:
            return
        with torch.no_grad():
            for gradient in {id(p.grad): p.grad for p in self._trained() if p.grad is not None}.values():
                gradient.mul_(self._world.size / len(self._active))

    def _forget_gradients(self) -> None:
        for parameter in self._trained():
            parameter.grad = None

    def _trained(self) -> list[torch.Tensor]:
        return [parameter for replica in self._replicas for parameter in replica.parameters]

    def unowned_parameters(self) -> list[torch.Tensor]:
        """The parameters of optimizers that no prepared model owns."""
        return [parameter for _, replica in self._unowned for parameter in replica.parameters]

    def let_go(self) -> None:
        """Drop the models and the optimizers that are gone on any rank; on every rank at once."""
        self._groups = [groups for groups in self._groups if groups.optimizer() is not None]
        gone = {id(replica) for unowned, replica in self._unowned if unowned.are_gone()}
        mine = [replica.model() is None or id(replica) in gone for replica in self._replicas]
        everyone = self._collectives.gather_object(mine)
        for replica, *is_gone in zip(tuple(self._replicas), *everyone, strict=True):
            if any(is_gone):
                self._drop(replica)
        kept = set(map(id, self._replicas))
        self._unowned = [pair for pair in self._unowned if id(pair[1]) in kept]

    def forget(self) -> None:
        """Forget every model."""
        for replica in tuple(self._replicas):
            self._drop(replica)
        self._unowned, self._groups = [], []

    def _drop(self, replica: R) -> None:
        replica.release()
        self._replicas.remove(replica)


class UnownedParameters:
    """An optimizer's parameters that no prepared model owns, treated as a model; one prepared later takes its own."""

    def __init__(self, optimizer: Optimizer, is_owned: Callable[[torch.Tensor], bool]) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._is_owned = is_owned

    def belongs_to(self, optimizer: Optimizer) -> bool:
        """Whether this optimizer steps them."""
        return self._optimizer() is optimizer

    def are_gone(self) -> bool:
        """Whether the script has let the optimizer go."""
        return self._optimizer() is None

    def parameters(self) -> Iterator[torch.Tensor]:
        """The parameters that no model has."""
        optimizer = self._optimizer()
        for group in [] if optimizer is None else optimizer.param_groups:
            for parameter in group["params"]:
                if not self._is_owned(parameter):
                    yield parameter

    def modules(self) -> Iterator[nn.Module]:
        """None: buffers belong to models."""
        return iter(())

    def buffers(self) -> Iterator[torch.Tensor]:
        """None."""
        return iter(())


class SteppedParameters:
    """The parameters that an optimizer stepped when it was last looked at."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = weakref.ref(optimizer)
        self._stepped = _stepped(optimizer)

    def have_changed(self) -> bool:
        """Whether other parameters are in them now than when this was last asked."""
        optimizer = self.optimizer()
        before, self._stepped = self._stepped, [] if optimizer is None else _stepped(optimizer)
        return len(before) != len(self._stepped) or any(map(is_not, before, self._stepped))


def _stepped(optimizer: Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
