"""Average a model's gradients over the ranks while the backward pass runs, from hooks on the parameters alone.

Why not DistributedDataParallel's reducer: it has to be armed by a forward through its own `__call__`, counts every
parameter exactly once, and raises or stays silent where a script does anything else (a loss from another method, two
backward passes over one graph, a shared layer under activation checkpointing). Here nothing is armed. A round is:

1. Each gradient, as autograd completes it, is copied (divided by the world size) into its bucket, and `.grad` is let
   go, so that its memory serves the next one. A full bucket's all-reduce starts at once, in one fixed order on every
   rank, while the backward pass goes on.
2. After the backward pass whatever is missing is filled in (a parameter without a gradient counts as zero), and the
   last bucket leaves, always, with a tail of flags: which parameters have a gradient, which buckets changed after
   they left, which buffers changed. (Of a large model they go ahead of the gradients, in a message of their own.)
3. Buckets that changed on any rank are sent again, with all of their gradients. Since a round averages all that there
   is, and what is averaged already is the same on all ranks, any number of rounds gives the same mean as one.
4. The means become `.grad` where they lie, or are copied into it; a parameter without a gradient on any rank keeps
   None.
"""

from __future__ import annotations

import math
import weakref

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parameter import is_lazy

from accelify.errors import AccelifyError
from accelify.runtime.gradients.buckets import (
    FEW_BUCKETS,
    Bucket,
    copy_from_rank_0,
    fill,
    grouped,
    mean_over_ranks,
    sums_over_ranks,
)
from accelify.runtime.gradients.replica import Replica, Trained
from accelify.runtime.world.desync import answered

_INSTANCE_NORM = nn.modules.instancenorm._InstanceNorm

_GONE = (
    "a hook of the script's own removed a gradient in the backward pass, as optimizers that step in it do: it was "
    "that of this process alone, and the processes would diverge. Step after accelerator.backward"
)


class GradientGone(AccelifyError, RuntimeError):
    """A gradient that was used up before it could be averaged."""


