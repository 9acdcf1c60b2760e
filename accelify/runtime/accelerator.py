"""The accelerator: holds the parts, forwards to them, owns no algorithm."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any  # scripts hand in models, batches and objects of every kind

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from accelify.errors import AccelifyError
from accelify.runtime import collectives, optim, parallel, precision, process, randomness, settings, sharding
from accelify.runtime.accumulation import Accumulation
from accelify.runtime.checkpoint import Checkpoints, LoadHook, Parts, SaveHook
from accelify.runtime.data import is_loader, prepare_loader, skip_first_batches
from accelify.runtime.dealing import Sharing
from accelify.runtime.environment import Environment
from accelify.runtime.options import (
    AutocastKwargs,
    DataLoaderConfiguration,
    GradientAccumulationPlugin,
    Handlers,
    ProjectConfiguration,
    project_configuration,
)
from accelify.runtime.passage import Passages, gather_rows
from accelify.runtime.saving import write_atomically
from accelify.runtime.seeding import set_seed
from accelify.runtime.sources import choose_source
from accelify.runtime.standing import Standing
from accelify.runtime.tracking import Trackers
from accelify.runtime.weights import pickle_weights, save_weights


class Accelerator(Standing):
    """Runs a plain training script on whatever processes and devices it was started on.

    In one process it adds nothing: the same objects, the same numbers. Over several, `prepare` gives each rank its
    share of the data, and gradients agree on all ranks after `backward`.
    """

    def __init__(
        self,
        *,
        mixed_precision: str | None = None,
        gradient_accumulation_steps: int | None = None,
        split_batches: bool = False,
        even_batches: bool = True,
        cpu: bool = False,
        device_placement: bool = True,
        log_with: Any = None,
        project_dir: str | os.PathLike[str] | None = None,
        project_config: ProjectConfiguration | None = None,
        gradient_accumulation_plugin: GradientAccumulationPlugin | None = None,
        dataloader_config: DataLoaderConfiguration | None = None,
        kwargs_handlers: Sequence[object] = (),
        environment: Environment | None = None,
    ) -> None:
        own = settings.settle(environment, mixed_precision, gradient_accumulation_steps, cpu)
        environment = environment or Environment.read()
        given = Handlers.sort(kwargs_handlers)
        data = dataloader_config or DataLoaderConfiguration(split_batches=split_batches, even_batches=even_batches)
        windows = gradient_accumulation_plugin or GradientAccumulationPlugin(num_steps=own.gradient_accumulation_steps)
        self._world = process.join(environment, cpu=own.cpu, timeout=given.process_group.timeout)
        self._collectives = collectives.choose(self._world)
        randomness.begin_together(self._world, self._collectives)
        self._parallel = parallel.choose(self._world, self._collectives)
        self._precision = precision.choose(own.mixed_precision, self.device, given.autocast, given.scaler)
        self._passages = Passages()
        self._sharing = Sharing(
            rank=self._world.rank,
            size=self._world.size,
            split_batches=data.split_batches,
            even_batches=data.even_batches,
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
        self._models: list[nn.Module] = []
        self._optimizers: list[Optimizer] = []
        self._schedulers: list[Any] = []
        self._loaders: list[Any] = []
        project = project_configuration(project_dir, project_config)
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
    def mixed_precision(self) -> str:
        """`no`, `bf16` or `fp16`."""
        return self._precision.name

    @property
    def gradient_accumulation_steps(self) -> int:
        """How many micro-batches make up a step."""
        return self._accumulation.steps

    @property
    def sync_gradients(self) -> bool:
        """Whether the step that the script is at completes its window."""
        return self._accumulation.is_complete

    @property
    def optimizer_step_was_skipped(self) -> bool:
        """Whether some optimizer's last step was left out because a gradient overflowed."""
        steps = [optim.steps_of(optimizer) for optimizer in self._optimizers]
        return self.sync_gradients and any(step.was_skipped for step in steps if step is not None)

    # -- preparing

    def prepare(self, *objects: Any) -> Any:
        """The same objects, ready for this world: models, optimizers, loaders, schedulers, in any order.

        One object comes back as it is, several as a tuple. Models and optimizers are the very same objects; a loader
        is, where nothing has to be done. What is none of these passes through.
        """
        # Models first: what an optimizer steps beside them is looked at by itself.
        models = {id(given): self.prepare_model(given) for given in objects if isinstance(given, nn.Module)}
        prepared = tuple(models[id(given)] if id(given) in models else self._prepare_one(given) for given in objects)
        return prepared[0] if len(prepared) == 1 else prepared

    def _prepare_one(self, given: Any) -> Any:
        if isinstance(given, Optimizer):
            return self.prepare_optimizer(given)
        if optim.is_scheduler(given):
            return self.prepare_scheduler(given)
        if is_loader(given):
            return self.prepare_data_loader(given)
        return given

    def prepare_model(self, model: nn.Module) -> nn.Module:
        """The model itself, on this process's device and equal on all ranks."""
        if self._device_placement and not hasattr(model, "hf_device_map"):
            model.to(self.device)
        self._precision.prepare_model(model)
        _remember(self._models, model)
        return self._parallel.prepare_model(model)

    def prepare_optimizer(self, optimizer: Optimizer) -> Optimizer:
        """The optimizer itself. Parameters of it that belong to no prepared model are kept equal on all ranks, too."""
        _remember(self._optimizers, optimizer)
        self._parallel.prepare_optimizer(optimizer)
        return optim.prepare_optimizer(
            optimizer, self._collectives, self._world.size, self._precision, self._accumulation
        )

    def prepare_scheduler(self, scheduler: Any, *, per: str = "step") -> Any:
        """The scheduler itself: one call is one step.

        `per="batch"` is for a schedule whose length was counted in one process's batches, before `prepare`: a call
        then counts for as many batches as all processes take in a step.
        """
        if per not in ("step", "batch"):
            raise ValueError(f"per={per!r}: choose step or batch")
        times = self._world.size if per == "batch" and not self.split_batches else 1
        _remember(self._schedulers, scheduler)
        return optim.prepare_scheduler(scheduler, self._accumulation, self._precision, times)

    def prepare_data_loader(self, loader: Any) -> Any:
        """A loader of this rank's batches, on its device; its attributes are the given loader's."""
        source = choose_source(loader, self._sharing, self._collectives)
        device = self.device if self._device_placement and self.device.type != "cpu" else None
        prepared = prepare_loader(loader, source, self._passages, device)
        _remember(self._loaders, prepared)
        return prepared

    def shard(self, elements: Any) -> Any:
        """This rank's share of a sequence or iterable, equally many on all ranks; all of it in one process.

        Element k of rank r is element `k * N + r`. What has a length is completed by going round to the start; what
        has none (a generator) loses an incomplete last round.
        """
        return sharding.shard(elements, self._world.rank, self._world.size)

    def seed_by_rank(self) -> None:
        """From here on each rank draws random numbers of its own; rank 0, and so one process, draws what it always did.

        For scripts that draw their training data at random. Loaders and `shard` still deal one shared epoch out.
        """
        if self._world.rank:
            set_seed(torch.initial_seed(), device_specific=True, rank=self._world.rank)

    def unwrap_model(self, model: nn.Module, keep_torch_compile: bool = True) -> nn.Module:
        """The model itself: nothing wraps it. Without `keep_torch_compile`, the module that was compiled."""
        if not keep_torch_compile:
            return getattr(model, "_orig_mod", model)
        return model

    # -- training

    def backward(self, loss: torch.Tensor, *, weight: float | None = None, **options: Any) -> None:
        """Run the backward pass; afterwards every prepared model's gradients agree on all ranks.

        `weight` is how much this loss, a mean, stands for (its count of tokens): the step then takes the weighted mean
        over the window's micro-batches and over the ranks. The other options are those of `Tensor.backward`.
        """
        step = self._passages.step
        if step is not None and step.is_partial and not self._parallel.is_joining:
            raise UnevenInputs(
                "backward on a step for which some ranks have no batch (even_batches=False): the others would wait for "
                "them forever. Train inside join_uneven_inputs, or leave even_batches on"
            )
        share = 1.0 if step is None or weight is not None else step.weight(self._world.rank)
        loss = self._accumulation.divide(loss if share == 1.0 else loss * share, weight)
        self._parallel.backward(self._precision.scale(loss), **options)
        self._accumulation.settle(weight, self._parameters, self._world.size)

    def _parameters(self, models: Sequence[nn.Module]) -> Iterator[torch.Tensor]:
        """What these models (if none is named, all) train, and what their optimizers step that is no model's."""
        everyone = {id(parameter) for model in self._models for parameter in model.parameters()}
        wanted = [parameter for model in models or self._models for parameter in model.parameters()]
        yield from wanted
        known = set(map(id, wanted))
        for optimizer in self._optimizers:
            stepped = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            if not models or any(id(parameter) in known for parameter in stepped):
                yield from (parameter for parameter in stepped if id(parameter) not in everyone)

    def accumulate(self, *models: nn.Module) -> AbstractContextManager[None]:
        """One micro-batch of these models inside; `step` and `zero_grad` take effect when their window is complete."""
        return self._accumulation.window(models)

    def no_sync(self, model: nn.Module | None = None) -> AbstractContextManager[None]:
        """Let gradients add up on each rank inside; the next backward pass outside averages the sums."""
        return self._parallel.no_sync()

    def trigger_sync_in_backward(self, model: nn.Module | None = None) -> AbstractContextManager[None]:
        """Have the backward passes inside average the gradients, sums made under `no_sync` included."""
        return self._parallel.sync()

    @contextmanager
    def join_uneven_inputs(
        self, joinables: Sequence[nn.Module] = (), even_batches: bool | None = None
    ) -> Iterator[None]:
        """Let ranks have different numbers of batches inside; one that has no more waits, and ends with the same state.

        `even_batches` holds for the loaders' passes inside. Gradients are means over the ranks that had a batch. Other
        collectives must not be called inside while some rank is through: that raises Desync.
        """
        before = self._sharing.even_batches
        self._sharing.even_batches = before if even_batches is None else even_batches
        try:
            with self._parallel.join(self._catch_up):
                yield
        finally:
            self._sharing.even_batches = before

    def _catch_up(self, source: int) -> None:
        """Take over what a rank has that took more steps: weights, optimizers, schedulers."""
        kept = [*self._models, *self._optimizers, *self._schedulers]
        loose = self._parallel.loose_parameters()
        states = [one.state_dict() for one in kept], [parameter.detach() for parameter in loose]
        theirs, values = self._collectives.broadcast_object(states, source)
        if self.process_index != source:
            for one, state in zip(kept, theirs, strict=True):
                one.load_state_dict(state)
            for parameter, value in zip(loose, values, strict=True):
                parameter.data.copy_(value)

    def autocast(self, autocast_handler: AutocastKwargs | None = None) -> AbstractContextManager[Any]:
        """The context in which mixed precision computes; nothing in full precision."""
        if autocast_handler is not None and not autocast_handler.enabled:
            return torch.autocast(self.device.type, enabled=False)
        return self._precision.autocast()

    def unscale_gradients(self, optimizer: Optimizer | Sequence[Optimizer] | None = None) -> None:
        """Divide gradients by the loss's scale, once in a step however often it is asked."""
        given = self._optimizers if optimizer is None else optimizer
        self._precision.unscale([given] if isinstance(given, Optimizer) else given)

    def clip_grad_norm_(self, parameters: Any, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Scale the gradients down to the norm `max_norm`, and return the norm that they had.

        While a window is under way nothing is scaled.
        """
        owned = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if not self.sync_gradients:
            gradients = [parameter.grad for parameter in owned if parameter.grad is not None]
            return nn.utils.get_total_norm(gradients, norm_type)
        self._precision.unscale(self._owners(owned))
        return nn.utils.clip_grad_norm_(owned, max_norm, norm_type=norm_type)

    def clip_grad_value_(self, parameters: Any, clip_value: float) -> None:
        """Limit every gradient's values to `clip_value`; while a window is under way nothing is limited."""
        owned = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if self.sync_gradients:
            self._precision.unscale(self._owners(owned))
            nn.utils.clip_grad_value_(owned, clip_value)

    def _owners(self, parameters: list[torch.Tensor]) -> list[Optimizer]:
        """The optimizers that step any of these parameters."""
        if not self._precision.needs_steps:
            return []
        wanted = set(map(id, parameters))
        return [
            optimizer
            for optimizer in self._optimizers
            if any(id(parameter) in wanted for group in optimizer.param_groups for parameter in group["params"])
        ]

    # -- keeping

    def gather_for_metrics(self, input_data: Any) -> Any:
        """The rows of all ranks in the order of one process, without those added to even out the last step.

        Raises: CannotGather where that cannot be told.
        """
        if self._world.size == 1:
            return input_data
        return gather_rows(input_data, self._passages, self._collectives, self._world.rank)

    def save(self, obj: Any, f: str | os.PathLike[str] | IO[bytes], *arguments: Any, **options: Any) -> None:
        """`torch.save`, on process 0; a named file is replaced whole or not at all. The others do not wait."""
        if not self.is_main_process:
            return
        if isinstance(f, (str, os.PathLike)):
            write_atomically(f, lambda file: torch.save(obj, file, *arguments, **options))
        else:
            torch.save(obj, f, *arguments, **options)

    @property
    def project_dir(self) -> str | None:
        """Where this run keeps its files."""
        return self._checkpoints.project.project_dir

    @property
    def project_configuration(self) -> ProjectConfiguration:
        """Where this run keeps its files, and how many checkpoints of them."""
        return self._checkpoints.project

    def register_for_checkpointing(self, *objects: Any) -> None:
        """Have `save_state` and `load_state` keep these objects, too, by their `state_dict` and `load_state_dict`."""
        self._checkpoints.register(*objects)

    def register_save_state_pre_hook(self, hook: SaveHook) -> RemovableHandle:
        """Call `hook(models, weights, folder)` before each save; weights that it takes out are not saved."""
        return self._checkpoints.before_saving(hook)

    def register_load_state_pre_hook(self, hook: LoadHook) -> RemovableHandle:
        """Call `hook(models, folder)` before each load; models that it takes out are not loaded."""
        return self._checkpoints.before_loading(hook)

    def save_state(self, output_dir: str | os.PathLike[str] | None = None) -> str:
        """Write everything that was prepared or registered, whole or not at all, and return the folder.

        Without a folder: the next `checkpoint_<n>` under the project's `checkpoints`. Every rank must call it.
        Raises: CannotSave on every rank if any rank fails; what was there before still is.
        """
        if not self.sync_gradients:
            message = "save_state in the middle of a window of micro-batches: the gradients so far are not kept"
            warnings.warn(message, stacklevel=2)
        return self._checkpoints.save(output_dir)

    def load_state(self, input_dir: str | os.PathLike[str] | None = None, **load_model_func_kwargs: Any) -> str:
        """Load what `save_state` wrote, and return the folder; prepared loaders go on where they were.

        Without a folder: the newest checkpoint of the project that checks out. Prepare and register the same objects
        before. Raises: CannotLoad on every rank.
        """
        return self._checkpoints.load(input_dir, **load_model_func_kwargs)

    def skip_first_batches(self, dataloader: Any, num_batches: int = 0) -> Any:
        """The loader without its first batches; after `load_state` there is no need for it."""
        return skip_first_batches(dataloader, num_batches)

    def save_model(
        self,
        model: nn.Module,
        save_directory: str | os.PathLike[str],
        max_shard_size: int | str = "10GB",
        safe_serialization: bool = True,
    ) -> None:
        """Write the model's weights as `model.safetensors`, in parts with an index above `max_shard_size`."""
        if self.is_main_process:
            state = self.get_state_dict(self.unwrap_model(model, keep_torch_compile=False))
            folder = Path(save_directory)
            if safe_serialization:
                save_weights(state, folder, max_shard_size)
            else:
                pickle_weights(state, folder)
        self.wait_for_everyone()

    # -- tracking

    def init_trackers(
        self,
        project_name: str,
        config: dict[str, Any] | None = None,
        init_kwargs: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        """Start what `log_with` asked for, under this name; `init_kwargs` are each one's own, by its name."""
        self._trackers.start(project_name, config, init_kwargs or {})

    def log(
        self, values: dict[str, Any], step: int | None = None, log_kwargs: dict[str, dict[str, Any]] | None = None
    ) -> None:
        """Hand what was measured to the trackers, on process 0."""
        self._trackers.log(values, step, log_kwargs or {})

    def get_tracker(self, name: str, unwrap: bool = False) -> Any:
        """The tracker of this name, or with `unwrap` its library's own object; None on the other processes."""
        return self._trackers.get(name, unwrap)

    def end_training(self) -> None:
        """Let the trackers write out everything, once all processes have come here."""
        self.wait_for_everyone()
        self._trackers.finish()

    # -- letting go

    def get_state_dict(self, model: nn.Module) -> dict[str, Any]:
        """The model's state, under its own keys."""
        return model.state_dict()

    def free_memory(self, *objects: Any) -> list[None]:
        """Forget what was prepared and empty the device's cache; assign the Nones returned to the objects' names."""
        for kept in (self._models, self._optimizers, self._schedulers, self._loaders):
            kept.clear()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return [None] * len(objects)


class UnevenInputs(AccelifyError):
    """A training step that not all ranks take."""


def _stand_alone(chosen: dict[str, Any]) -> Accelerator:
    return Accelerator(environment=Environment(), **chosen)


def _remember(known: list[Any], given: object) -> None:
    if not any(given is old for old in known):
        known.append(given)
