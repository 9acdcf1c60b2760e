"""Replicas joined by torch.distributed, averaged during the backward pass; and which strategy a world gets."""

from __future__ import annotations

import itertools
import threading
import weakref
from contextlib import suppress

import torch
import torch.distributed as dist

from accelify.errors import AccelifyError
from accelify.runtime.gradients.buckets import sums_over_ranks
from accelify.runtime.gradients.reducer import BucketedReplica
from accelify.runtime.gradients.replica import Trained
from accelify.runtime.gradients.strategy import Replicas, Strategy
from accelify.runtime.gradients.xla import XlaReplicas, XlaSingle
from accelify.runtime.world.collectives import Collectives
from accelify.runtime.world.process_group import World


class BackwardFailed(AccelifyError, RuntimeError):
    """A backward pass that failed on some rank, so that no rank has its gradients. Raised where it did not fail."""


class DistributedReplicas(Replicas[BucketedReplica]):
    """Processes joined by torch.distributed: gradients are averaged while the backward pass runs.

    compressed: the dtype to which gradients are rounded to be sent, None for their own.
    """

    def __init__(self, *, world: World, collectives: Collectives, compressed: torch.dtype | None = None) -> None:
        super().__init__(world=world, collectives=collectives)
        collectives.keep_alike(self)
        self._compressed = compressed
        self._failure: str | None = None
        # Those of replicas that were dropped: to make one takes time, and each keeps connections.
        self._free: list[weakref.ref[dist.ProcessGroup]] = []

    def make_replica(self, trained: Trained) -> BucketedReplica:
        """A replica with a group of its own: its messages keep their order whatever else is sent (SyncBatchNorm)."""
        free = self._free.pop()() if self._free else None
        group = dist.new_group(timeout=self._world.timeout) if free is None else free
        assert group is not None
        return BucketedReplica(trained, group, self._world.size, self._compressed)

    def _drop(self, replica: BucketedReplica) -> None:
        super()._drop(replica)
        if replica.group is not None:
            self._free.append(weakref.ref(replica.group))

    def finish(self, replicas: list[BucketedReplica]) -> None:
        """Send what is left, and with it what the other ranks must know."""
        if len(replicas) == 1 and self._world.device.type == "cpu":
            is_whole = replicas[0].finish()
        else:
            is_whole = self._finish_many(replicas)
        if not is_whole:
            failures = enumerate(self._collectives.gather_object(self._failure))
            failed = "; ".join(f"rank {rank}: {failure}" for rank, failure in failures if failure is not None)
            raise BackwardFailed(f"the backward pass failed on {failed}. No rank has its gradients: call zero_grad")

    def _finish_many(self, replicas: list[BucketedReplica]) -> bool:
        # Which models this pass touched may differ between ranks; and reading flags from a GPU would stall it.
        mine = [replica.flags() for replica in replicas]
        start, sums, is_whole = 0, sums_over_ranks([flag for flags in mine for flag in flags]), True
        for replica, flags in zip(replicas, mine, strict=True):
            totals = sums[start : start + len(flags)]
            if sums[start] == 0:
                replica.close()
                replica.synchronise_buffers(totals)
            else:
                is_whole = replica.finish(totals) and is_whole
            start += len(flags)
        return is_whole

    @property
    def has_buffers(self) -> bool:
        """Whether there are buffers that could differ; not where ranks join, as each comes there in its own time."""
        return not self._joining and any(replica.has_buffers for replica in self._replicas)

    def versions_of_buffers(self) -> int:
        """A number that is another one once a forward pass has changed buffers."""
        return hash(tuple(replica.versions_of_buffers() for replica in self._replicas if replica.has_buffers))

    def have_changed(self) -> bool:
        """Whether a forward pass after the last backward pass has changed buffers here; not asked beside training."""
        is_asked = not self._joining and threading.current_thread() is threading.main_thread()
        return is_asked and any(any(replica.changed_buffers()) for replica in self._replicas)

    def synchronise_buffers(self) -> None:
        """Make buffers agree that have changed on some rank; every rank does so at once."""
        mine = [[float(flag) for flag in replica.changed_buffers()] for replica in self._replicas]
        sums = iter(sums_over_ranks([flag for flags in mine for flag in flags]))
        for replica, flags in zip(self._replicas, mine, strict=True):
            replica.synchronise_buffers(list(itertools.islice(sums, len(flags))))

    def _give_up(self, error: BaseException) -> None:
        """Take part in the round, in which the other ranks learn of the error instead of waiting forever."""
        if isinstance(error, Exception) and self._replicas:
            self._failure = f"{type(error).__name__}: {error}"
            for replica in self._replicas:
                replica.has_failed = True
            # The first error is the one that is raised here, also where the others are gone.
            with suppress(Exception):
                self.finish(self._replicas)
            self._failure = None
        self._close()


def choose_strategy(world: World, collectives: Collectives, comm_hook: str | None = None) -> Strategy:
    """The strategy for this world: replicas where there are several processes.

    comm_hook: "fp16" or "bf16" where gradients travel rounded to it, None where as they are.
    """
    if world.device.type == "xla":
        if comm_hook is not None:
            raise ValueError(f"comm_hook={comm_hook!r}: on XLA gradients travel as they are")
        return XlaReplicas(world=world, collectives=collectives) if world.size > 1 else XlaSingle()
    compressed = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(comm_hook or "")
    if world.size == 1:
        return Strategy()
    return DistributedReplicas(world=world, collectives=collectives, compressed=compressed)
