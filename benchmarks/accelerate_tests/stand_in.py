"""Accelerate, as its own tests import it: what the table of its names says that each name is in accelify.

Only what a rewritten script would be given is here, and a few lines for what the tests ask beside it: to make a
prepared loader without an accelerator, to load saved weights, and what reaches into Accelerate's wrappers or resets
its one state of a process, which accelify does not keep.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
import types
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from accelify.codemod.libraries.accelerate import counterpart

# Some scripts import them, for tests that need the network.
NOT_NEEDED = ("evaluate", "datasets", "transformers")


class Absent:
    """A name that accelify does not have: it can be imported, and used by nobody."""

    def __init__(self, name: str, how: str) -> None:
        self._name, self._how = name, how

    def __call__(self, *arguments: object, **options: object) -> Any:
        raise NotImplementedError(f"{self._name}: {self._how}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(f"{self._name}: {self._how}")


def prepare_data_loader(
    dataloader: Any,
    device: Any = None,
    num_processes: int | None = None,
    process_index: int | None = None,
    split_batches: bool = False,
    put_on_device: bool = False,
    rng_types: Any = None,
    dispatch_batches: bool | None = None,
    even_batches: bool = True,
    use_seedable_sampler: bool = False,
) -> Any:
    """A loader, prepared by an accelerator of these settings; where it stands among the others it knows itself."""
    from accelify.runtime import Accelerator, DataLoaderConfiguration

    asked = DataLoaderConfiguration(
        split_batches=split_batches, dispatch_batches=dispatch_batches, even_batches=even_batches
    )
    return Accelerator(dataloader_config=asked).prepare_data_loader(dataloader)


class _Loaders(type):
    """Whose class is asked for: of any prepared loader."""

    def __instancecheck__(cls, instance: object) -> bool:
        from accelify.runtime.data.loader import PreparedLoader

        return isinstance(instance, PreparedLoader)


class Loader(metaclass=_Loaders):
    """A `DataLoader` of these options, prepared: what `DataLoaderShard` and `DataLoaderDispatcher` are for."""

    def __new__(cls, *arguments: Any, **options: Any) -> Any:
        """Prepared, and of no class of its own; every prepared loader has a state."""
        from torch.utils.data import DataLoader

        options.pop("use_stateful_dataloader", None)
        return prepare_data_loader(DataLoader(*arguments, **options))


def load_checkpoint_in_model(model: Any, folder: str) -> None:
    """Load what `save_model` wrote."""
    import torch
    from safetensors.torch import load_file

    for path in sorted(Path(folder).iterdir()):
        if path.suffix in (".safetensors", ".bin"):
            weights = load_file(path) if path.suffix == ".safetensors" else torch.load(path)
            model.load_state_dict(weights, strict=False)


BESIDE_THE_TABLE: dict[str, Any] = {
    "accelerate.utils.modeling.load_checkpoint_in_model": load_checkpoint_in_model,
    "accelerate.data_loader.prepare_data_loader": prepare_data_loader,
    "accelerate.data_loader.DataLoaderShard": Loader,
    "accelerate.data_loader.DataLoaderDispatcher": Loader,
}


class StandIn(types.ModuleType):
    """A module of Accelerate's whose names are those of accelify."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        qualified = f"{self.__name__}.{name}"
        found = counterpart(qualified)
        if qualified in BESIDE_THE_TABLE:
            value = BESIDE_THE_TABLE[qualified]
        elif found is None or found.becomes is None:
            value = Absent(qualified, found.how if found is not None else "is not public")
        else:
            module, _, last = found.becomes.rpartition(".")
            value = getattr(importlib.import_module(module), last)
        setattr(self, name, value)
        return value


class Finder:
    """Finds a stand-in for every module of Accelerate's but its tests."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """That of a stand-in; the tests are found as they lie."""
        if name.split(".")[0] != "accelerate" or name.startswith("accelerate.test_utils"):
            return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]  # has what a loader needs

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """An empty stand-in."""
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """For the tests, the package is where it is installed."""
        package = PathFinder.find_spec("accelerate") if module.__name__ == "accelerate" else None
        module.__path__ = list(package.submodule_search_locations or ()) if package is not None else []


def install(*, skips: bool) -> None:
    """From now on, `accelerate` is accelify in this process; `skips`: whether tests say themselves what they need."""
    import torch

    sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]  # has what a finder needs
    for name in () if skips else NOT_NEEDED:
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = StandIn("accelerate.utils")
    state = importlib.import_module("accelify.runtime.state")
    for kind in (state.PartialState, state.AcceleratorState, state.GradientState):
        kind._reset_state = lambda *_: None
    state.PartialState.debug = True  # what is compared under it is always compared here
    desync = importlib.import_module("accelify.runtime.world.desync")
    BESIDE_THE_TABLE["accelerate.utils.operations.DistributedOperationException"] = desync.Desync
    runtime: Any = importlib.import_module("accelify.runtime")
    runtime.Accelerator.dataloader_config = None  # tests set it, for loaders that have a state
    schedulers: Any = torch.optim.lr_scheduler
    schedulers.LRScheduler.scheduler = property(lambda self: self)
    logging.getLogger("accelerate.accelerator")  # a test asks for the logger by its name