class BucketedReplica(Replica):
    """A replica whose gradients travel in buckets through a process group of its own."""

    def __init__(
        self, model: Trained, group: dist.ProcessGroup, world_size: int, compressed: torch.dtype | None
    ) -> None:
        super().__init__(model, world_size)
        self._compressed = compressed
        # Weak: a group that outlives destroy_process_group() leaves gloo's threads to the interpreter's end, which
        # aborts the process when one of them frees a tensor then.
        self._group = weakref.ref(group)
        self.buckets: list[Bucket] = []
        self._place: list[tuple[Bucket, int]] = []
        # A parameter that had no gradient in the first round is not waited for, until it has come too late once.
        self._awaited: list[bool] = []
        self._seen: list[bool] = []
        # Whose gradient is in its bucket only; `.grad` has what came too late, if anything did.
        self._taken: list[bool] = []
        # Whose `.grad` was there before the round: it may lie in memory of the script's own, and stays where it is.
        self._kept: list[bool] = []
        self._late: set[int] = set()
        self._late_once: set[int] = set()
        self.has_failed = False
        self._next = 0
        self._buffers = Buffers([])
        self._is_arranged = False
        self._sparse: set[int] = set()

    @property
    def group(self) -> dist.ProcessGroup | None:
        """The group whose ranks share the model; None, which torch takes for the default one, once it is destroyed."""
        return self._group()

    def copy_from_rank_0(self, tensors: list[torch.Tensor]) -> None:
        """Rank 0's values in the tensors of all ranks, in place, few messages."""
        copy_from_rank_0(tensors, self.group)

    def arrange(self, modules: list[nn.Module]) -> None:
        """Put the parameters that train now into buckets, last ones first."""
        # A script that freezes and thaws in turn is laid out anew between its forward and its backward pass.
        self._buffers = Buffers(modules, self._buffers if self._is_arranged else None)
        self._is_arranged = True
        self._sparse = {id(module.weight) for module in modules if getattr(module, "sparse", False) is True}
        groups = list(grouped(self.parameters))
        flags = 1 + len(self.parameters) + len(groups) + len(self._buffers)
        self.buckets = [
            Bucket(indices, self.parameters, flags if position == len(groups) - 1 else 0, self._compressed)
            for position, indices in enumerate(groups)
        ]
        places = {index: (one, at) for one in self.buckets for at, index in enumerate(one.indices)}
        self._place = [places[index] for index in range(len(self.parameters))]
        self._awaited = [True] * len(self.parameters)

    # -- a round

    def open(self) -> None:
        """Begin a round."""
        self.is_open = True
        self._seen = [False] * len(self.parameters)
        self._taken = [False] * len(self.parameters)
        self._kept = [parameter.grad is not None for parameter in self.parameters]
        self._late.clear()
        self._next = 0
        for bucket in self.buckets:
            bucket.open()
            bucket.waiting = sum(self._awaited[index] for index in bucket.indices)

    def arrived(self, index: int, parameter: torch.Tensor) -> None:
        """Take in a gradient that the backward pass has completed; called by autograd."""
        owner = self.owner
        if owner is None or not owner.synchronises:
            return
        if not self.is_open:
            owner.begin_unannounced()
        bucket, position = self._place[index]
        if bucket.launched:
            self._late.add(index)
            return
        view, gradient = bucket.views[position], parameter.grad
        if gradient is None:
            raise GradientGone(_GONE)
        if self._taken[index]:
            view.add_(gradient, alpha=1 / self.world_size)
            parameter.grad = None
            return
        fill(view, gradient, self.world_size)
        if bucket.lends and not self._kept[index] and _may_take(parameter, gradient):
            self._taken[index] = True
            parameter.grad = None
        if self._seen[index]:
            return
        self._seen[index] = True
        if self._awaited[index]:
            bucket.waiting -= 1
            if bucket.waiting == 0:
                self._launch_full()

    def _launch_full(self) -> None:
        last = len(self.buckets) - 1
        while self._next < last and self.buckets[self._next].waiting <= 0:
            self._launch(self.buckets[self._next])
            self._next += 1

    def _launch(self, bucket: Bucket) -> None:
        for index, view in zip(bucket.indices, bucket.views, strict=True):
            if not self._seen[index]:
                fill(view, self.parameters[index].grad, self.world_size)
        self._send(bucket)

    def _send(self, bucket: Bucket) -> None:
        bucket.launched = True
        with answered():
            bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)

    def finish(self, flags: list[float] | None = None) -> bool:
        """Complete the round, so that gradients and buffers agree on all ranks; false if it failed on some rank.

        `flags` are the sums over ranks of what each had in `flags()`; without them they travel in the last bucket.
        With many buckets they go ahead of the gradients: one bucket is written back while the next is being sent.
        Every rank does so at once.
        """
        if not self.buckets:
            self.close()
            return True
        for bucket in self.buckets[self._next : -1]:
            self._launch(bucket)
        last = self.buckets[-1]
        travel_along = flags is None and len(self.buckets) <= FEW_BUCKETS
        if travel_along:
            last.tail.copy_(torch.tensor(self.flags(), dtype=last.flat.dtype))
        self._launch(last)
        if travel_along:
            last.wait()
            flags = last.tail.real.tolist()
        elif flags is None:
            flags = sums_over_ranks(self.flags())
        if math.isnan(flags[0]):
            for bucket in self.buckets:
                bucket.wait()
            self.close()
            return False
        count = len(self.parameters)
        used, late = flags[1 : 1 + count], flags[1 + count : 1 + count + len(self.buckets)]
        again = [bucket for bucket, flag in zip(self.buckets, late, strict=True) if flag > 0]
        for bucket in self.buckets:
            bucket.wait()
            if bucket not in again:
                self._write_back(bucket, used)
        self._send_again(again)
        for bucket in again:
            bucket.wait()
            self._write_back(bucket, used)
        self._learn()
        self.close()
        self.synchronise_buffers(flags)
        return True

    def close(self) -> None:
        """End a round, finished or given up."""
        super().close()
        self.has_failed = False

    @property
    def has_buffers(self) -> bool:
        """Whether there are any buffers that could differ."""
        return len(self._buffers) > 0

    def versions_of_buffers(self) -> int:
        """A number that is another one once a forward pass has changed buffers."""
        return self._buffers.versions()

    def changed_buffers(self) -> list[bool]:
        """Which buffers may have changed on this rank since they last agreed."""
        return self._buffers.changed()

    def synchronise_buffers(self, flags: list[float]) -> None:
        """Make buffers agree that changed on some rank, by the sums over ranks of `flags()`, or of their last ones."""
        self._buffers.synchronise(flags[len(flags) - len(self._buffers) :], self.group, self.world_size)

    def flags(self) -> list[float]:
        """The facts of this round that the other ranks need: touched, gradients there, late buckets, changed buffers.

        NaN in the first place: the backward pass failed here.
        """
        if not self.has_failed and any(
            seen and not taken and parameter.grad is None
            for seen, taken, parameter in zip(self._seen, self._taken, self.parameters, strict=True)
        ):
            raise GradientGone(_GONE)
        touched = any(self._seen) or bool(self._late)
        used = [
            float(is_taken or parameter.grad is not None)
            for is_taken, parameter in zip(self._taken, self.parameters, strict=True)
        ]
        late_buckets = {id(self._place[index][0]) for index in self._late}
        late = [float(id(bucket) in late_buckets) for bucket in self.buckets]
        return [math.nan if self.has_failed else float(touched), *used, *late, *map(float, self._buffers.changed())]

    def _send_again(self, again: list[Bucket]) -> None:
        """The buckets that some rank added to after they had left: the means so far, and what came too late."""
        for bucket in again:
            for index, view in zip(bucket.indices, bucket.views, strict=True):
                gradient = self.parameters[index].grad
                if not self._taken[index]:
                    fill(view, gradient, self.world_size)
                    continue
                view.div_(self.world_size)
                if gradient is not None:
                    view.add_(gradient, alpha=1 / self.world_size)
            self._send(bucket)

    def _write_back(self, bucket: Bucket, used: list[float]) -> None:
        with torch.no_grad():
            for index, view in zip(bucket.indices, bucket.views, strict=True):
                if used[index] <= 0:
                    continue
                parameter = self.parameters[index]
                gradient = parameter.grad
                if id(parameter) in self._sparse:
                    # SparseAdam and its kind take nothing else; rows that no rank used are left out.
                    parameter.grad = view.to(parameter.dtype).to_sparse(1)
                elif gradient is not None and gradient.requires_grad:
                    # Made with create_graph: its graph must not see that the value changed.
                    gradient.data.copy_(view)
                elif bucket.lends and not (self._kept[index] and gradient is not None):
                    # `.data`, as nothing that is called a view may be detached in place.
                    parameter.grad = view.data
                elif gradient is None or gradient.is_sparse:
                    parameter.grad = torch.empty_like(parameter).copy_(view)
                else:
                    gradient.copy_(view)
        bucket.lend()

    def _learn(self) -> None:
        for index, seen in enumerate(self._seen):
            if index in self._late:
                self._awaited[index] = True
                self._late_once.add(index)
            elif not seen and index not in self._late_once:
                self._awaited[index] = False


