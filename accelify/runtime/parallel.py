"""How the ranks train one model together: alone, or each with a copy whose gradients are averaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any  # backward hands on what Tensor.backward takes

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parameter import is_lazy

from accelify.runtime.collectives import Alone
from accelify.runtime.process import World
from accelify.runtime.reducer import Replica, replica_of


class Single:
    """One process: a model is trained as it is."""

    synchronises = True

    def prepare_model(self, model: nn.Module) -> nn.Module:
        """The model itself."""
        return model

    def backward(self, loss: torch.Tensor, **options: Any) -> None:
        """The plain backward pass."""
        loss.backward(**options)  # type: ignore[no-untyped-call]

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Nothing is ever synchronised."""
        yield


class Replicated(Single):
    """Several processes, each with a copy of the model; gradients agree after every backward pass that synchronises."""

    def __init__(self, world: World, collectives: Alone) -> None:
        self.synchronises = True
        self._world = world
        self._collectives = collectives
        self._replicas: list[Replica] = []
        self._announced = False

    def prepare_model(self, model: nn.Module) -> nn.Module:
        """The model itself, equal on all ranks from now on. Its parameters carry the hooks; nothing wraps it."""
        replica = replica_of(model)
        if replica is None:
            self._collectives.agree("prepare", _shapes(model))
            # A group of its own: its messages keep their order whatever else the backward pass sends (SyncBatchNorm).
            group = dist.new_group(timeout=self._world.timeout)
            assert group is not None
            replica = Replica(model, group, self._world.size)
            replica.share()
            replica.lay_out()
        self._adopt(replica)
        return model

    def _adopt(self, replica: Replica) -> None:
        if replica.owner is not self:
            if replica.owner is not None:
                replica.owner._replicas.remove(replica)
            replica.owner = self
            self._replicas.append(replica)

    def backward(self, loss: torch.Tensor, **options: Any) -> None:
        """The backward pass, after which every model's gradients are means over all ranks."""
        if not self.synchronises or self._announced:
            loss.backward(**options)  # type: ignore[no-untyped-call]
            return
        self._begin()
        self._announced = True
        try:
            loss.backward(**options)  # type: ignore[no-untyped-call]
        except BaseException:
            self._close()
            raise
        finally:
            self._announced = False
        self._finish()

    def begin_unannounced(self) -> None:
        """Average after a backward pass that did not come through the accelerator, too. Called by autograd's hooks."""
        for replica in self._replicas:
            replica.open()
        torch.autograd.Variable._execution_engine.queue_callback(self._finish_unannounced)

    def _begin(self) -> None:
        for replica in self._replicas:
            if replica.is_stale():
                replica.lay_out()
            replica.open()

    def _finish(self) -> None:
        if not self._replicas:
            return
        if len(self._replicas) == 1 and self._world.device.type == "cpu":
            self._replicas[0].finish()
            return
        # Which models this pass touched may differ between ranks; and reading flags from a GPU would stall it.
        mine = [replica.flags() for replica in self._replicas]
        everyone = torch.tensor([flag for flags in mine for flag in flags])
        dist.all_reduce(everyone)
        start, sums = 0, everyone.tolist()
        for replica, flags in zip(self._replicas, mine, strict=True):
            totals = sums[start : start + len(flags)]
            if sums[start] > 0:
                replica.finish(totals)
            else:
                replica.close()
                replica.share_buffers(totals)
            start += len(flags)

    def _finish_unannounced(self) -> None:
        self._finish()
        if any(replica.is_stale() for replica in self._replicas):
            # Parameters without a hook yet took part: lay out again and average once more, which changes no mean.
            self._begin()
            self._finish()

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


def choose(world: World, collectives: Alone) -> Single:
    """The strategy for this world: replicas where there are several processes."""
    return Replicated(world, collectives) if world.size > 1 else Single()


def _shapes(model: nn.Module) -> str:
    named = [*model.named_parameters(), *model.named_buffers()]
    return " ".join(f"{name}:{str(tensor.dtype).removeprefix('torch.')}{_shape(tensor)}" for name, tensor in named)


def _shape(tensor: torch.Tensor) -> list[int] | str:
    return "lazy" if is_lazy(tensor) else list(tensor.shape)
