"""The runtime that a migrated script imports. Names are loaded on first use: some modules here work without torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any  # a name may stand for anything

from accelify.runtime.world.environment import Environment

if TYPE_CHECKING:
    from accelify.runtime.accelerator import Accelerator
    from accelify.runtime.data.loader import skip_first_batches
    from accelify.runtime.data.random_state import set_seed
    from accelify.runtime.launch.notebook import debug_launcher, notebook_launcher
    from accelify.runtime.logger import get_logger
    from accelify.runtime.memory import find_executable_batch_size, release_memory
    from accelify.runtime.options import (
        AutocastKwargs,
        DataLoaderConfiguration,
        DistributedDataParallelKwargs,
        GradientAccumulationPlugin,
        GradScalerKwargs,
        InitProcessGroupKwargs,
        ProjectConfiguration,
        TorchDynamoPlugin,
    )
    from accelify.runtime.state import (
        AcceleratorState,
        DistributedType,
        PartialState,
        broadcast,
        broadcast_object_list,
        gather,
        gather_object,
        pad_across_processes,
        reduce,
        save,
        wait_for_everyone,
    )

_HOME = {
    "Accelerator": "accelerator",
    "AcceleratorState": "state",
    "AutocastKwargs": "options",
    "DataLoaderConfiguration": "options",
    "DistributedDataParallelKwargs": "options",
    "DistributedType": "state",
    "GradScalerKwargs": "options",
    "GradientAccumulationPlugin": "options",
    "InitProcessGroupKwargs": "options",
    "PartialState": "state",
    "ProjectConfiguration": "options",
    "TorchDynamoPlugin": "options",
    "broadcast": "state",
    "broadcast_object_list": "state",
    "debug_launcher": "launch.notebook",
    "find_executable_batch_size": "memory",
    "gather": "state",
    "gather_object": "state",
    "get_logger": "logger",
    "notebook_launcher": "launch.notebook",
    "pad_across_processes": "state",
    "reduce": "state",
    "release_memory": "memory",
    "save": "state",
    "set_seed": "data.random_state",
    "skip_first_batches": "data.loader",
    "wait_for_everyone": "state",
}

__all__ = [
    "Accelerator",
    "AcceleratorState",
    "AutocastKwargs",
    "DataLoaderConfiguration",
    "DistributedDataParallelKwargs",
    "DistributedType",
    "Environment",
    "GradScalerKwargs",
    "GradientAccumulationPlugin",
    "InitProcessGroupKwargs",
    "PartialState",
    "ProjectConfiguration",
    "TorchDynamoPlugin",
    "broadcast",
    "broadcast_object_list",
    "debug_launcher",
    "find_executable_batch_size",
    "gather",
    "gather_object",
    "get_logger",
    "notebook_launcher",
    "pad_across_processes",
    "reduce",
    "release_memory",
    "save",
    "set_seed",
    "skip_first_batches",
    "wait_for_everyone",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_HOME[name]}")
    except ModuleNotFoundError as error:
        extra = {"torch": "runtime", "numpy": "runtime", "cloudpickle": "notebook"}.get(error.name or "")
        if extra is None:
            raise
        message = f'{__name__}.{name} needs {error.name}: pip install "accelify[{extra}]"'
        raise ImportError(message, name=error.name) from error
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
