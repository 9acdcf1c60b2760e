"""What the accelerator keeps of a run: metrics, files, checkpoints, trackers."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any  # scripts keep objects of every kind

from torch import nn
from torch.utils.hooks import RemovableHandle

from accelify.runtime.checkpoint.checkpoint import Checkpoints, LoadHook, SaveHook
from accelify.runtime.checkpoint.preemption import Preemption
from accelify.runtime.checkpoint.weights import pickle_weights, save_weights, write_object
from accelify.runtime.data.data import skip_first_batches
from accelify.runtime.data.rows import Row, gather_rows, mean_of_rows, trim_rows
from accelify.runtime.options import ProjectConfiguration
from accelify.runtime.trackers import Tracker
from accelify.runtime.tracking import Trackers
from accelify.runtime.training import Training


class Keeping(Training):
    """The part of the accelerator that has to do with what comes out of a run."""

    _checkpoints: Checkpoints
    _trackers: Trackers
    _preemption: Preemption

    def gather_for_metrics(self, input_data: Any, use_gather_object: bool = False) -> Any:
        """The rows of all ranks in the order of one process, without those added to even out the last step.

        With `use_gather_object` each element of a list is a row, whatever it is: tensors of many shapes, too.
        Raises: CannotGather where that cannot be told.
        """
        if self._world.size == 1:
            return input_data
        if use_gather_object and isinstance(input_data, list):
            rows = [Row(one) for one in input_data]
            gathered = gather_rows(rows, self._passages, self._collectives, self._world.rank)
            return [row.value_on(self._world.device) for row in gathered]
        return gather_rows(input_data, self._passages, self._collectives, self._world.rank)

    def trim_for_metrics(self, input_data: Any) -> Any:
        """This rank's rows of the current batch, without those added to even out the last step; nobody is asked.

        What is not the batch's rows is left as it is, and then all that is given with it.
        """
        return trim_rows(input_data, self._passages, self._world.rank)

    def mean_for_metrics(self, mean: Any, function: Callable[..., Any], *rows: Any) -> Any:
        """`mean`, which is `function(*rows)`, without the rows that were added to even out the last step.

        It is computed again, without gradients, where rows were added, and only there; of no rows it is zero.
        """
        return mean_of_rows(mean, function, rows, self._passages, self._world.rank)

    # -- files

    def save(
        self,
        obj: Any,
        f: str | os.PathLike[str] | IO[bytes],
        *arguments: Any,
        safe_serialization: bool = False,
        **options: Any,
    ) -> None:
        """`torch.save`, on process 0; a named file is replaced whole or not at all. The others do not wait.

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
        """Write everything that was prepared or registered, whole or not at all, and return the folder.

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
        self._give_up_windows()
        return folder

    def stop_if_asked(self) -> None:
        """Write a checkpoint and end, on all processes, if any was sent SIGTERM: a line for the end of a training step.

        Every rank must call it; that costs one small reduce. The signal is listened for from the first call on. The
        checkpoint is the project's next, as of `save_state()`; the exit status is 143, as the signal's own.
        """
        if self.sync_gradients and self._collectives.reduce(int(self._preemption.is_asked()), "max"):
            self._preemption.leave(self.save_state(), tells=self.is_main_process)

    def skip_first_batches(self, dataloader: Any, num_batches: int = 0) -> Any:
        """The loader without its first batches; after `load_state` there is no need for it."""
        return skip_first_batches(dataloader, num_batches)

    def unwrap_model(
        self, model: nn.Module, keep_fp32_wrapper: bool = True, keep_torch_compile: bool = True
    ) -> nn.Module:
        """The model itself: nothing wraps it. Without `keep_torch_compile`, the module that was compiled.

        Without `keep_fp32_wrapper` its forward pass computes in its own precision again.
        """
        inner: nn.Module = getattr(model, "_orig_mod", model)
        if not keep_fp32_wrapper:
            self._precision.release(inner)
        return model if keep_torch_compile else inner

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
        """Write the model's weights as `model.safetensors`, in parts with an index above `max_shard_size`."""
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
