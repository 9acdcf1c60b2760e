"""Where a process stands, for scripts that ask before there is an accelerator, or without one."""

from __future__ import annotations

import os
from typing import IO, Any  # containers of tensors and objects of every kind

from accelify.runtime.checkpoint.weights import write_object
from accelify.runtime.options import InitProcessGroupKwargs
from accelify.runtime.standing import Standing
from accelify.runtime.world import collectives, process
from accelify.runtime.world.collectives import Alone
from accelify.runtime.world.environment import Environment
from accelify.runtime.world.process import World


class PartialState(Standing):
    """This process among the others. It starts the process group if nobody has, and shares nothing but that."""

    def __init__(self, cpu: bool = False, **options: Any) -> None:
        """`options` are those of `InitProcessGroupKwargs`."""
        asked = InitProcessGroupKwargs(**options)
        self._world = process.join(Environment.read(), cpu=cpu, timeout=asked.timeout)
        self._collectives = collectives.choose(self._world)

    @property
    def initialized(self) -> bool:
        """Always: there is none that is not."""
        return True

    @property
    def backend(self) -> str | None:
        """What carries the collectives; None for one process."""
        return self._world.backend

    def __repr__(self) -> str:
        return (
            f"Distributed environment: {self.distributed_type.value}"
            f"{f'  Backend: {self.backend}' if self.backend else ''}\n"
            f"Num processes: {self.num_processes}\n"
            f"Process index: {self.process_index}\n"
            f"Local process index: {self.local_process_index}\n"
            f"Device: {self.device}\n"
        )


class AcceleratorState(PartialState):
    """What an accelerator says of itself: where its process stands, and in which precision it computes."""

    deepspeed_plugin = None
    fsdp_plugin = None

    def __init__(self, world: World, among: Alone, mixed_precision: str) -> None:
        self._world = world
        self._collectives = among
        self.mixed_precision = mixed_precision

    def __repr__(self) -> str:
        return f"{super().__repr__()}Mixed precision type: {self.mixed_precision}\n"


def gather(tensor: Any) -> Any:
    """`Accelerator.gather`, without one."""
    return PartialState().gather(tensor)


def gather_object(object: Any) -> list[Any]:
    """`Accelerator.gather_object`, without one."""
    return PartialState().gather_object(object)


def reduce(tensor: Any, reduction: str = "mean", scale: float = 1.0) -> Any:
    """`Accelerator.reduce`, without one; the mean unless told otherwise."""
    return PartialState().reduce(tensor, reduction, scale)


def broadcast(tensor: Any, from_process: int = 0) -> Any:
    """`Accelerator.broadcast`, without one."""
    return PartialState().broadcast(tensor, from_process)


def broadcast_object_list(object_list: list[Any], from_process: int = 0) -> list[Any]:
    """`Accelerator.broadcast_object_list`, without one."""
    return PartialState().broadcast_object_list(object_list, from_process)


def pad_across_processes(tensor: Any, dim: int = 0, pad_index: int = 0, pad_first: bool = False) -> Any:
    """`Accelerator.pad_across_processes`, without one."""
    return PartialState().pad_across_processes(tensor, dim, pad_index, pad_first)


def save(obj: Any, f: str | os.PathLike[str] | IO[bytes], *arguments: Any, **options: Any) -> None:
    """`Accelerator.save`, without one."""
    if process.rank_here() == 0:
        write_object(obj, f, *arguments, **options)


def wait_for_everyone() -> None:
    """`Accelerator.wait_for_everyone`, without one."""
    PartialState().wait_for_everyone()
