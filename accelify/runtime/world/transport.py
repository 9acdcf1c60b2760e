"""Messages between ranks: what a backend must offer, and torch.distributed's process group as one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any  # objects of every kind

import torch
import torch.distributed as dist

from accelify.runtime.world.desync import wait
from accelify.runtime.world.tensors import content_of

# gloo adds these; what else there is travels in a wider type and comes back.
_WIDER = {
    torch.bool: torch.int64,
    torch.int16: torch.int32,
    torch.uint8: torch.int64,
    torch.int8: torch.int64,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
}


# Messages that are kept until the next one comes. Units: bytes.
SMALL = 4096


class Transport(ABC):
    """The connection of `size` ranks. All ranks make the same call at once, with tensors of one shape and dtype."""

    size: int

    @abstractmethod
    def gather(self, tensor: torch.Tensor, operation: str = "gather", detail: str = "") -> list[torch.Tensor]:
        """Each rank's tensor; `operation` and `detail` are what an error names."""

    @abstractmethod
    def reduce(self, tensor: torch.Tensor, reduction: str) -> torch.Tensor:
        """The sum, max or min over ranks, of a dtype that holds it: wider than the tensor's where that is small."""

    @abstractmethod
    def broadcast(self, tensor: torch.Tensor, source: int) -> torch.Tensor:
        """The source rank's tensor."""

    @abstractmethod
    def objects(self, value: Any) -> list[Any]:
        """Each rank's object."""

    @abstractmethod
    def object_from(self, value: Any, source: int) -> Any:
        """The source rank's object."""

    def own_object(self, values: list[Any], rank: int) -> Any:
        """This rank's object of those that rank 0 has, one for each."""
        return self.object_from(values, 0)[rank]


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """A copy whose dtype holds sums, and is one that backends add."""
    kind = _WIDER.get(tensor.dtype, tensor.dtype)
    return tensor.detach().to(kind, copy=True, memory_format=torch.contiguous_format)


class Processes(Transport):
    """The ranks of the default process group: gloo, and NCCL for tensors on GPUs."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._sent: tuple[torch.Tensor, list[torch.Tensor]] | None = None

    def gather(self, tensor: torch.Tensor, operation: str = "gather", detail: str = "") -> list[torch.Tensor]:
        """Each rank's tensor, sent as bytes, since backends do not carry every dtype."""
        flat = content_of(tensor)
        if not flat.numel():
            return [tensor.detach()] * self.size
        everyone = [torch.empty_like(flat) for _ in range(self.size)]
        if flat.device.type == "cpu":
            wait(dist.all_gather(everyone, flat, async_op=True), operation, detail)
        else:
            dist.all_gather(everyone, flat)
        # A thread of gloo lets go of these a moment later. Were its reference the last, it would need Python for that,
        # and a loader's worker forked meanwhile, as an epoch begins, would wait forever (before Python 3.12).
        if flat.numel() <= SMALL:
            self._sent = flat, everyone
        return [part.view(tensor.dtype).reshape(tensor.shape) for part in everyone]

    def reduce(self, tensor: torch.Tensor, reduction: str) -> torch.Tensor:
        """The sum, max or min over ranks."""
        total = widened(tensor)
        operation = {"max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}.get(reduction, dist.ReduceOp.SUM)
        dist.all_reduce(total, op=operation)
        return total

    def broadcast(self, tensor: torch.Tensor, source: int) -> torch.Tensor:
        """The source rank's tensor."""
        received = content_of(tensor.detach().clone(memory_format=torch.contiguous_format))
        if received.numel():
            dist.broadcast(received, src=source)
        return received.view(tensor.dtype).reshape(tensor.shape)

    def objects(self, value: Any) -> list[Any]:
        """Each rank's object."""
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def object_from(self, value: Any, source: int) -> Any:
        """The source rank's object."""
        box = [value]
        dist.broadcast_object_list(box, src=source)
        return box[0]

    def own_object(self, values: list[Any], rank: int) -> Any:
        """This rank's object of those that rank 0 has, sent to no other."""
        box: list[Any] = [None]
        dist.scatter_object_list(box, values, src=0)
        return box[0]
