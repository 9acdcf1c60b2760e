"""The runtime that a migrated script imports. Names are loaded on first use: some modules here work without torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any  # a name may stand for anything

from accelify.runtime.environment import Environment

if TYPE_CHECKING:
    from accelify.runtime.accelerator import Accelerator
    from accelify.runtime.data import skip_first_batches
    from accelify.runtime.memory import find_executable_batch_size
    from accelify.runtime.options import (
        AutocastKwargs,
        DataLoaderConfiguration,
        DistributedDataParallelKwargs,
        GradientAccumulationPlugin,
        GradScalerKwargs,
        InitProcessGroupKwargs,
        ProjectConfiguration,
    )
    from accelify.runtime.output import get_logger
    from accelify.runtime.seeding import set_seed

_HOME = {
    "Accelerator": "accelerator",
    "AutocastKwargs": "options",
    "DataLoaderConfiguration": "options",
    "DistributedDataParallelKwargs": "options",
    "GradScalerKwargs": "options",
    "GradientAccumulationPlugin": "options",
    "InitProcessGroupKwargs": "options",
    "ProjectConfiguration": "options",
    "find_executable_batch_size": "memory",
    "get_logger": "output",
    "set_seed": "seeding",
    "skip_first_batches": "data",
}

__all__ = [
    "Accelerator",
    "AutocastKwargs",
    "DataLoaderConfiguration",
    "DistributedDataParallelKwargs",
    "Environment",
    "GradScalerKwargs",
    "GradientAccumulationPlugin",
    "InitProcessGroupKwargs",
    "ProjectConfiguration",
    "find_executable_batch_size",
    "get_logger",
    "set_seed",
    "skip_first_batches",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_HOME[name]}")
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "numpy"):
            raise
        message = f'{__name__}.{name} needs {error.name}: pip install "accelify[runtime]"'
        raise ImportError(message, name=error.name) from error
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
