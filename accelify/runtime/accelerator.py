"""The accelerator: holds the parts, forwards to them, owns no algorithm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import IO, Any  # scripts hand in models, batches and objects of every kind

import torch
from torch import nn
from torch.optim import Optimizer

from accelify.runtime import collectives, optim, parallel, process, sharding
from accelify.runtime.data import Sharing, choose_source, is_loader, prepare_loader
from accelify.runtime.environment import Environment
from accelify.runtime.passage import Passages, gather_rows
from accelify.runtime.saving import write_atomically


class Accelerator:
    """Runs a plain training script on whatever processes and devices it was started on.

    In one process it adds nothing: the same objects, the same numbers. Over several, `prepare` gives each rank its
    share of the data, and gradients agree on all ranks after `backward`.
    """

    def __init__(
        self,
        *,
        split_batches: bool = False,
        even_batches: bool = True,
        cpu: bool = False,
        device_placement: bool = True,
        timeout: timedelta | None = None,
        environment: Environment | None = None,
    ) -> None:
        self._world = process.join(environment or Environment.read(), cpu=cpu, timeout=timeout)
        self._collectives = collectives.choose(self._world)
        self._parallel = parallel.choose(self._world, self._collectives)
        self._passages = Passages()
        self._sharing = Sharing(
            rank=self._world.rank, size=self._world.size, split_batches=split_batches, even_batches=even_batches
        )
        self._device_placement = device_placement

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
    def split_batches(self) -> bool:
        """Whether each batch is divided among the processes, instead of each process taking whole batches."""
        return self._sharing.split_batches

    # -- preparing

    def prepare(self, *objects: Any) -> Any:
        """The same objects, ready for this world: models, optimizers, loaders, schedulers, in any order.

        One object comes back as it is, several as a tuple. Models and optimizers are the very same objects; a loader
        is, where nothing has to be done. What is none of these passes through.
        """
        prepared = tuple(self._prepare_one(given) for given in objects)
        return prepared[0] if len(prepared) == 1 else prepared

    def _prepare_one(self, given: Any) -> Any:
        if isinstance(given, nn.Module):
            return self.prepare_model(given)
        if isinstance(given, Optimizer):
            return self.prepare_optimizer(given)
        if is_loader(given):
            return self.prepare_data_loader(given)
        return given

    def prepare_model(self, model: nn.Module) -> nn.Module:
        """The model itself, on this process's device and equal on all ranks."""
        if self._device_placement and not hasattr(model, "hf_device_map"):
            model.to(self.device)
        return self._parallel.prepare_model(model)

    def prepare_optimizer(self, optimizer: Optimizer) -> Optimizer:
        """The optimizer itself."""
        return optim.prepare_optimizer(optimizer, self._collectives, self._world.size)

    def prepare_data_loader(self, loader: Any) -> Any:
        """A loader of this rank's batches, on its device; its attributes are the given loader's."""
        source = choose_source(loader, self._sharing, self._collectives)
        moves = self._device_placement and self.device.type != "cpu"
        return prepare_loader(loader, source, self._passages, self.device if moves else None)

    def shard(self, elements: Any) -> Any:
        """This rank's share of a sequence or iterable, equally many on all ranks; all of it in one process.

        Element k of rank r is element `k * N + r`. What has a length is completed by going round to the start; what
        has none (a generator) loses an incomplete last round.
        """
        return sharding.shard(elements, self._world.rank, self._world.size)

    def unwrap_model(self, model: nn.Module, keep_torch_compile: bool = True) -> nn.Module:
        """The model itself: nothing wraps it. Without `keep_torch_compile`, the module that was compiled."""
        if not keep_torch_compile:
            return getattr(model, "_orig_mod", model)
        return model

    # -- training

    def backward(self, loss: torch.Tensor, **options: Any) -> None:
        """Run the backward pass; afterwards every prepared model's gradients agree on all ranks.

        `options` are those of `Tensor.backward`.
        """
        step = self._passages.step
        weight = 1.0 if step is None else step.weight(self._world.rank)
        self._parallel.backward(loss if weight == 1.0 else loss * weight, **options)

    def no_sync(self, model: nn.Module | None = None) -> AbstractContextManager[None]:
        """Let gradients add up on each rank inside; the next backward pass outside averages the sums."""
        return self._parallel.no_sync()

    def clip_grad_norm_(self, parameters: Any, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Scale the gradients down to the norm `max_norm`, and return the norm that they had."""
        return nn.utils.clip_grad_norm_(parameters, max_norm, norm_type=norm_type)

    # -- between the processes

    def gather(self, tensor: Any) -> Any:
        """Every rank's tensors one after the other, in whatever containers; shapes must agree.

        Shapes: (n, ...) on each rank -> (world_size * n, ...). A number becomes the list of all ranks' numbers.
        """
        return self._collectives.gather(tensor)

    def gather_for_metrics(self, input_data: Any) -> Any:
        """The rows of all ranks in the order of one process, without those added to even out the last step.

        Raises: CannotGather where that cannot be told.
        """
        if self._world.size == 1:
            return input_data
        return gather_rows(input_data, self._passages, self._collectives, self._world.rank)

    def reduce(self, tensor: Any, reduction: str = "sum") -> Any:
        """The sum, mean, max or min over all ranks, in kind: tensors stay tensors, numbers numbers."""
        return self._collectives.reduce(tensor, reduction)

    def wait_for_everyone(self) -> None:
        """Return once every process has come here."""
        self._collectives.barrier()

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Let process 0 go through the block before the others."""
        if not self.is_main_process:
            self._collectives.barrier("main_process_first")
        try:
            yield
        finally:
            if self.is_main_process:
                self._collectives.barrier("main_process_first")

    # -- output

    def print(self, *values: Any, **options: Any) -> None:
        """`print`, on process 0."""
        if self.is_main_process:
            print(*values, **options)

    def save(self, obj: Any, f: str | os.PathLike[str] | IO[bytes], *arguments: Any, **options: Any) -> None:
        """`torch.save`, on process 0; a named file is replaced whole or not at all. The others do not wait."""
        if not self.is_main_process:
            return
        if isinstance(f, (str, os.PathLike)):
            write_atomically(f, lambda file: torch.save(obj, file, *arguments, **options))
        else:
            torch.save(obj, f, *arguments, **options)
