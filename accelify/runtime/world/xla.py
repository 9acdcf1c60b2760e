"""PyTorch/XLA: ranks that train on XLA devices, whose operations are traced and run together.

A rank is what `torch_xla.launch` calls its function in: a process for each chip, or a thread for each device where one
process has several (TPU v2 and v3, and the CPU client). What a collective waits for must be one program on all ranks,
whatever else each of them has traced; so each one is run as a program of its own, between two ends of the trace.

Source: https://docs.pytorch.org/xla/release/r2.9/learn/pytorch-on-xla-devices.html
Source: https://docs.pytorch.org/xla/release/r2.9/learn/api-guide.html
"""

from __future__ import annotations

import functools
import importlib
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any  # torch_xla has no type hints that hold without it, and objects of every kind travel

import torch
from torch.distributed import HashStore  # type: ignore[attr-defined]  # public, but left out of __all__

from accelify.errors import AccelifyError
from accelify.runtime.world.environment import Environment
from accelify.runtime.world.process_group import World
from accelify.runtime.world.transport import Transport, widened

# A program is compiled for each shape: objects travel in few sizes.
# Units: bytes
LEAST_MESSAGE = 1024


class CannotUseXla(AccelifyError):
    """XLA was asked for, and it cannot be used so."""


def join(environment: Environment, timeout: timedelta) -> World:
    """The world of the XLA devices that `torch_xla.launch` gave this program, or of one of them without it.

    Raises: CannotUseXla without torch_xla, or when another launcher has started several processes.
    """
    if environment.world_size > 1:
        reason = f"and {environment.launcher} has started {environment.world_size} processes"
        raise CannotUseXla(f"$PJRT_DEVICE is set, {reason}: start them with notebook_launcher or torch_xla.launch")
    device: torch.device = module().device()
    runtime = module("runtime")
    # Moved there, a module would get new parameters, and an optimizer made before would go on stepping the old ones.
    torch.__future__.set_swap_module_params_on_conversion(True)
    size = int(runtime.world_size())
    return World(
        device=device,
        rank=int(runtime.global_ordinal()) if size > 1 else 0,
        size=size,
        local_rank=int(runtime.local_ordinal()) if size > 1 else 0,
        local_size=int(runtime.local_device_count()) if size > 1 else 1,
        timeout=timeout,
        backend="xla" if size > 1 else None,
        debug=environment.debug,
        store=_memory() if size > 1 else None,
    )


def module(name: str = "") -> Any:
    """A module of torch_xla, or torch_xla itself. Raises: CannotUseXla when it cannot be imported."""
    try:
        return importlib.import_module(f"torch_xla.{name}" if name else "torch_xla")
    except ImportError as error:
        reason = "torch_xla cannot be imported; `pip install torch_xla`, or unset the variable"
        raise CannotUseXla(f"$PJRT_DEVICE asks for XLA, and {reason} ({error})") from error


@functools.cache
def _memory() -> Any:
    """A process's own store for its ranks: there is none through which they met."""
    return HashStore()


@contextmanager
def own_program() -> Iterator[None]:
    """Run what is traced inside as a program of its own."""
    sync = module().sync
    sync()
    yield
    sync()


class Devices(Transport):
    """XLA devices, joined by XLA's own collectives."""

    def __init__(self, world: World) -> None:
        self.size = world.size
        self._rank = world.rank
        self._device = world.device
        self._collectives = module("core.xla_model")

    def gather(self, tensor: torch.Tensor, operation: str = "gather", detail: str = "") -> list[torch.Tensor]:
        """Each rank's tensor; one that is not on the device travels as an object."""
        sent = tensor.detach()
        if sent.device.type != "xla":
            return self.objects(sent)
        if not sent.numel():
            return [sent] * self.size
        # Not pinned: pinned, torch_xla gathers by sums of differently padded tensors, a program for each rank.
        rows = sent.to(torch.uint8) if sent.dtype == torch.bool else sent
        with own_program():
            everyone = self._collectives.all_gather(rows.unsqueeze(0), pin_layout=False)
        return [each.to(sent.dtype) for each in everyone.unbind(0)]

    def reduce(self, tensor: torch.Tensor, reduction: str) -> torch.Tensor:
        """The sum, max or min over ranks."""
        total = widened(tensor)
        if total.device.type != "xla":
            everyone = torch.stack(self.objects(total))
            return {"max": everyone.amax, "min": everyone.amin}.get(reduction, everyone.sum)(0)
        kinds = {"max": self._collectives.REDUCE_MAX, "min": self._collectives.REDUCE_MIN}
        with own_program():
            self._collectives.all_reduce(kinds.get(reduction, self._collectives.REDUCE_SUM), [total])
        return total

    def broadcast(self, tensor: torch.Tensor, source: int) -> torch.Tensor:
        """The source rank's tensor."""
        if tensor.device.type != "xla":
            return self.object_from(tensor.detach(), source)  # type: ignore[no-any-return]  # what went in
        received = tensor.detach().clone()
        self.copy([received], source)
        return received

    def copy(self, tensors: list[torch.Tensor], source: int) -> None:
        """The source rank's values in everyone's tensors, in place: a sum in which all ranks but one add zeros."""
        is_source = torch.tensor(self._rank == source).to(self._device)  # data: a constant would make a program a rank
        with torch.no_grad():
            wide = [each.detach().to(torch.int32) if each.dtype == torch.bool else each.detach() for each in tensors]
            parts = [torch.where(is_source, each, torch.zeros_like(each)) for each in wide]
            with own_program():
                self._collectives.all_reduce(self._collectives.REDUCE_SUM, parts)
            for tensor, part in zip(tensors, parts, strict=True):
                tensor.data.copy_(part)

    def objects(self, value: Any) -> list[Any]:
        """Each rank's object, pickled and sent as bytes."""
        payload = pickle.dumps(value)
        sizes = [int(size) for size in self.gather(torch.tensor([len(payload)]).to(self._device))]
        longest = max(LEAST_MESSAGE, 1 << (max(sizes) - 1).bit_length())
        padded = torch.frombuffer(bytearray(payload.ljust(longest, b"\0")), dtype=torch.uint8)
        parts = self.gather(padded.to(self._device))
        return [pickle.loads(part.cpu().numpy()[:size].tobytes()) for part, size in zip(parts, sizes, strict=True)]

    def object_from(self, value: Any, source: int) -> Any:
        """The source rank's object."""
        return self.objects(value if self._rank == source else None)[source]
