"""Tensors that travel together: gradients in buckets, parameters and buffers in few messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.distributed as dist

from accelify.runtime.world.desync import answered, wait

# As DistributedDataParallel: a small first bucket, so that communication starts early.
# Units: bytes
FIRST_BUCKET = 1 << 20
BUCKET = 25 << 20
# With no more buckets than these, a message saved is worth more than gradients written back early.
FEW_BUCKETS = 2


class Bucket:
    """Gradients of one dtype and device that travel together; those of floats rounded to another where it is given.

    What comes back in the gradients' own dtype need not be copied: its memory is lent to `.grad`. Where anybody still
    uses that when the next round begins, the round takes other memory, and its means are copied.
    """

    __slots__ = (
        "_members",
        "_own",
        "_storage",
        "flat",
        "indices",
        "launched",
        "lent",
        "tail",
        "views",
        "waiting",
        "work",
    )

    def __init__(
        self, indices: list[int], parameters: Sequence[torch.Tensor], tail: int, rounded: torch.dtype | None
    ) -> None:
        self._members = [parameters[index] for index in indices]
        first = self._members[0]
        self.indices = indices
        self.launched = False
        self.waiting = 0
        self.work: dist.Work | None = None
        self.lent: torch.UntypedStorage | None = None
        self._take_memory(tail, rounded if rounded and first.is_floating_point() else first.dtype)

    def _take_memory(self, tail: int, dtype: torch.dtype) -> None:
        size = sum(member.numel() for member in self._members)
        self.flat = torch.zeros(size + tail, dtype=dtype, device=self._members[0].device)
        pieces = torch.split(self.flat[:size], [member.numel() for member in self._members])
        self.views = [_laid_out_as(member, piece) for piece, member in zip(pieces, self._members, strict=True)]
        self.tail = self.flat[size:]
        del pieces
        self._storage = self.flat.untyped_storage()
        self._own = _users(self._storage)

    def open(self) -> None:
        """Begin a round."""
        self.launched = False
        self.work = None
        if self.lent is None:
            return
        is_here = self.lent is self._storage
        if _users(self.lent) <= (self._own if is_here else 1):
            self.lent = None
        elif is_here:
            self._take_memory(len(self.tail), self.flat.dtype)

    @property
    def lends(self) -> bool:
        """Whether gradients may be in this memory after the round."""
        return self.lent is None and self.flat.dtype == self._members[0].dtype

    def lend(self) -> None:
        """Note that gradients are in this memory from now on."""
        if self.lends:
            self.lent = self._storage

    def wait(self) -> None:
        """Return once the message that this bucket left with has come back."""
        if self.work is not None:
            with answered():
                if self.flat.device.type == "cpu":
                    wait(self.work, "backward")
                else:
                    self.work.wait()
            self.work = None


def _users(storage: torch.UntypedStorage) -> int:
    """How many tensors use this memory, and the one object by which we hold it."""
    return torch._C._storage_Use_Count(storage._cdata)


def _laid_out_as(parameter: torch.Tensor, piece: torch.Tensor) -> torch.Tensor:
    """A view of this memory with the parameter's shape; its order in memory, too, if that has no gaps."""
    order = sorted(range(parameter.dim()), key=parameter.stride, reverse=True)
    if parameter.is_contiguous() or not parameter.permute(order).is_contiguous():
        return piece.view(parameter.shape)
    back = sorted(range(parameter.dim()), key=order.__getitem__)
    return piece.view([parameter.shape[position] for position in order]).permute(back)


def copy_from_rank_0(tensors: list[torch.Tensor], group: dist.ProcessGroup | None) -> None:
    """Rank 0's values in the tensors of all ranks, in place, few messages; one for each that is sparse."""
    dense = [tensor for tensor in tensors if tensor.layout is torch.strided]
    for sparse in (tensor for tensor in tensors if tensor.layout is not torch.strided):
        sent = [sparse.detach().cpu()]
        with answered():
            dist.broadcast_object_list(sent, src=0, group=group)
        with torch.no_grad():
            sparse.copy_(sent[0])
    for members in _by_kind(dense):
        flat = torch.cat([member.detach().reshape(-1) for member in members])
        with answered():
            dist.broadcast(flat.view(torch.uint8), src=0, group=group)
        _scatter_into(members, flat)


def mean_over_ranks(tensors: list[torch.Tensor], group: dist.ProcessGroup | None, world_size: int) -> None:
    """The mean over ranks in the tensors of all ranks, in place, one message."""
    if not tensors:
        return
    # One message: the batch counts (int64) are small and the same on all ranks, so float32 carries them exactly.
    is_double = any(tensor.dtype == torch.float64 for tensor in tensors)
    dtype = torch.float64 if is_double else torch.float32
    flat = torch.cat([tensor.detach().reshape(-1).to(dtype) for tensor in tensors])
    with answered():
        dist.all_reduce(flat, group=group)
    _scatter_into(tensors, flat.div_(world_size))


def sums_over_ranks(numbers: list[float]) -> list[float]:
    """The sums of small numbers, in a message that passes those of the gradients, in a group of their own, by."""
    summed = torch.tensor(numbers)
    with answered():
        wait(dist.all_reduce(summed, async_op=True), "backward")
    return summed.tolist()


def _scatter_into(tensors: list[torch.Tensor], flat: torch.Tensor) -> None:
    with torch.no_grad():
        for tensor, piece in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
            # Through `.data`: a graph that saved a buffer must not see that it changed.
            tensor.data.copy_(piece.view(tensor.shape))


def fill(view: torch.Tensor, gradient: torch.Tensor | None, world_size: int) -> None:
    """Put a gradient, divided by the world size, where it travels from; none counts as zero."""
    if gradient is None:
        view.zero_()
    elif gradient.is_sparse:
        view.copy_(gradient.detach().to_dense()).div_(world_size)
    else:
        torch.mul(gradient.detach() if gradient.requires_grad else gradient, 1 / world_size, out=view)


def grouped(parameters: Sequence[torch.Tensor]) -> Iterator[list[int]]:
    """Indices by dtype and device, last parameters first, in portions of a bucket's size."""
    kinds: dict[tuple[torch.dtype, torch.device], list[int]] = {}
    for index in reversed(range(len(parameters))):
        kinds.setdefault((parameters[index].dtype, parameters[index].device), []).append(index)
    limit = FIRST_BUCKET
    for indices in kinds.values():
        portion: list[int] = []
        size = 0
        for index in indices:
            portion.append(index)
            size += parameters[index].numel() * parameters[index].element_size()
            if size >= limit:
                yield portion
                portion, size, limit = [], 0, BUCKET
        if portion:
            yield portion


def _by_kind(tensors: Iterable[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    kinds: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
    for tensor in tensors:
        if tensor.numel():
            kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    for members in kinds.values():
        portion: list[torch.Tensor] = []
        size = 0
        for member in members:
            portion.append(member)
            size += member.numel() * member.element_size()
            if size >= 10 * BUCKET:
                yield portion
                portion, size = [], 0
        if portion:
            yield portion
