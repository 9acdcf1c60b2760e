"""`prepare` and `shard` for loaders, sequences and iterables: this rank's shard of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any  # loaders hold whatever they hold

import numpy
import torch
from torch.utils.data import Dataset

from accelify.errors import AccelifyError
from accelify.runtime.data import sequences
from accelify.runtime.data.loader import STAND_INS, is_loader, is_prepared, original_of, prepare_loader
from accelify.runtime.data.passes import LoaderPasses
from accelify.runtime.data.resume import is_torch_loader
from accelify.runtime.data.sequences import IterableShard, SequenceShard
from accelify.runtime.data.sharding import Sharding
from accelify.runtime.data.sources import choose_source, in_order
from accelify.runtime.held import Held
from accelify.runtime.world import tensors
from accelify.runtime.world.process_group import World

# Units: levels of attributes below a loader in which others are looked for, and elements of a list among these
DEPTH, WIDTH = 3, 16
_DATA = (torch.Tensor, numpy.ndarray, numpy.number, int, float, str)


class ShardedTwice(AccelifyError):
    """A loader over batches or elements that are sharded already."""


class CannotPrepare(AccelifyError, TypeError):
    """No model, optimizer, scheduler or loader: passed through, the object would be the same on all processes."""


def cannot_prepare(given: Any, *, is_inside: bool) -> str | None:
    """Why this cannot be prepared, and what to give instead; None for None and containers, whose contents are prepared.

    is_inside: whether it is in such a container, where settings beside loaders do no harm.
    """
    kind = f"a {type(given).__name__}"
    if hasattr(given, "__next__"):
        return (
            f"{kind} is used up by one pass, and each process would take all of it. Prepare the DataLoader below it, "
            "or put accelerator.shard(...) round it in the loop"
        )
    # A schedule of the script's own is stepped beside the optimizers, and has no state that could differ between ranks.
    if given is None or is_inside or callable(getattr(given, "step", None)):
        return None
    if type(given) in (list, tuple, dict):
        if len(given) <= tensors.SHORT and not _are_data(given):
            return None
        return f"{kind} of {len(given)} elements is no loader. Loop over accelerator.shard(...) of it"
    if isinstance(given, (str, bytes)):
        return f"the text {given!r:.60} names nothing here. Give the model, optimizer or loader itself"
    if isinstance(given, torch.Tensor):
        return "a tensor stays as it is. Move it by .to(accelerator.device), or take accelerator.shard(...) of its rows"
    if isinstance(given, Dataset):
        return f"{kind} is a dataset. Prepare a DataLoader of it"
    if hasattr(given, "__iter__") or hasattr(given, "__getitem__"):
        return f"{kind} is no DataLoader. Loop over accelerator.shard(...) of it"
    return f"{kind} is neither model, optimizer, scheduler nor loader. Leave it out"


def cannot_ask(given: Any, error: Exception) -> str:
    """Why this cannot be prepared, when asking it for an attribute raised this error."""
    return (
        f"a {type(given).__name__} raises {type(error).__name__} for an attribute that it does not have, where Python "
        "expects AttributeError. Give what it holds instead: its models, optimizers and loaders one by one"
    )


def _are_data(given: Any) -> bool:
    """Whether a container holds tensors or arrays beside numbers and texts alone, as a list of batches does."""
    leaves = list(_leaves(given))
    arrays = [leaf for leaf in leaves if isinstance(leaf, (torch.Tensor, numpy.ndarray))]
    is_weight = any(isinstance(each, torch.Tensor) and each.requires_grad for each in arrays)
    return bool(arrays) and not is_weight and all(isinstance(leaf, _DATA) for leaf in leaves)


def _leaves(given: Any) -> Iterator[Any]:
    if type(given) not in (list, tuple, dict):
        yield given
        return
    for each in given.values() if isinstance(given, dict) else given:
        yield from _leaves(each)


def is_plain(given: Any) -> bool:
    """Whether this is a value that holds neither data nor weights, as a variable may on some path to `prepare`."""
    return isinstance(given, (str, bytes, os.PathLike, int, float, torch.device, torch.dtype))


class DataPreparation:
    """The loaders that were prepared, and how all of them are sharded.

    `sharding` is one object for all loaders: what is changed there holds for their next passes.
    """

    def __init__(self, *, world: World, sharding: Sharding, passes: LoaderPasses) -> None:
        self.loaders: Held[Any] = Held()
        self.sharding = sharding
        self.passes = passes
        self._world = world
        self._evaluation_shards: dict[int, tuple[Any, Any]] = {}

    def prepare(self, loader: Any, device: torch.device | None) -> Any:
        """A loader of this rank's batches, on the device if one is given; its attributes are the given loader's."""
        # One that another accelerator prepared is sharded by this one's settings.
        given = loader if is_prepared(loader, self.passes) else original_of(loader)
        if self._world.size > 1 and is_sharded(given):
            return given
        loader = in_order(given, self.sharding)
        prepared = prepare_loader(
            loader, choose_source(loader, self.sharding, self.passes.streams), self.passes, device
        )
        self.loaders.add_loosely(prepared)
        return prepared

    def shard(self, elements: Any, *, is_even: bool) -> Any:
        """This rank's shard; an uneven one of a loader has batches of one process, each of which no other rank has."""
        if self._world.size == 1:
            return elements
        if not is_even:
            self.passes.streams.meet("a shard to evaluate")
        if not is_loader(elements):
            return self._sequence(elements, is_even=is_even)
        if is_sharded(elements, anew=not is_even):
            return elements
        if is_even:
            return self._sequence(elements, is_even=True)
        # With the loader itself: its number stands for it as long as it is there.
        if id(elements) not in self._evaluation_shards:
            shard = self._evaluation_shard(elements)
            if not getattr(elements, "persistent_workers", False):
                return shard
            self._evaluation_shards[id(elements)] = elements, shard
        return self._evaluation_shards[id(elements)][1]

    def _sequence(self, elements: Any, *, is_even: bool) -> Any:
        return sequences.shard(elements, self._world.rank, self._world.size, self.passes, is_even)

    def _evaluation_shard(self, loader: Any) -> Any:
        """A loader of this rank's batches, each of which no other rank has; on the device that the given one uses."""
        own = vars(loader) if is_prepared(loader) else {"_loader": in_order(loader, self.sharding), "_device": None}
        uneven = replace(self.sharding, split_batches=False, even_batches=False)
        source = choose_source(own["_loader"], uneven, self.passes.streams, keeps_batches=True)
        return prepare_loader(own["_loader"], source, self.passes, own["_device"])

    @contextmanager
    def evened(self, even_batches: bool | None) -> Iterator[None]:
        """Let the passes inside be evened out or not; None changes nothing."""
        before = self.sharding.even_batches
        self.sharding.even_batches = before if even_batches is None else even_batches
        try:
            yield
        finally:
            self.sharding.even_batches = before

    def forget(self) -> None:
        """Let go of every loader."""
        self.loaders.clear()
        self._evaluation_shards.clear()