def _may_take(parameter: torch.Tensor, gradient: torch.Tensor) -> bool:
    """Whether `.grad` may be empty until the round ends: hooks of the script's own, beside ours, may want to see it."""
    has_other_hooks = len(getattr(parameter, "_post_accumulate_grad_hooks", None) or ()) > 1
    return not (gradient.requires_grad or gradient.is_sparse or has_other_hooks)


class Buffers:
    """The buffers of some modules, by module and name: a script may put another tensor in a buffer's place."""

    def __init__(self, modules: list[nn.Module], before: Buffers | None = None) -> None:
        """They agree now, or where there is a `before`, as far as those did: what is new may differ."""
        self._places = [(module, name) for module in modules for name, _ in module._buffers.items()]
        # The kernel of a batch norm writes its statistics without a new version; only the count of batches shows it.
        counts = {id(module): at for at, (module, name) in enumerate(self._places) if name == "num_batches_tracked"}
        self._witnesses = [counts.get(id(module), at) for at, (module, _) in enumerate(self._places)]
        self._versions = self._current_versions()
        if before is not None:
            agreed = {(id(module), name): at for at, (module, name) in enumerate(before._places)}
            known = [agreed.get((id(module), name)) for module, name in self._places]
            self._versions = [None if at is None else before._versions[at] for at in known]

    def __len__(self) -> int:
        return len(self._places)

    def _current_versions(self) -> list[tuple[int, int] | None]:
        return [_version(_held(module, name)) for module, name in self._places]

    def versions(self) -> int:
        """A number that is another one once buffers have changed."""
        return hash(tuple(self._current_versions()))

    def changed(self) -> list[bool]:
        """Which may have changed since they last agreed."""
        if not self._places:
            return []
        current = self._current_versions()
        moved = [new is not None and new != old for new, old in zip(current, self._versions, strict=True)]
        return [
            moved[at] or moved[witness] or (isinstance(module, _INSTANCE_NORM) and module.training)
            for at, (witness, (module, _)) in enumerate(zip(self._witnesses, self._places, strict=True))
        ]

    def synchronise(self, changed: list[float], group: dist.ProcessGroup | None, world_size: int) -> None:
        """Make those agree that have changed on some rank; every rank does so at once.

        The statistics of batch norms become means over ranks, anything else is as rank 0 has it.
        """
        tensors = [
            (module, tensor)
            for (module, name), flag in zip(self._places, changed, strict=True)
            if flag > 0 and (tensor := _held(module, name)) is not None
        ]
        if not tensors:
            return
        means = [tensor for module, tensor in tensors if isinstance(module, nn.modules.batchnorm._NormBase)]
        others = [tensor for module, tensor in tensors if not isinstance(module, nn.modules.batchnorm._NormBase)]
        mean_over_ranks(means, group, world_size)
        copy_from_rank_0(others, group)
        self._versions = self._current_versions()


def _held(module: nn.Module, name: str) -> torch.Tensor | None:
    # The container that a scripted module has instead of a dict has no `get`.
    return module._buffers[name] if name in module._buffers else None  # noqa: SIM401


def _version(tensor: torch.Tensor | None) -> tuple[int, int] | None:
    if tensor is None or is_lazy(tensor):
        return None
    return id(tensor), 0 if tensor.is_inference() else tensor._version
