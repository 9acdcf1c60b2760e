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
3. Buckets that changed on any rank go again, whole. Since a round averages all that there is, and what is averaged
   already is the same on all ranks, any number of rounds gives the same mean as one.
4. The means become `.grad` where they lie, or are copied into it; a parameter without a gradient on any rank keeps
   None.
"""

from __future__ import annotations

import weakref

import torch
import torch.distributed as dist
from torch import nn

from accelify.runtime.buckets import (
    FEW_BUCKETS,
    Bucket,
    copy_from_rank_0,
    fill,
    grouped,
    mean_over_ranks,
    sums_over_ranks,
)
from accelify.runtime.replica import Replica, Trained


class Bucketed(Replica):
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
        self._late: set[int] = set()
        self._late_once: set[int] = set()
        self._next = 0
        self._buffers: list[tuple[nn.Module, str]] = []
        self._versions: list[tuple[int, int] | None] = []
        self._witnesses: list[int] = []
        self._sparse: set[int] = set()

    @property
    def group(self) -> dist.ProcessGroup | None:
        """The group whose ranks share the model; None, torch's word for the default one, once it is destroyed."""
        return self._group()

    def copy_from_rank_0(self, tensors: list[torch.Tensor]) -> None:
        """Rank 0's values in everyone's tensors, in place, few messages."""
        copy_from_rank_0(tensors, self.group)

    def arrange(self, modules: list[nn.Module]) -> None:
        """Put the parameters that train now into buckets, last ones first."""
        self._buffers = [(module, name) for module in modules for name in module._buffers]
        # The kernel of a batch norm writes its statistics without a new version; only the count of batches tells.
        counts = {id(module): at for at, (module, name) in enumerate(self._buffers) if name == "num_batches_tracked"}
        self._witnesses = [counts.get(id(module), at) for at, (module, _) in enumerate(self._buffers)]
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
        self.note_buffers()

    # -- a round

    def open(self) -> None:
        """Begin a round."""
        self.is_open = True
        self._seen = [False] * len(self.parameters)
        self._taken = [False] * len(self.parameters)
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
        assert gradient is not None
        if self._taken[index]:
            view.add_(gradient, alpha=1 / self.world_size)
            parameter.grad = None
            return
        fill(view, gradient, self.world_size)
        if bucket.lends and _may_take(parameter, gradient):
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
        bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)

    def finish(self, flags: list[float] | None = None) -> None:
        """Complete the round, so that gradients and buffers agree on all ranks. Every rank does so at once.

        `flags` are the sums over ranks of what each had in `flags()`; without them they travel in the last bucket.
        Where gradients are many, they overtake them, so that one bucket is written back while the next is on its way.
        """
        if not self.buckets:
            return self.close()
        for bucket in self.buckets[self._next : -1]:
            self._launch(bucket)
        last = self.buckets[-1]
        travel_along = flags is None and len(self.buckets) <= FEW_BUCKETS
        if travel_along:
            last.tail.copy_(torch.tensor(self.flags(), dtype=last.flat.dtype))
        self._launch(last)
        if travel_along:
            last.wait()
            flags = last.tail.tolist()
        elif flags is None:
            flags = sums_over_ranks(self.flags())
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
        return self.share_buffers(flags)

    def flags(self) -> list[float]:
        """What the other ranks must know of this round: touched, gradients there, late buckets, changed buffers."""
        touched = any(self._seen) or bool(self._late)
        used = [
            float(is_taken or parameter.grad is not None)
            for is_taken, parameter in zip(self._taken, self.parameters, strict=True)
        ]
        late_buckets = {id(self._place[index][0]) for index in self._late}
        late = [float(id(bucket) in late_buckets) for bucket in self.buckets]
        return [float(touched), *used, *late, *map(float, self._changed_buffers())]

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
                elif bucket.lends:
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

    # -- buffers

    def note_buffers(self) -> None:
        """Take the buffers as they are now for the same on all ranks."""
        self._versions = self._current_versions()

    def _current_versions(self) -> list[tuple[int, int] | None]:
        return [_version(module._buffers.get(name)) for module, name in self._buffers]

    def _changed_buffers(self) -> list[bool]:
        if not self._buffers:
            return []
        current = self._current_versions()
        moved = [new is not None and new != old for new, old in zip(current, self._versions, strict=True)]
        return [
            moved[at] or moved[witness] or (isinstance(module, _INSTANCE_NORM) and module.training)
            for at, (witness, (module, _)) in enumerate(zip(self._witnesses, self._buffers, strict=True))
        ]

    def share_buffers(self, flags: list[float]) -> None:
        """Make buffers agree that changed on some rank, by the sums over ranks of `flags()`.

        The statistics of batch norms become means over ranks, anything else is as rank 0 has it.
        """
        changed = flags[len(flags) - len(self._buffers) :]
        tensors = [
            (module, tensor)
            for (module, name), flag in zip(self._buffers, changed, strict=True)
            if flag > 0 and (tensor := module._buffers.get(name)) is not None
        ]
        if not tensors:
            return
        means = [tensor for module, tensor in tensors if isinstance(module, nn.modules.batchnorm._NormBase)]
        others = [tensor for module, tensor in tensors if not isinstance(module, nn.modules.batchnorm._NormBase)]
        mean_over_ranks(means, self.group, self.world_size)
        self.copy_from_rank_0(others)
        self.note_buffers()


_INSTANCE_NORM = nn.modules.instancenorm._InstanceNorm


def _version(tensor: torch.Tensor | None) -> tuple[int, int] | None:
    if tensor is None:
        return None
    return id(tensor), 0 if tensor.is_inference() else tensor._version


def _may_take(parameter: torch.Tensor, gradient: torch.Tensor) -> bool:
    """Whether `.grad` may be empty until the round ends: hooks of the script's own, beside ours, may want to see it."""
    has_other_hooks = len(getattr(parameter, "_post_accumulate_grad_hooks", None) or ()) > 1
    return not (gradient.requires_grad or gradient.is_sparse or has_other_hooks)
