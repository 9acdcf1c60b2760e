"""This process among the others, and what it says to them: for an accelerator, and for scripts without one."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import IO, Any, ClassVar, ParamSpec, Protocol, TypeVar  # containers of tensors and objects of every kind

import torch

from accelify.runtime.checkpoint.weights import write_object
from accelify.runtime.choices import DistributedType, RNGType
from accelify.runtime.data.passes import LoaderPasses
from accelify.runtime.data.random_state import device_state, set_device_state
from accelify.runtime.data.sequences import contiguous_part
from accelify.runtime.launch.config import accelerator_settings
from accelify.runtime.options import GradientAccumulationPlugin, InitProcessGroupKwargs
from accelify.runtime.world.backend import collectives_of, join
from accelify.runtime.world.collectives import Collectives
from accelify.runtime.world.environment import Environment
from accelify.runtime.world.process_group import World, rank_here
from accelify.runtime.world.tensors import map_leaves
from accelify.runtime.world.turns import goes_one_by_one, one_by_one

P = ParamSpec("P")
R = TypeVar("R")


class PartialState:
    """This process among the others. It starts the process group if nobody has, and shares nothing but that."""

    def __init__(self, cpu: bool = False, **options: Any) -> None:
        """`options` are those of `InitProcessGroupKwargs`."""
        asked = InitProcessGroupKwargs(**options)
        self._world = join(Environment.read(), cpu=cpu, timeout=asked.timeout)
        self._collectives = collectives_of(self._world)
        self._is_triggered = False

    @property
    def initialized(self) -> bool:
        """Always: there is none that is not."""
        return True

    @property
    def debug(self) -> bool:
        """Whether parameters are compared at each backward pass."""
        return self._world.debug

    @property
    def backend(self) -> str | None:
        """The backend of the collectives; None for one process."""
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

    # -- where this process stands

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        return self._world.device

    @property
    def num_processes(self) -> int:
        """How many processes train together."""
        return self._world.size

    @property
    def process_index(self) -> int:
        """This process's number among all."""
        return self._world.rank

    @property
    def local_process_index(self) -> int:
        """This process's number on its machine."""
        return self._world.local_rank

    @property
    def is_main_process(self) -> bool:
        """Whether this is process 0."""
        return self._world.rank == 0

    @property
    def is_local_main_process(self) -> bool:
        """Whether this is process 0 of its machine."""
        return self._world.local_rank == 0

    @property
    def is_last_process(self) -> bool:
        """Whether this is the process with the highest number."""
        return self._world.rank == self._world.size - 1

    @property
    def use_distributed(self) -> bool:
        """Whether there are several processes."""
        return self._world.size > 1

    @property
    def multi_device(self) -> bool:
        """Whether there are several processes, each with a GPU."""
        return self.distributed_type is DistributedType.MULTI_GPU

    @property
    def distributed_type(self) -> DistributedType:
        """On what kind of devices the processes are; `NO` for one process."""
        if not self.use_distributed:
            return DistributedType.NO
        kinds = {"cuda": DistributedType.MULTI_GPU, "xla": DistributedType.XLA}
        return kinds.get(self.device.type, DistributedType.MULTI_CPU)

    # -- between the processes

    def gather(self, tensor: Any) -> Any:
        """Every rank's tensors one after the other, in whatever containers; shapes must agree.

        Shapes: (n, ...) on each rank -> (world_size * n, ...). A number becomes the list of all ranks' numbers.
        """
        return self._collectives.gather(tensor)

    def reduce(self, tensor: Any, reduction: str = "sum", scale: float = 1.0) -> Any:
        """The sum, mean, max or min over all ranks, in kind: tensors stay tensors, numbers numbers. Times `scale`."""
        reduced = self._collectives.reduce(tensor, reduction)
        return reduced if scale == 1.0 else map_leaves(lambda leaf: leaf * scale, reduced)

    def broadcast(self, tensor: Any, from_process: int = 0) -> Any:
        """One rank's tensors on all ranks."""
        return self._collectives.broadcast(tensor, from_process)

    def gather_object(self, value: Any) -> list[Any]:
        """Every rank's object, in the order of ranks."""
        return self._collectives.gather_object(value)

    def broadcast_object_list(self, object_list: list[Any], from_process: int = 0) -> list[Any]:
        """The list, its elements replaced in place by those of one rank; the lengths must agree."""
        self._collectives.agree("broadcast_object_list", str(len(object_list)))
        object_list[:] = self._collectives.broadcast_object(object_list, from_process)
        return object_list

    def pad_across_processes(self, tensor: Any, dim: int = 0, pad_index: int = 0, pad_first: bool = False) -> Any:
        """Tensors padded with `pad_index` to the greatest length along `dim` that any rank has."""
        return self._collectives.pad(tensor, dim, pad_index, pad_first)

    @contextmanager
    def split_between_processes(self, inputs: Any, apply_padding: bool = False) -> Iterator[Any]:
        """This rank's contiguous part of a list, tuple, tensor or dict; padded with the last element if asked."""
        yield contiguous_part(inputs, self._world.rank, self._world.size, apply_padding)

    def set_trigger(self) -> None:
        """Let the next `check_trigger` be true on every rank."""
        self._is_triggered = True

    def check_trigger(self) -> bool:
        """Whether any rank called `set_trigger` since the last check. Every rank must ask."""
        is_triggered = bool(self._collectives.reduce(int(self._is_triggered), "max"))
        self._is_triggered = False
        return is_triggered

    def wait_for_everyone(self) -> None:
        """Return once every process has come here; in a block that one goes through first, at once: the others will."""
        if not goes_one_by_one():
            self._collectives.barrier()

    def main_process_first(self) -> AbstractContextManager[None]:
        """Let process 0 go through the block before the others; nothing in it may wait for another process."""
        return self._first("main_process_first", self.is_main_process)

    def local_main_process_first(self) -> AbstractContextManager[None]:
        """Let process 0 of each machine go through the block before the others."""
        return self._first("local_main_process_first", self.is_local_main_process)

    @contextmanager
    def _first(self, name: str, is_first: bool) -> Iterator[None]:
        if goes_one_by_one():
            yield  # in the order of the block around it
            return
        if not is_first:
            self._collectives.barrier(name)
        try:
            with one_by_one():
                yield
        finally:
            # After an error, too: the others must not wait for what does not come.
            if is_first:
                self._collectives.barrier(name)

    def on_main_process(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """The function, run on process 0 only; None on the others."""
        return _only(function, self.is_main_process)

    def on_local_main_process(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """The function, run on process 0 of each machine only."""
        return _only(function, self.is_local_main_process)

    def on_last_process(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """The function, run on the last process only."""
        return _only(function, self.is_last_process)

    def on_process(self, function: Any = None, process_index: int | None = None) -> Any:
        """The function, run on this one process only; a decorator where only the number is given."""
        if isinstance(function, int):
            function, process_index = None, function
        return _only_or_decorator(function, self.process_index == process_index)

    def on_local_process(self, function: Any = None, local_process_index: int | None = None) -> Any:
        """The function, run on the process of this number on each machine; a decorator where only that is given."""
        return _only_or_decorator(function, self.local_process_index == local_process_index)

    # -- output

    def print(self, *values: Any, **options: Any) -> None:
        """`print`, on process 0."""
        if self.is_main_process:
            print(*values, **options)


class Windows(Protocol):
    """The micro-batches of a step, as an accelerator counts them."""

    steps: int
    is_complete: bool


class GradientState:
    """The window of micro-batches and the loader that the script is at: those of the accelerator made last.

    Without an accelerator there is one micro-batch to a step, and no loader.
    """

    _windows: Windows | None = None
    _passes: LoaderPasses | None = None
    _plugin = GradientAccumulationPlugin()

    def __init__(self, gradient_accumulation_plugin: GradientAccumulationPlugin | None = None) -> None:
        """The plugin counts where there is no accelerator."""
        made = AcceleratorState.made_last()
        if made is not None:
            vars(self).update(vars(made.gradients))
        elif gradient_accumulation_plugin is not None:
            self._plugin = gradient_accumulation_plugin

    @classmethod
    def of(cls, windows: Windows, passes: LoaderPasses, plugin: GradientAccumulationPlugin) -> GradientState:
        """That of an accelerator with these parts."""
        state = cls.__new__(cls)
        state._windows, state._passes, state._plugin = windows, passes, plugin
        return state

    @property
    def initialized(self) -> bool:
        """Always: there is none that is not."""
        return True

    @property
    def sync_gradients(self) -> bool:
        """Whether the step that the script is at completes its window."""
        return self._windows is None or self._windows.is_complete

    @property
    def num_steps(self) -> int:
        """How many micro-batches make up a step."""
        return self._plugin.num_steps if self._windows is None else self._windows.steps

    @property
    def adjust_scheduler(self) -> bool:
        """The plugin's setting; schedulers wait for their windows in any case."""
        return self._plugin.adjust_scheduler

    @property
    def sync_with_dataloader(self) -> bool:
        """Whether the last batch of a loader completes a window."""
        return self._plugin.sync_with_dataloader

    @property
    def plugin_kwargs(self) -> dict[str, Any]:
        """The plugin's settings that differ from its defaults."""
        return self._plugin.to_kwargs()

    @property
    def active_dataloader(self) -> Any:
        """The prepared loader over which the innermost loop goes; None outside."""
        current = None if self._passes is None else self._passes.current
        return None if current is None else current.owner

    @property
    def in_dataloader(self) -> bool:
        """Whether a loop over a prepared loader is under way."""
        return self.active_dataloader is not None

    @property
    def end_of_dataloader(self) -> bool:
        """Whether the script is at the last batch of that loop."""
        return self._passes is not None and self._passes.is_last_batch()

    @property
    def remainder(self) -> int:
        """How many rows the last step of all processes has beside whole ones, 0 for none; -1 where that is unknown."""
        return getattr(self.active_dataloader, "remainder", -1)

    def __repr__(self) -> str:
        return (
            f"Sync Gradients: {self.sync_gradients}\n"
            f"At end of current dataloader: {self.end_of_dataloader}\n"
            f"Extra samples added: {self.remainder}\n"
            f"Gradient accumulation plugin: {self.plugin_kwargs}\n"
        )


class AcceleratorState(PartialState):
    """The state of an accelerator: this process among the others, and in which precision it computes.

    `AcceleratorState()` is that of the accelerator made last, as long as it is there; without one, what the
    environment and the project's file say.
    """

    deepspeed_plugin = None
    fsdp_plugin = None
    # Stands for Accelerate's one state of a process: scripts ask for it where no accelerator is at hand.
    _last: ClassVar[weakref.ref[AcceleratorState] | None] = None

    def __init__(self, mixed_precision: str | None = None, cpu: bool = False, **options: Any) -> None:
        """Raises: ValueError for a precision that is not the accelerator's."""
        made = self.made_last()
        if made is None:
            super().__init__(cpu, **options)
            self.mixed_precision = accelerator_settings(None, mixed_precision, None, cpu).mixed_precision
            self.gradients = GradientState()
        else:
            vars(self).update(vars(made))
            if mixed_precision not in (None, made.mixed_precision):
                raise ValueError(f"mixed_precision={mixed_precision!r}: the accelerator has {made.mixed_precision!r}")

    @classmethod
    def of(
        cls, *, world: World, collectives: Collectives, mixed_precision: str, gradients: GradientState
    ) -> AcceleratorState:
        """That of an accelerator with these parts, from now on the one made last."""
        state = cls.__new__(cls)
        state._world, state._collectives, state._is_triggered = world, collectives, False
        state.mixed_precision, state.gradients = mixed_precision, gradients
        AcceleratorState._last = weakref.ref(state)
        return state

    @classmethod
    def made_last(cls) -> AcceleratorState | None:
        """The state of the accelerator that was made last; None where there is none."""
        return None if cls._last is None else cls._last()

    def __repr__(self) -> str:
        return f"{super().__repr__()}Mixed precision type: {self.mixed_precision}\n"


def is_initialized() -> bool:
    """Whether there is an accelerator in this process."""
    return AcceleratorState.made_last() is not None


def _only_or_decorator(function: Callable[P, R] | None, is_wanted: bool) -> Any:
    return functools.partial(_only, is_wanted=is_wanted) if function is None else _only(function, is_wanted)


def _only(function: Callable[P, R], is_wanted: bool) -> Callable[P, R | None]:
    @functools.wraps(function)
    def wanted(*arguments: P.args, **options: P.kwargs) -> R | None:
        return function(*arguments, **options) if is_wanted else None

    return wanted


def gather(tensor: Any) -> Any:
    """`Accelerator.gather`, without one."""
    return PartialState().gather(tensor)


def gather_object(object: Any) -> list[Any]:
    """`Accelerator.gather_object`, without one."""
    return PartialState().gather_object(object)


def reduce(tensor: Any, reduction: str = "mean", scale: float = 1.0) -> Any:
    """`Accelerator.reduce`, without one; the mean unless another reduction is given."""
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


def save(
    obj: Any,
    f: str | os.PathLike[str] | IO[bytes],
    *arguments: Any,
    save_on_each_node: bool = False,
    safe_serialization: bool = False,
    **options: Any,
) -> None:
    """`Accelerator.save`, without one; with `save_on_each_node`, on process 0 of each machine."""
    if rank_here() == 0 or (save_on_each_node and Environment.read().local_rank == 0):
        write_object(obj, f, *arguments, safe_serialization=safe_serialization, **options)


def wait_for_everyone() -> None:
    """`Accelerator.wait_for_everyone`, without one."""
    PartialState().wait_for_everyone()


def synchronize_rng_state(rng_type: RNGType | str | None = None, generator: torch.Generator | None = None) -> None:
    """Give all processes process 0's random numbers of one kind; of `RNGType.GENERATOR`, those of the generator.

    Every process must call it. Raises: ValueError for a kind that is not here, or a generator that is not given.
    """
    kind, state = RNGType(rng_type), PartialState()
    if kind is RNGType.GENERATOR:
        if generator is None:
            raise ValueError("synchronize_rng_state: of which generator?")
        generator.set_state(state._collectives.broadcast_object(generator.get_state()))
    elif kind is RNGType.TORCH:
        torch.set_rng_state(state._collectives.broadcast_object(torch.get_rng_state()))
    elif kind in (RNGType.CUDA, RNGType.XLA):
        theirs = state._collectives.broadcast_object(device_state(state.device))
        set_device_state({key: value for key, value in theirs.items() if key == kind.value}, state.device)
    else:
        raise ValueError(f"synchronize_rng_state: no {kind.value} is here; choose torch, cuda, xla or generator")


def synchronize_rng_states(rng_types: Iterable[RNGType | str], generator: torch.Generator | None = None) -> None:
    """`synchronize_rng_state` of each kind."""
    for kind in rng_types:
        synchronize_rng_state(kind, generator)
