"""The accelerator: holds the parts, forwards to them, owns no algorithm."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any  # scripts hand in models, batches and objects of every kind

import torch
from torch import nn
from torch.optim import Optimizer

from accelify.runtime import settings
from accelify.runtime.checkpoint.checkpoint import Checkpoints, Parts
from accelify.runtime.checkpoint.preemption import Preemption
from accelify.runtime.data import randomness, rewrapped, sharding
from accelify.runtime.data.data import is_loader, is_prepared, original_of, prepare_loader, share_of
from accelify.runtime.data.dealing import Sharing
from accelify.runtime.data.passage import Passages
from accelify.runtime.data.seeding import set_seed
from accelify.runtime.data.sources import choose_source, in_order
from accelify.runtime.gradients import optim, parallel, precision
from accelify.runtime.gradients.accumulation import Accumulation
from accelify.runtime.keeping import Keeping
from accelify.runtime.options import (
    DataLoaderConfiguration,
    GradientAccumulationPlugin,
    Handlers,
    ProjectConfiguration,
    TorchDynamoPlugin,
    project_configuration,
)
from accelify.runtime.state import AcceleratorState
from accelify.runtime.tracking import Trackers
from accelify.runtime.world import collectives, nested, process
from accelify.runtime.world.environment import Environment

# What Accelerate's constructor takes beside; docs/api.md says why it is not here.
NOT_HERE = (
    *("deepspeed_plugin", "deepspeed_plugins", "megatron_lm_plugin"),
    *("fsdp_plugin", "torch_tp_plugin", "parallelism_config"),
)


class Accelerator(Keeping):
    """Runs a plain training script on whatever processes and devices it was started on.

    In one process it adds nothing: the same objects, the same numbers. Over several, `prepare` gives each rank its
    share of the data, and gradients agree on all ranks after `backward`.
    """

    def __init__(
        self,
        *,
        mixed_precision: str | None = None,
        gradient_accumulation_steps: int | None = None,
        split_batches: bool | None = None,
        even_batches: bool | None = None,
        cpu: bool = False,
        device_placement: bool = True,
        log_with: Any = None,
        project_dir: str | os.PathLike[str] | None = None,
        project_config: ProjectConfiguration | None = None,
        gradient_accumulation_plugin: GradientAccumulationPlugin | None = None,
        dataloader_config: DataLoaderConfiguration | None = None,
        dynamo_backend: str | None = None,
        dynamo_plugin: TorchDynamoPlugin | None = None,
        step_scheduler_with_optimizer: bool = True,
        rng_types: Sequence[object] | None = None,
        kwargs_handlers: Sequence[object] | None = None,
        environment: Environment | None = None,
        **others: None,
    ) -> None:
        """What is not given is taken from the environment, else from the project's file.

        `rng_types` is accepted; whatever decides the order of data is shared. `others` are options of Accelerate that
        stand for what is not here, and must be None.
        """
        asked = [name for name, value in others.items() if value is not None]
        if asked or set(others) - set(NOT_HERE):
            names = ", ".join(asked or set(others) - set(NOT_HERE))
            raise TypeError(f"Accelerator has no {names}")
        own = settings.settle(environment, mixed_precision, gradient_accumulation_steps, cpu)
        environment = environment or Environment.read()
        given = Handlers.sort(kwargs_handlers)
        data = DataLoaderConfiguration.settle(dataloader_config, split_batches=split_batches, even_batches=even_batches)
        if gradient_accumulation_plugin is not None and (gradient_accumulation_steps or 1) > 1:
            raise ValueError("gradient_accumulation_steps and gradient_accumulation_plugin: give one of them")
        windows = gradient_accumulation_plugin or GradientAccumulationPlugin(num_steps=own.gradient_accumulation_steps)
        self._world = process.join(environment, cpu=own.cpu, timeout=given.process_group.timeout)
        self._collectives = collectives.choose(self._world)
        randomness.begin_together(self._world, self._collectives)
        self._parallel = parallel.choose(self._world, self._collectives, given.comm_hook)
        self._precision = precision.choose(own.mixed_precision, self.device, given.autocast, given.scaler)
        self._passages = Passages()
        self._sharing = Sharing(
            rank=self._world.rank,
            size=self._world.size,
            split_batches=data.split_batches,
            even_batches=data.even_batches,
            dispatches=bool(data.dispatch_batches),
        )
        self._accumulation = Accumulation(
            steps=windows.num_steps,
            parallel=self._parallel,
            collectives=self._collectives,
            is_last_batch=self._passages.is_last_batch,
            sync_with_dataloader=windows.sync_with_dataloader,
            sync_each_batch=windows.sync_each_batch,
        )
        self._device_placement = device_placement
        self._compiling = TorchDynamoPlugin.settle(dynamo_plugin, dynamo_backend)
        self._is_held = step_scheduler_with_optimizer
        self._models: list[nn.Module] = []
        self._optimizers: list[Optimizer] = []
        self._schedulers: list[Any] = []
        self._loaders: list[Any] = []
        self._shares: dict[int, tuple[Any, Any]] = {}
        self._own_seed: int | None = None
        self._draws_apart = False
        project = project_configuration(project_dir, project_config)
        self._preemption = Preemption()
        self._trackers = Trackers(log_with, project.logging_dir, self._world.rank == 0)
        self._checkpoints = Checkpoints(
            self._world,
            self._collectives,
            Parts(self._models, self._optimizers, self._schedulers, self._loaders, self._precision.scaler),
            project,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Accelerator:
        """The accelerator itself: it belongs to the process, also where a copied object holds it."""
        return self

    def __reduce__(self) -> tuple[Callable[..., Accelerator], tuple[dict[str, Any]]]:
        """In another process (a loader's worker, a later run) it stands alone, or joins the group running there."""
        chosen = {
            "mixed_precision": self.mixed_precision,
            "gradient_accumulation_steps": self.gradient_accumulation_steps,
            "split_batches": self.split_batches,
            "even_batches": self.even_batches,
        }
        return _stand_alone, (chosen,)

    @property
    def split_batches(self) -> bool:
        """Whether each batch is divided among the processes, instead of each process taking whole batches."""
        return self._sharing.split_batches

    @property
    def even_batches(self) -> bool:
        """Whether the last step is completed, so that all processes take equally many."""
        return self._sharing.even_batches

    @property
    def state(self) -> AcceleratorState:
        """Where this process stands, and in which precision it computes; to be read and printed."""
        return AcceleratorState(self._world, self._collectives, self.mixed_precision)

    # -- preparing

    def prepare(self, *objects: Any, device_placement: Sequence[bool | None] | None = None) -> Any:
        """The same objects, ready for this world: models, optimizers, loaders, schedulers, in any order.

        One object comes back as it is, several as a tuple. Models and optimizers are the very same objects; a loader
        is, where nothing has to be done. Those in a short list, tuple or dict are prepared, too; anything else passes
        through. `device_placement` says for each object whether it is moved.
        """
        places = list(device_placement or [None] * len(objects))
        # Models first: what an optimizer steps beside them is looked at by itself.
        models = {
            id(given): self.prepare_model(given, place)
            for given, place in zip(objects, places, strict=True)
            if isinstance(given, nn.Module)
        }
        prepared = tuple(
            models[id(given)] if id(given) in models else self._prepare_one(given, place)
            for given, place in zip(objects, places, strict=True)
        )
        return prepared[0] if len(prepared) == 1 else prepared

    def _prepare_one(self, given: Any, device_placement: bool | None) -> Any:
        if isinstance(given, nn.Module):
            return self.prepare_model(given, device_placement)
        if isinstance(given, Optimizer):
            return self.prepare_optimizer(given)
        if optim.is_scheduler(given):
            return self.prepare_scheduler(given)
        if is_loader(given):
            return self.prepare_data_loader(given, device_placement)
        return nested.replaced(lambda one: self._prepare_one(one, device_placement), given)

    def _is_placed(self, device_placement: bool | None) -> bool:
        return self._device_placement if device_placement is None else device_placement

    def prepare_model(
        self, model: nn.Module, device_placement: bool | None = None, evaluation_mode: bool = False
    ) -> nn.Module:
        """The model itself, on this process's device and equal on all ranks; left as it is with `evaluation_mode`."""
        if self._is_placed(device_placement) and not hasattr(model, "hf_device_map"):
            model.to(self.device)
        self._precision.prepare_model(model)
        if self._compiling is not None:
            # In place: what comes back is the same object, under the same keys.
            model.compile(**asdict(self._compiling))
        _remember(self._models, model)
        return model if evaluation_mode else self._parallel.prepare_model(model)

    def prepare_optimizer(self, optimizer: Optimizer, device_placement: bool | None = None) -> Optimizer:
        """The optimizer itself. Parameters of it that belong to no prepared model are kept equal on all ranks, too."""
        _remember(self._optimizers, optimizer)
        self._parallel.prepare_optimizer(optimizer)
        return self._watch(optimizer)

    def prepare_scheduler(self, scheduler: Any, *, per: str = "step") -> Any:
        """The scheduler itself: one call is one step.

        `per="batch"` is for a schedule whose length was counted in one process's batches, before `prepare`: a call
        then counts for as many batches as all processes take in a step.
        """
        if per not in ("step", "batch"):
            raise ValueError(f"per={per!r}: choose step or batch")
        times = self._world.size if per == "batch" and not self.split_batches else 1
        _remember(self._schedulers, scheduler)
        if not self._is_held and times == 1:
            return scheduler
        return self._hold(scheduler, times)

    def prepare_data_loader(self, data_loader: Any, device_placement: bool | None = None) -> Any:
        """A loader of this rank's batches, on its device; its attributes are the given loader's."""
        # One that another accelerator prepared is dealt by this one's settings.
        given = data_loader if is_prepared(data_loader, self._passages) else original_of(data_loader)
        if self._world.size > 1 and rewrapped.is_dealt(given):
            return given
        data_loader = in_order(given, self._sharing)
        source = choose_source(data_loader, self._sharing, self._collectives)
        is_moved = self._is_placed(device_placement) and self.device.type != "cpu"
        prepared = prepare_loader(data_loader, source, self._passages, self.device if is_moved else None)
        _remember(self._loaders, prepared)
        return prepared

    def shard(self, elements: Any, *, even: bool = True) -> Any:
        """This rank's share of a sequence or iterable, equally many on all ranks; all of it in one process.

        Element k of rank r is element `k * N + r`. What has a length is completed by going round to the start; what
        has none (a generator) loses an incomplete last round. With `even=False` each element is exactly one rank's,
        and some ranks may have one fewer; a loader is then dealt out in its own whole batches. That is for evaluation,
        in which no rank waits for another: what each adds up, `reduce` makes the sum of one process.
        """
        if self._world.size == 1 or not is_loader(elements):
            return sharding.shard(elements, self._world.rank, self._world.size, even)
        if rewrapped.is_dealt(elements, anew=not even):
            return elements
        if even:
            return sharding.shard(elements, self._world.rank, self._world.size)
        # With the loader itself: its number stands for it as long as it is there.
        if id(elements) not in self._shares:
            share = share_of(elements, self._sharing, self._collectives, self._passages)
            if not getattr(elements, "persistent_workers", False):
                return share
            self._shares[id(elements)] = elements, share
        return self._shares[id(elements)][1]

    def seed_by_rank(self) -> None:
        """From here on each rank draws random numbers of its own; rank 0, and so one process, draws what it always did.

        For scripts that draw their training data at random. Loaders and `shard` still deal one shared epoch out.
        What ranks draw may decide how many steps they take (agents, whose episodes end when they end): one that comes
        to the script's end takes part in the others' backward passes, with nothing in hand, until all are there.
        Said again, it changes nothing, unless the script has seeded anew.
        """
        if self._world.size > 1 and not self._draws_apart:
            self._draws_apart = True
            atexit.register(self._parallel.end_apart)
        if self._world.rank and torch.initial_seed() != self._own_seed:
            set_seed(torch.initial_seed(), device_specific=True, rank=self._world.rank)
            self._own_seed = torch.initial_seed()

    # -- letting go

    def free_memory(self, *objects: Any) -> list[None]:
        """Forget what was prepared and empty the device's cache; assign the Nones returned to the objects' names."""
        for kept in (self._models, self._optimizers, self._schedulers, self._loaders):
            kept.clear()
        self._shares.clear()
        self._parallel.forget()
        self._precision.forget()
        self._accumulation.forget()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return [None] * len(objects)

    def clear(self, *objects: Any) -> list[None]:
        """`free_memory`, under its other name."""
        return self.free_memory(*objects)


def _stand_alone(chosen: dict[str, Any]) -> Accelerator:
    return Accelerator(environment=Environment(), **chosen)


def _remember(known: list[Any], given: object) -> None:
    if not any(given is old for old in known):
        known.append(given)