def is_sharded(loader: Any, *, anew: bool = False) -> bool:
    """Whether this iterates over batches that are sharded already, as a wrapper of a prepared loader does.

    anew: whether it is to be sharded in another way, which a prepared loader itself can be.
    Raises: ShardedTwice for a DataLoader over sharded data, whose batches are new ones, and for what cannot be anew.
    """
    if anew and is_prepared(loader):
        return False
    if is_torch_loader(loader) and not isinstance(loader, STAND_INS):
        parts: list[Any] = [loader.dataset, loader.sampler, loader.batch_sampler]
        inner = next((found for part in parts for found in _search(part, DEPTH)), None)
        if inner is not None:
            raise ShardedTwice(
                f"prepare: a DataLoader over a {type(inner).__name__}, which each process has a shard of already. "
                "Use it without preparing it, or prepare it alone"
            )
    found = next(_search(loader, DEPTH), None)
    if anew and found is not None:
        raise ShardedTwice(f"shard: a {type(loader).__name__} over a loader that is prepared. Shard that loader itself")
    return found is not None


def _search(value: Any, depth: int) -> Iterator[object]:
    if issubclass(type(value), (*STAND_INS, SequenceShard, IterableShard)):  # some objects' `__class__` raises
        yield value
    elif depth:
        for part in _held(value):
            yield from _search(part, depth - 1)


def _held(value: Any) -> list[Any]:
    """The elements of an iterable or a container; of any other object it is not known what it is for."""
    if isinstance(value, (list, tuple)):
        return list(value[:WIDTH])
    if isinstance(value, dict):
        return list(value.values())[:WIDTH]
    is_gone_over = hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__")
    return list(vars(value).values()) if is_gone_over and hasattr(value, "__dict__") else []
