"""The runtime that a migrated script imports. Names are loaded on first use: some modules here work without torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any  # a name may stand for anything

from accelify.runtime.world.environment import Environment

if TYPE_CHECKING:
    from accelify.runtime.accelerator import Accelerator
    from accelify.runtime.choices import DDPCommunicationHookType, DistributedType
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
        ProfileKwargs,
        ProjectConfiguration,
        TorchDynamoPlugin,
    )
    from accelify.runtime.state import (
        AcceleratorState,
        GradientState,
        PartialState,
        broadcast,
        broadcast_object_list,
        gather,
        gather_object,
        pad_across_processes,
        reduce,
        save,
        synchronize_rng_states,
        wait_for_everyone,
    )

_HOME = {
    "Accelerator": "accelerator",
    "AcceleratorState": "state",
    "AutocastKwargs": "options",
    "DDPCommunicationHookType": "choices",
    "DataLoaderConfiguration": "options",
    "DistributedDataParallelKwargs": "options",
    "DistributedType": "choices",
    "GradScalerKwargs": "options",
    "GradientAccumulationPlugin": "options",
    "GradientState": "state",
    "InitProcessGroupKwargs": "options",
    "PartialState": "state",
    "ProfileKwargs": "options",
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
    "synchronize_rng_states": "state",
    "wait_for_everyone": "state",
}

# Modules that stand for Accelerate's, each as `accelify.runtime.utils` is after `import accelify.runtime`.
_MODULES = ("launchers", "local_sgd", "logging", "state", "tracking", "utils")

__all__ = [
    "Accelerator",
    "AcceleratorState",
    "AutocastKwargs",
    "DDPCommunicationHookType",
    "DataLoaderConfiguration",
    "DistributedDataParallelKwargs",
    "DistributedType",
    "Environment",
    "GradScalerKwargs",
    "GradientAccumulationPlugin",
    "GradientState",
    "InitProcessGroupKwargs",
    "PartialState",
    "ProfileKwargs",
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
    "synchronize_rng_states",
    "wait_for_everyone",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_HOME.get(name, name)}")
    except ModuleNotFoundError as error:
        extra = {"torch": "runtime", "numpy": "runtime", "cloudpickle": "notebook"}.get(error.name or "")
        if extra is None:
            raise
        message = f'{__name__}.{name} needs {error.name}: pip install "accelify[{extra}]"'
        raise ImportError(message, name=error.name) from error
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})
