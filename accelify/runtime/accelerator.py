"""The accelerator: holds the parts, forwards to them, owns no algorithm."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from multiprocessing import parent_process
from pathlib import Path
from typing import IO, Any, ClassVar, ParamSpec, TypeVar  # scripts pass models, batches and objects of every kind

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from accelify.runtime.checkpoint.checkpoint import Checkpoints, LoadHook, RunState, SaveHook
from accelify.runtime.checkpoint.preemption import Preemption
from accelify.runtime.checkpoint.weights import pickle_weights, save_weights, write_object
from accelify.runtime.choices import DistributedType
from accelify.runtime.data.loader import is_loader, skip_first_batches
from accelify.runtime.data.metrics import Metrics
from accelify.runtime.data.passes import LoaderPasses
from accelify.runtime.data.preparation import CannotPrepare, DataPreparation, cannot_ask, cannot_prepare, is_plain
from accelify.runtime.data.random_state import drawing_on_alike, share_random_state
from accelify.runtime.data.sharding import Sharding
from accelify.runtime.data.streams import RankSeed, choose_streams
from accelify.runtime.gradients.accumulation import Accumulation
from accelify.runtime.gradients.distributed import choose_strategy
from accelify.runtime.gradients.optimizers import has_hooks, is_scheduler, wrapped_by
from accelify.runtime.gradients.precision import choose_precision
from accelify.runtime.gradients.training import Training
from accelify.runtime.launch.config import accelerator_settings
from accelify.runtime.options import (
    AutocastKwargs,
    DataLoaderConfiguration,
    GradientAccumulationPlugin,
    Handlers,
    ProfileKwargs,
    ProjectConfiguration,
    TorchDynamoPlugin,
    project_configuration,
)
from accelify.runtime.state import AcceleratorState, GradientState
from accelify.runtime.tracking import Tracker, Trackers
from accelify.runtime.world.backend import collectives_of, join
from accelify.runtime.world.environment import Environment
from accelify.runtime.world.mixed_devices import mixed_devices_of
from accelify.runtime.world.tensors import map_short_container
from accelify.runtime.world.turns import goes_one_by_one
from accelify.runtime.wrappers import extract_model_from_parallel

P = ParamSpec("P")
R = TypeVar("R")

# Arguments of Accelerate's constructor that are missing here; docs/api.md says why.
NOT_HERE = (
    *("deepspeed_plugin", "deepspeed_plugins", "megatron_lm_plugin"),
    *("fsdp_plugin", "torch_tp_plugin", "parallelism_config"),
)


class Accelerator:
    """Runs a plain training script on whatever processes and devices it was started on.

    In one process it adds nothing: the same objects, the same numbers. Over several, `prepare` gives each rank its
    shard of the data, and gradients agree on all ranks after `backward`.

    Examples:
        >>> import torch
        >>> accelerator = Accelerator(cpu=True)
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> loader = torch.utils.data.DataLoader(torch.ones(8, 2), batch_size=4)
        >>> loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
        >>> for batch in loader:
        ...     optimizer.zero_grad()
        ...     accelerator.backward(model(batch).pow(2).mean())
        ...     optimizer.step()
        >>> accelerator.num_processes
        1
    """

    _latest: ClassVar[Accelerator | None] = None

    def __init__(
        self,
        device_placement: bool = True,
        split_batches: bool | None = None,
        mixed_precision: str | None = None,
        gradient_accumulation_steps: int | None = None,
        cpu: bool = False,
        dataloader_config: DataLoaderConfiguration | None = None,
        *,
        even_batches: bool | None = None,
        mixed_devices: bool = False,
        log_with: Any = None,
        project_dir: str | os.PathLike[str] | None = None,
        project_config: ProjectConfiguration | None = None,
        gradient_accumulation_plugin: GradientAccumulationPlugin | None = None,
        dynamo_backend: str | None = None,
        dynamo_plugin: TorchDynamoPlugin | None = None,
        step_scheduler_with_optimizer: bool = True,
        rng_types: Sequence[object] | None = None,
        kwargs_handlers: Sequence[object] | None = None,
        environment: Environment | None = None,
        **others: None,
    ) -> None:
        """Arguments that are not given come from the environment, else from the project's configuration file.

        The first six may stand by position, as in Accelerate; `mixed_precision` is "no", "bf16" or "fp16".
        `mixed_devices` is for scripts that were written for the CPU: until the process ends, operations take tensors of
        the CPU's memory and of this process's device together, and NumPy reads both. On a GPU, that adds about a
        microsecond to each of torch's calls in Python.
        `rng_types` is accepted; the order of data is always the same on all ranks. `others` are options of Accelerate
        that stand for what is not here, and must be None.
        """
        asked = [name for name, value in others.items() if value is not None]
        if asked or set(others) - set(NOT_HERE):
            names = ", ".join(asked or set(others) - set(NOT_HERE))
            raise TypeError(f"Accelerator has no {names}")
        precision = None if mixed_precision is None else str(mixed_precision)
        own = accelerator_settings(environment, precision, gradient_accumulation_steps, cpu)
        environment = environment or Environment.read()
        given = Handlers.sort(kwargs_handlers)
        data = DataLoaderConfiguration.settle(dataloader_config, split_batches=split_batches, even_batches=even_batches)
        if gradient_accumulation_plugin is not None and (gradient_accumulation_steps or 1) > 1:
            raise ValueError("gradient_accumulation_steps and gradient_accumulation_plugin: give one of them")
        windows = gradient_accumulation_plugin or GradientAccumulationPlugin(num_steps=own.gradient_accumulation_steps)
        world = join(environment, cpu=own.cpu, timeout=given.process_group.timeout)
        self._mixed_devices = mixed_devices_of(world.device) if mixed_devices else None
        collectives = collectives_of(world)
        share_random_state(world, collectives)
        self._strategy = choose_strategy(world, collectives, given.comm_hook)
        self._streams = choose_streams(world, collectives, self._strategy)
        self._drawing_on_alike = partial(drawing_on_alike, world, collectives)
        passes = LoaderPasses(self._streams)
        project = project_configuration(project_dir, project_config)
        compiling = TorchDynamoPlugin.settle(dynamo_plugin, dynamo_backend)
        self._device_placement = device_placement
        self._precision = choose_precision(own.mixed_precision, world.device, given.autocast, given.scaler)
        self._profile = given.profile
        self._accumulation = Accumulation(
            steps=windows.num_steps,
            strategy=self._strategy,
            collectives=collectives,
            is_last_batch=passes.is_last_batch,
            sync_with_dataloader=windows.sync_with_dataloader,
            sync_each_batch=windows.sync_each_batch,
        )
        self._state = AcceleratorState.of(
            world=world,
            collectives=collectives,
            mixed_precision=self._precision.name,
            gradients=GradientState.of(self._accumulation, passes, windows),
        )
        self._training = Training(
            world=world,
            collectives=collectives,
            strategy=self._strategy,
            precision=self._precision,
            accumulation=self._accumulation,
            draws=self._streams,
            is_per_epoch=passes.is_per_epoch,
            holds_schedulers=step_scheduler_with_optimizer,
            compile_options=None if compiling is None else compiling.compile_options,
        )
        self._data = DataPreparation(
            world=world,
            passes=passes,
            sharding=Sharding(
                rank=world.rank,
                size=world.size,
                split_batches=data.split_batches,
                even_batches=data.even_batches,
                dispatches=bool(data.dispatch_batches),
            ),
        )
        self._metrics = Metrics(world=world, collectives=collectives, passes=passes)
        self._rank_seed = RankSeed(world=world, streams=self._streams, at_exit=self._strategy.wait_at_exit)
        self._checkpoints = Checkpoints(
            world=world,
            collectives=collectives,
            run=RunState(
                models=self._training.models,
                optimizers=self._training.optimizers,
                schedulers=self._training.schedulers,
                loaders=self._data.loaders,
                scaler=self._precision.scaler,
                streams=self._streams,
            ),
            project=project,
        )
        self._preemption = Preemption(collectives=collectives, is_main=world.rank == 0)
        self._trackers = Trackers(log_with=log_with, folder=project.logging_dir, is_main=world.rank == 0)
        Accelerator._latest = self

    @classmethod
    def current(cls) -> Accelerator:
        """The accelerator that this process has made last; where none was made, one for this process alone.

        For code to which nobody passes one: a function of a table of models, which other scripts call as well.
        Raises: RuntimeError on several processes where none was made, but in a worker that one of them has started.

        Examples:
            >>> accelerator = Accelerator(cpu=True)
            >>> Accelerator.current() is accelerator
            True
        """
        if cls._latest is None and parent_process() is None and Environment.read().world_size > 1:
            raise RuntimeError("no Accelerator was made before this line: make one first, at the start of the script")
        return cls._latest or _stand_alone({})

    def __deepcopy__(self, memo: dict[int, Any]) -> Accelerator:
        """The accelerator itself: it belongs to the process, also where a copied object holds it."""
        return self

    def __reduce__(self) -> tuple[Callable[..., Accelerator], tuple[dict[str, Any]]]:
        """In another process (a loader's worker, a later run) it stands alone, or joins the group running there."""
        chosen = {
            "device_placement": self._device_placement,
            "mixed_precision": self.mixed_precision,
            "gradient_accumulation_steps": self.gradient_accumulation_steps,
            "split_batches": self.split_batches,
            "even_batches": self.even_batches,
            "mixed_devices": self._mixed_devices is not None,
        }
        return _stand_alone, (chosen,)

    # -- preparing

    @property
    def split_batches(self) -> bool:
        """Whether each batch is divided among the processes, instead of each process taking batches of its own."""
        return self._data.sharding.split_batches

    @property
    def even_batches(self) -> bool:
        """Whether the last step is completed, so that all processes take equally many."""
        return self._data.sharding.even_batches

    def prepare(self, *objects: Any, device_placement: Sequence[bool | None] | None = None) -> Any:
        """The same objects, ready for this world: models, optimizers, loaders, schedulers, in any order.

        One object comes back as it is, several as a tuple. Models and optimizers are the very same objects; a loader
        is, where nothing has to be done. Those in a short list, tuple or dict are prepared, too, and None passes
        through. `device_placement` says for each object whether it is moved.
        In one process anything else passes through, too: nothing has to be done for it. On several, a text, path,
        number or device does, with a warning, as it holds neither data nor weights.
        Raises: CannotPrepare for what else may hold data or weights on several processes (a dataset, an iterator that
        has begun, a long list, a tensor, an object of another kind), with what to give instead; and on any number for
        an object that raises another error than AttributeError for an attribute that it does not have.

        Examples:
            >>> import torch
            >>> model, data = torch.nn.Linear(2, 1), torch.utils.data.DataLoader(torch.ones(8, 2), batch_size=4)
            >>> prepared_data, prepared_model = Accelerator(cpu=True).prepare(data, model)
            >>> prepared_model is model
            True
            >>> len(prepared_data)  # on two processes: 1
            2
        """
        places = list(device_placement or [None] * len(objects))
        self._training.look_again()
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

    def _prepare_one(self, given: Any, device_placement: bool | None, *, is_inside: bool = False) -> Any:
        if isinstance(given, nn.Module):
            return self.prepare_model(given, device_placement)
        if isinstance(given, Optimizer):
            return self.prepare_optimizer(given)
        try:
            is_schedule, is_source = is_scheduler(given), is_loader(given)
        except Exception as error:  # `hasattr` passes on what a `__getattr__` raises
            raise CannotPrepare(f"prepare: {cannot_ask(given, error)}") from error
        if is_schedule:
            return self.prepare_scheduler(given)
        if is_source:
            return self.prepare_data_loader(given, device_placement)
        if self.num_processes > 1 and (advice := cannot_prepare(given, is_inside=is_inside)) is not None:
            if not is_plain(given):
                raise CannotPrepare(f"prepare: {advice}")
            warnings.warn(f"prepare: {advice}. It comes back as it is", stacklevel=3)
        return map_short_container(lambda each: self._prepare_one(each, device_placement, is_inside=True), given)

    def _is_placed(self, device_placement: bool | None) -> bool:
        return self._device_placement if device_placement is None else device_placement

    def prepare_model(
        self, model: nn.Module, device_placement: bool | None = None, evaluation_mode: bool = False
    ) -> nn.Module:
        """The model itself, on this process's device and equal on all ranks; left as it is with `evaluation_mode`."""
        self._meet()
        is_moved = self._is_placed(device_placement)
        return self._training.prepare_model(model, is_moved=is_moved, is_trained=not evaluation_mode)

    def prepare_optimizer(self, optimizer: Optimizer, device_placement: bool | None = None) -> Optimizer:
        """The optimizer itself; its parameters that no prepared model owns are kept equal on all ranks, too.

        One whose class only wraps another, and whose constructor does not run that of `torch.optim.Optimizer`, steps
        with the one that it wraps, which is prepared. In one process it may step as it likes.
        Raises: CannotPrepare for such a one whose steps would have to wait, or on several processes that keeps none.
        """
        if has_hooks(optimizer):
            if self._mixed_devices is not None:
                self._mixed_devices.skip_steps(optimizer)
            return self._training.prepare_optimizer(optimizer)
        inner = wrapped_by(optimizer)
        if not inner and self.num_processes == 1 and not self._training.steps_may_wait:
            return optimizer
        if not inner or self._training.steps_may_wait:
            raise CannotPrepare(
                f"prepare: a {type(optimizer).__name__} has never run Optimizer.__init__, so its steps cannot be "
                "followed. Call super().__init__(parameters, defaults) in its constructor, or prepare the optimizer "
                "that it stands for; one that changes gradients when it steps cannot be distributed by accelify"
            )
        for each in inner:
            self.prepare_optimizer(each)
        return optimizer

    def prepare_scheduler(self, scheduler: Any, *, per: str | None = None) -> Any:
        """The scheduler itself, held while its optimizer's step waits or is left out.

        A schedule is taken to be counted in one process's batches, before `prepare`, or in epochs: a call of its
        `step` in the loop over a prepared loader is N steps on N processes, which take N batches (one with
        `split_batches`), and a call after the loop is one. `per="batch"` makes every call N steps; `per="step"` makes
        it one, for a schedule that was counted in this process's steps (`len` of a prepared loader).
        Raises: ValueError for another `per`.
        """
        if per not in (None, "step", "batch"):
            raise ValueError(f"per={per!r}: choose step or batch")
        is_one = per == "step" or self.split_batches or self.num_processes == 1
        times = 1 if is_one else self.num_processes if per == "batch" else None
        return self._training.prepare_scheduler(scheduler, times)

    def prepare_data_loader(self, data_loader: Any, device_placement: bool | None = None) -> Any:
        """A loader of this rank's batches, on its device; its attributes are the given loader's."""
        is_moved = self._is_placed(device_placement) and self.device.type != "cpu"
        return self._data.prepare(data_loader, self.device if is_moved else None)

    def shard(self, elements: Any, *, even: bool = True) -> Any:
        """This rank's shard of a sequence or iterable, equally many on all ranks; all of it in one process.

        Element k of rank r is element `k * N + r`. What has a length is completed by going round to the start; what
        has none (a generator) loses an incomplete last round. With `even=False` each element is exactly one rank's,
        and some ranks may have one fewer; a loader is then sharded by its own batches. That is for evaluation, in which
        no rank waits for another: what each adds up, `reduce` makes the sum of one process.

        Examples:
            >>> list(Accelerator(cpu=True).shard(range(4)))  # on two processes: [0, 2] and [1, 3]
            [0, 1, 2, 3]
        """
        return self._data.shard(elements, is_even=even)

    def seed_by_rank(self) -> None:
        """From here on each rank draws random numbers of its own; rank 0, and so one process, draws what it always did.

        For scripts that draw their training data at random. Loaders and `shard` still shard one common epoch.
        What ranks draw may decide how many steps they take (agents, whose episodes end when they end): one that comes
        to the script's end, to `wait_for_everyone` or to `prepare_model`, takes part in the others' backward passes,
        without gradients, until all are there.
        Called again, it changes nothing, unless the script has seeded anew.
        """
        self._rank_seed.apply()

    # -- training

    @property
    def gradient_accumulation_steps(self) -> int:
        """How many micro-batches make up a step."""
        return self._accumulation.steps

    @gradient_accumulation_steps.setter
    def gradient_accumulation_steps(self, steps: int) -> None:
        self._training.accumulate_over(steps)

    @property
    def mixed_precision(self) -> str:
        """`no`, `bf16` or `fp16`."""
        return self._precision.name

    @property
    def scaler(self) -> Any:
        """The scaler of the loss in fp16; None in any other precision."""
        return self._precision.scaler

    @property
    def sync_gradients(self) -> bool:
        """Whether the step that the script is at completes its window."""
        return self._accumulation.is_complete

    @property
    def optimizer_step_was_skipped(self) -> bool:
        """Whether some optimizer's last step was left out because a gradient overflowed."""
        return self._training.step_was_skipped

    def backward(self, loss: torch.Tensor, *, weight: float | None = None, **options: Any) -> None:
        """Run the backward pass; afterwards every prepared model's gradients agree on all ranks.

        `weight` is how much this loss, a mean, stands for (its count of tokens): the step then takes the weighted mean
        over the window's micro-batches and over the ranks. The other options are those of `Tensor.backward`.

        Examples:
            >>> import torch
            >>> accelerator = Accelerator(cpu=True)
            >>> model = accelerator.prepare(torch.nn.Linear(2, 1, bias=False))
            >>> accelerator.backward(model(torch.ones(3, 2)).mean())
            >>> model.weight.grad
            tensor([[1., 1.]])
        """
        step, may_end = self._data.passes.step, self._rank_seed.is_used
        self._training.backward(loss, step, weight=weight, may_end=may_end, **options)

    def accumulate(self, *models: nn.Module) -> AbstractContextManager[None]:
        """One micro-batch of these models inside; `step` and `zero_grad` take effect when their window is complete.

        Examples:
            >>> import torch
            >>> accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
            >>> model = torch.nn.Linear(2, 1)
            >>> model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
            >>> for batch in torch.ones(4, 3, 2):  # four batches, two steps
            ...     with accelerator.accumulate(model):
            ...         accelerator.backward(model(batch).mean())
            ...         optimizer.step()
            ...         optimizer.zero_grad()
        """
        return self._accumulation.window(models)

    def no_sync(self, model: nn.Module | None = None) -> AbstractContextManager[None]:
        """Let gradients add up on each rank inside; the next backward pass outside averages the sums."""
        return self._strategy.no_sync()

    def trigger_sync_in_backward(self, model: nn.Module | None = None) -> AbstractContextManager[None]:
        """Have the backward passes inside average the gradients, sums made under `no_sync` included."""
        return self._strategy.sync()

    @contextmanager
    def join_uneven_inputs(
        self, joinables: Sequence[nn.Module] = (), even_batches: bool | None = None
    ) -> Iterator[None]:
        """Let ranks have different numbers of batches inside; one that has no more waits, and ends with the same state.

        `even_batches` holds for the loaders' passes inside. Gradients are means over the ranks that had a batch. Other
        collectives must not be called inside while some rank is through: that raises Desync.
        """
        with self._data.evened(even_batches), self._training.join():
            yield

    def autocast(self, autocast_handler: AutocastKwargs | None = None) -> AbstractContextManager[Any]:
        """The context in which mixed precision computes; nothing in full precision."""
        if autocast_handler is not None and not autocast_handler.enabled:
            return torch.autocast(self.device.type, enabled=False)
        return self._precision.autocast()

    def unscale_gradients(self, optimizer: Optimizer | Sequence[Optimizer] | None = None) -> None:
        """Divide gradients by the loss's scale, once in a step however often it is asked."""
        self._training.unscale(optimizer)

    def clip_grad_norm_(self, parameters: Any, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Scale the gradients down to the norm `max_norm`, and return the norm that they had.

        While a window is under way nothing is scaled.
        """
        return self._training.clip_norm(parameters, max_norm, norm_type)

    def clip_grad_value_(self, parameters: Any, clip_value: float) -> None:
        """Limit every gradient's values to `clip_value`; while a window is under way nothing is limited."""
        self._training.clip_value(parameters, clip_value)

    # -- metrics

    def gather_for_metrics(self, input_data: Any, use_gather_object: bool = False, *, per: str | None = None) -> Any:
        """The rows of all ranks in the order of one process, without those added to even out the last step.

        Call it in the loop, on what belongs to the batch. What a loop has collected, gather after it with `per="row"`
        or `per="batch"`: that says what each element stands for, and is checked. Elsewhere all rows are gathered as
        they are.
        With `use_gather_object` each element of a list is a row, whatever it is: tensors of many shapes, too.
        Raises: CannotGather for rows that may be of a loop which added some.

        Examples:
            >>> import torch
            >>> accelerator = Accelerator(cpu=True)
            >>> loader = accelerator.prepare(torch.utils.data.DataLoader(torch.arange(5), batch_size=2))
            >>> rows = [accelerator.gather_for_metrics(batch) for batch in loader]
            >>> torch.cat(rows)  # on any number of processes
            tensor([0, 1, 2, 3, 4])
        """
        return self._metrics.gather(input_data, by_element=use_gather_object, per=per)

    def trim_for_metrics(self, input_data: Any) -> Any:
        """This rank's rows of the current batch, without those added to even out the last step; no other rank is asked.

        What is not the batch's rows is left as it is, and then all that is given with it.
        """
        return self._metrics.trim(input_data)

    def mean_for_metrics(self, mean: Any, function: Callable[..., Any], /, *rows: Any, **options: Any) -> Any:
        """`mean`, which is `function(*rows, **options)`, without the rows that were added to even out the last step.

        It may be a sum over rows, too. It is computed again, without gradients, where rows were added, and only there;
        of no rows it is zero.
        """
        return self._metrics.mean(mean, function, rows, options)

    # -- files

    def save(
        self,
        obj: Any,
        f: str | os.PathLike[str] | IO[bytes],
        *arguments: Any,
        safe_serialization: bool = False,
        **options: Any,
    ) -> None:
        """`torch.save`, on process 0; a named file is replaced atomically. The others do not wait.

        With `safe_serialization` a dict of tensors is written as safetensors.
        """
        if self.is_main_process:
            write_object(obj, f, *arguments, safe_serialization=safe_serialization, **options)

    @property
    def project_dir(self) -> str | None:
        """Where this run keeps its files."""
        return self._checkpoints.project.project_dir

    @property
    def project_configuration(self) -> ProjectConfiguration:
        """Where this run keeps its files, and how many checkpoints of them."""
        return self._checkpoints.project

    @property
    def logging_dir(self) -> str | None:
        """Where trackers write."""
        return self._checkpoints.project.logging_dir

    @property
    def save_iteration(self) -> int:
        """The number that the next checkpoint without a name of its own will have."""
        return self._checkpoints.next_serial

    def register_for_checkpointing(self, *objects: Any) -> None:
        """Have `save_state` and `load_state` keep these objects, too, by their `state_dict` and `load_state_dict`."""
        self._checkpoints.register(*objects)

    def register_save_state_pre_hook(self, hook: SaveHook) -> RemovableHandle:
        """Call `hook(models, weights, folder)` before each save; weights that it takes out are not saved."""
        return self._checkpoints.before_saving(hook)

    def register_load_state_pre_hook(self, hook: LoadHook) -> RemovableHandle:
        """Call `hook(models, folder)` before each load; models that it takes out are not loaded."""
        return self._checkpoints.before_loading(hook)

    def save_state(
        self, output_dir: str | os.PathLike[str] | None = None, safe_serialization: bool = True, **options: Any
    ) -> str:
        """Write everything that was prepared or registered, complete or not at all, and return the folder.

        There is one format, safetensors and JSON, whatever `safe_serialization` and the other options say.
        Without a folder: the next `checkpoint_<n>` under the project's `checkpoints`. Every rank must call it.
        Raises: CannotSave on every rank if any rank fails; what was there before still is.
        """
        if not self.sync_gradients:
            message = "save_state in the middle of a window of micro-batches: the gradients so far are not kept"
            warnings.warn(message, stacklevel=2)
        return self._checkpoints.save(output_dir)

    def load_state(
        self,
        input_dir: str | os.PathLike[str] | None = None,
        load_kwargs: dict[str, Any] | None = None,
        *,
        missing_ok: bool = False,
        **load_model_func_kwargs: Any,
    ) -> str:
        """Load what `save_state` wrote, and return the folder; prepared loaders go on where they were.

        Without a folder: the newest checkpoint of the project that checks out; with `missing_ok` there need be none
        yet, and the text returned is empty then. Prepare and register the same objects before.
        A window of micro-batches that is under way is given up, with its gradients.
        Raises: CannotLoad on every rank.
        """
        folder = self._checkpoints.load(input_dir, missing_ok=missing_ok, **load_model_func_kwargs)
        self._training.give_up_windows()
        return folder

    def stop_if_asked(self) -> None:
        """Write a checkpoint and end, on all processes, if any was sent SIGTERM: a line for the end of a training step.

        Every rank must call it; that costs one small reduce. The signal is listened for from the first call on. The
        checkpoint is the project's next, as of `save_state()`; the exit status is 143, as the signal's own.
        """
        if self.sync_gradients:
            self._preemption.stop_if_asked(self.save_state)

    def skip_first_batches(self, dataloader: Any, num_batches: int = 0) -> Any:
        """The loader without its first batches; after `load_state` there is no need for it."""
        return skip_first_batches(dataloader, num_batches)

    def unwrap_model(
        self, model: nn.Module, keep_fp32_wrapper: bool = True, keep_torch_compile: bool = True
    ) -> nn.Module:
        """The model itself: `prepare` does not wrap it. A DataParallel or DDP of the script's own is taken off.

        Without `keep_torch_compile`, the module that was compiled. Without `keep_fp32_wrapper` its forward pass
        computes in its own precision again.
        """
        inner: nn.Module = extract_model_from_parallel(model, keep_fp32_wrapper, keep_torch_compile)
        if not keep_fp32_wrapper:
            self._precision.release(getattr(inner, "_orig_mod", inner))
        return inner

    def get_state_dict(self, model: nn.Module, unwrap: bool = True) -> dict[str, Any]:
        """The model's state, under its own keys."""
        return self.unwrap_model(model, keep_torch_compile=not unwrap).state_dict()

    def save_model(
        self,
        model: nn.Module,
        save_directory: str | os.PathLike[str],
        max_shard_size: int | str = "10GB",
        safe_serialization: bool = True,
    ) -> None:
        """Write the model's weights as `model.safetensors`, in shards with an index above `max_shard_size`."""
        if self.is_main_process:
            state = self.get_state_dict(model)
            folder = Path(save_directory)
            if safe_serialization:
                save_weights(state, folder, max_shard_size)
            else:
                pickle_weights(state, folder)
        self.wait_for_everyone()

    # -- tracking

    @property
    def trackers(self) -> list[Tracker]:
        """Those that run; none but on process 0."""
        return self._trackers.running

    @property
    def log_with(self) -> list[Any]:
        """The trackers that were asked for."""
        return self._trackers.asked

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
        """The tracker of this name, or with `unwrap` its library's own object; on the other processes a silent one."""
        return self._trackers.get(name, unwrap)

    def end_training(self) -> None:
        """Let the trackers write out everything, once all processes have come here."""
        self.wait_for_everyone()
        self._trackers.finish()

    @contextmanager
    def profile(self, profile_handler: ProfileKwargs | None = None) -> Iterator[Any]:
        """Record what the block does, as this handler says, else the one among `kwargs_handlers`; yields the profiler.

        With `output_trace_dir` each process writes `profile_<rank>.json` there, and waits for the others.
        """
        handler = profile_handler or self._profile
        with handler.build() as profiler:
            yield profiler
        if handler.output_trace_dir is not None:
            folder = Path(handler.output_trace_dir)
            folder.mkdir(parents=True, exist_ok=True)
            profiler.export_chrome_trace(str(folder / f"profile_{self.process_index}.json"))
            self.wait_for_everyone()

    # -- freeing memory

    def free_memory(self, *objects: Any) -> list[None]:
        """Forget what was prepared and empty the device's cache; assign the Nones returned to the objects' names."""
        self._training.forget()
        self._data.forget()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return [None] * len(objects)

    def clear(self, *objects: Any) -> list[None]:
        """`free_memory`, under its other name."""
        return self.free_memory(*objects)

    # -- where this process stands

    @property
    def state(self) -> AcceleratorState:
        """Where this process stands, and in which precision it computes; to be read and printed."""
        return self._state

    @property
    def gradient_state(self) -> GradientState:
        """The window of micro-batches and the loader that the script is at; to be read."""
        return self._state.gradients

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        return self._state.device

    @property
    def num_processes(self) -> int:
        """How many processes train together."""
        return self._state.num_processes

    @property
    def process_index(self) -> int:
        """This process's number among all."""
        return self._state.process_index

    @property
    def local_process_index(self) -> int:
        """This process's number on its machine."""
        return self._state.local_process_index

    @property
    def is_main_process(self) -> bool:
        """Whether this is process 0."""
        return self._state.is_main_process

    @property
    def is_local_main_process(self) -> bool:
        """Whether this is process 0 of its machine."""
        return self._state.is_local_main_process

    @property
    def is_last_process(self) -> bool:
        """Whether this is the process with the highest number."""
        return self._state.is_last_process

    @property
    def use_distributed(self) -> bool:
        """Whether there are several processes."""
        return self._state.use_distributed

    @property
    def multi_device(self) -> bool:
        """Whether there are several processes, each with a GPU."""
        return self._state.multi_device

    @property
    def distributed_type(self) -> DistributedType:
        """On what kind of devices the processes are; `NO` for one process."""
        return self._state.distributed_type

    # -- between the processes

    def gather(self, tensor: Any) -> Any:
        """Every rank's tensors one after the other, in whatever containers; shapes must agree.

        Shapes: (n, ...) on each rank -> (world_size * n, ...). A number becomes the list of all ranks' numbers.
        """
        return self._state.gather(tensor)

    def reduce(self, tensor: Any, reduction: str = "sum", scale: float = 1.0) -> Any:
        """The sum, mean, max or min over all ranks, in kind: tensors stay tensors, numbers numbers. Times `scale`."""
        return self._state.reduce(tensor, reduction, scale)

    def broadcast(self, tensor: Any, from_process: int = 0) -> Any:
        """One rank's tensors on all ranks."""
        return self._state.broadcast(tensor, from_process)

    def gather_object(self, value: Any) -> list[Any]:
        """Every rank's object, in the order of ranks."""
        return self._state.gather_object(value)

    def broadcast_object_list(self, object_list: list[Any], from_process: int = 0) -> list[Any]:
        """The list, its elements replaced in place by those of one rank; the lengths must agree."""
        return self._state.broadcast_object_list(object_list, from_process)

    def pad_across_processes(self, tensor: Any, dim: int = 0, pad_index: int = 0, pad_first: bool = False) -> Any:
        """Tensors padded with `pad_index` to the greatest length along `dim` that any rank has."""
        return self._state.pad_across_processes(tensor, dim, pad_index, pad_first)

    def split_between_processes(self, inputs: Any, apply_padding: bool = False) -> AbstractContextManager[Any]:
        """This rank's contiguous part of a list, tuple, tensor or dict; padded with the last element if asked."""
        return self._state.split_between_processes(inputs, apply_padding)

    def set_trigger(self) -> None:
        """Let the next `check_trigger` be true on every rank."""
        self._state.set_trigger()

    def check_trigger(self) -> bool:
        """Whether any rank called `set_trigger` since the last check. Every rank must ask."""
        return self._state.check_trigger()

    def wait_for_everyone(self) -> None:
        """Return once every process has come here."""
        self._meet()
        self._state.wait_for_everyone()

    def _meet(self) -> None:
        """Let ranks that draw their own data, and so may take different numbers of steps, come to the same place."""
        if self._rank_seed.is_used and not goes_one_by_one():
            self._training.meet()

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Let process 0 go through the block before the others, which draw random numbers on from where it ends."""
        with self._drawing_on_alike(), self._state.main_process_first():
            yield

    @contextmanager
    def local_main_process_first(self) -> Iterator[None]:
        """The same with process 0 of each machine, which draws what process 0 of all does."""
        with self._drawing_on_alike(), self._state.local_main_process_first():
            yield

    def on_main_process(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """The function, run on process 0 only; None on the others."""
        return self._state.on_main_process(function)

    def on_local_main_process(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """The function, run on process 0 of each machine only."""
        return self._state.on_local_main_process(function)

    def on_last_process(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """The function, run on the last process only."""
        return self._state.on_last_process(function)

    def on_process(self, function: Any = None, process_index: int | None = None) -> Any:
        """The function, run on this one process only; a decorator where only the number is given."""
        return self._state.on_process(function, process_index)

    def on_local_process(self, function: Any = None, local_process_index: int | None = None) -> Any:
        """The function, run on the process of this number on each machine; a decorator where only that is given."""
        return self._state.on_local_process(function, local_process_index)

    def print(self, *values: Any, **options: Any) -> None:
        """`print`, on process 0."""
        self._state.print(*values, **options)


def _stand_alone(chosen: dict[str, Any]) -> Accelerator:
    """One for this process alone, which is the current one only where there is no other."""
    latest = Accelerator._latest
    made = Accelerator(environment=Environment(), **chosen)
    Accelerator._latest = latest or made
    return made
