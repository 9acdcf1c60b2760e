"""Choose how a loader is sharded, and shard it by its batches: batch k of rank r is batch `k * N + r` of one process.

With `split_batches` it is the r-th slice of batch k instead; a batch that N does not divide gives the first ranks one
row more, and one with fewer rows than ranks lends a row, with no weight, to those that would have none.

The user's loader, sampler and batch sampler are kept and read, never rebuilt: every rank draws the epoch's
indices from one random stream (rank 0's), and fetches its own. What cannot be divided by its indices (an iterable
dataset, one that reads on from an open file whatever the index, a loader with an `__iter__` of its own, a loader of
another library) is divided by its batches: every rank runs it and keeps every N-th.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any  # batches are whatever the user's loader yields

import torch
from torch.utils.data import DataLoader, IterableDataset, Subset

from accelify.errors import AccelifyError
from accelify.runtime.data.index_sharding import AlreadySharded, ByIndex, is_sharding_sampler
from accelify.runtime.data.one_process import OneProcess
from accelify.runtime.data.passes import NO_LENGTH, Epoch, Step, epoch_of
from accelify.runtime.data.resume import PassStart, Source, is_torch_loader, iterates_itself, owners_of, samplers_of
from accelify.runtime.data.sharding import Sharding, separate_batches, shard_items, slices, taker
from accelify.runtime.data.streams import SharedRandom, Streams, draw_items
from accelify.runtime.world import tensors


def choose_source(loader: Any, sharding: Sharding, streams: Streams, *, keeps_batches: bool = False) -> Source:
    """The way to divide this loader, and why: by indices where they decide everything, else by batches.

    keeps_batches: whether the batches must be those of one process, which shards of a dataset have no knowledge of.
    """
    if sharding.size == 1:
        return OneProcess(loader, streams)
    if sharding.dispatches and not keeps_batches:
        return Dispatched(loader, sharding, streams)
    if not is_torch_loader(loader):
        return ByBatch(loader, sharding, streams)
    for sampler in samplers_of(loader):
        if is_sharding_sampler(sampler, sharding):
            return AlreadySharded(loader, sampler, sharding, streams)
    cannot_index = sharding.split_batches and (loader.batch_sampler is None)
    is_iterable = isinstance(loader.dataset, IterableDataset)
    if (
        is_iterable
        and not (sharding.split_batches or keeps_batches)
        and can_shard_itself(loader.dataset, sharding.size)
    ):
        return ByDataset(loader, sharding, streams)
    if is_iterable or iterates_itself(loader) or cannot_index or reads_on(loader.dataset):
        return ByBatch(loader, sharding, streams)
    return ByIndex(loader, sharding, streams)


def reads_on(dataset: Any) -> bool:
    """Whether it ignores which element is asked for, and gives the next one of an open file or iterator it holds.

    Such a one cannot be divided by its indices: each rank would get the same first elements.
    """
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    code = getattr(getattr(type(dataset), "__getitem__", None), "__code__", None)
    if code is None or code.co_argcount != 2 or _is_read(code, code.co_varnames[1]):
        return False
    methods = [getattr(getattr(type(dataset), name, None), "__code__", None) for name in code.co_names]
    names = {name for each in (code, *methods) if each is not None for name in each.co_names}
    return any(hasattr(getattr(dataset, "__dict__", {}).get(name), "__next__") for name in names)


def _is_read(code: CodeType, name: str) -> bool:
    """Whether a function reads this argument of its own; some instructions of newer versions read two at once."""
    import dis

    loads = (one.argval for one in dis.get_instructions(code) if "LOAD_FAST" in one.opname)
    return name in code.co_cellvars or any(name == one or (isinstance(one, tuple) and name in one) for one in loads)


def in_order(loader: Any, sharding: Sharding) -> Any:
    """The loader, or among several ranks a copy that waits for each batch in its turn (`in_order=False` does not).

    Which batch is which rank's, and how many rows it has, follows from the order alone.
    """
    if sharding.size == 1 or not is_torch_loader(loader) or getattr(loader, "in_order", True):
        return loader
    patient: DataLoader[Any] = copy(loader)
    vars(patient).update(in_order=True, _iterator=None)
    return patient


class ByBatch:
    """Every N-th batch of anything that yields batches; with `split_batches`, a slice of each."""

    def __init__(self, loader: Any, sharding: Sharding, streams: Streams) -> None:
        self._loader = loader
        self._sharding = sharding
        self._streams = streams
        self.per_step = sharding.batches_per_step
        self.seeded: torch.Tensor | None = None

    def begin(self, start: PassStart) -> Epoch:
        """A pass over the loader, of which this rank keeps its shard."""
        loader = self._loader
        shared = SharedRandom(self._streams, owners_of(loader), start.before)
        start.before = shared.before
        with shared.drawing():
            batches = iter(loader)
        # With workers the draws are theirs, from a seed that is shared now.
        if not getattr(loader, "num_workers", 0):
            batches = draw_items(batches, shared, by_all=True)
        if self._sharding.split_batches:
            return epoch_of(slices(itertools.islice(batches, start.position, None), self._sharding))
        if not getattr(loader, "num_workers", 0):
            batches = separate_batches(batches, self._sharding.size, self._is_own(start.position))
        return epoch_of(
            shard_items(
                taker(batches),
                self._sharding,
                tensors.rows,
                start=start.position,
                drops_last=self._sharding.drops_last(self._loader),
            )
        )

    def _is_own(self, position: int) -> Callable[[int], bool]:
        """Whether a batch of this number is this rank's, in a pass from the position on."""
        rank, size = self._sharding.rank, self._sharding.size
        return lambda number: number >= position and (number - position) % size == rank

    def count(self, position: int = 0) -> int:
        """How many batches this rank gets from there on."""
        left = max(len(self._loader) - position, 0)
        return self._sharding.count(left, drops_last=self._sharding.drops_last(self._loader))


class CannotRead(AccelifyError):
    """A batch that process 0 could not read for the others."""


@dataclass(frozen=True, slots=True)
class _Failure:
    words: str


class Dispatched:
    """The batches that process 0 reads and scatters: each process gets its own, and no other.

    Every step is a message, so all processes must take equally many.
    """

    def __init__(self, loader: Any, sharding: Sharding, streams: Streams) -> None:
        self._loader = loader
        self._sharding = sharding
        self._streams = streams
        self.per_step = sharding.batches_per_step
        self.seeded = None

    def begin(self, start: PassStart) -> Epoch:
        """A pass of the loader in process 0."""
        shared = SharedRandom(self._streams, owners_of(self._loader), start.before)
        start.before = shared.before
        # The others draw nothing: where the ranks' own streams are in step, they stay so.
        shared.diverge()
        return epoch_of(self._received(start.position, shared))

    def _received(self, position: int, shared: SharedRandom) -> Iterator[tuple[Any, Step]]:
        rounds = self._rounds(position, shared) if self._sharding.rank == 0 else iter(())
        while True:
            items, error = _next(rounds)
            instead = None if error is None else _Failure(f"{type(error).__name__}: {error}")
            mine = self._streams.collectives.scatter_object(items or [instead] * self._sharding.size)
            if error is not None:
                raise error
            if isinstance(mine, _Failure):
                raise CannotRead(f"process 0 could not read the next batch: {mine.words}")
            if mine is None:
                return
            yield mine

    def _rounds(self, position: int, shared: SharedRandom) -> Iterator[list[tuple[Any, Step]]]:
        """The batches of all ranks in each step; the first `position` batches are left out."""
        with shared.drawing():
            batches = iter(self._loader)
        if not getattr(self._loader, "num_workers", 0):
            batches = draw_items(batches, shared, by_all=False)
            batches = separate_batches(batches, self._sharding.size, lambda number: True)
        # Sharded once for every rank: what each takes is there before the next asks for it.
        copies = itertools.tee(batches, self._sharding.size)
        return map(list, zip(*(self._shard_of(rank, own, position) for rank, own in enumerate(copies)), strict=True))

    def _shard_of(self, rank: int, batches: Iterator[Any], position: int) -> Iterator[tuple[Any, Step]]:
        own = replace(self._sharding, rank=rank)
        if own.split_batches:
            return slices(itertools.islice(batches, position, None), own)
        drops_last = own.drops_last(self._loader)
        return shard_items(taker(batches), own, tensors.rows, start=position, drops_last=drops_last)

    def count(self, position: int = 0) -> int:
        """How many batches this rank gets from there on."""
        left = max(len(self._loader) - position, 0)
        return self._sharding.count(left, drops_last=self._sharding.drops_last(self._loader))


def _next(rounds: Iterator[list[Any]]) -> tuple[list[Any] | None, Exception | None]:
    try:
        return next(rounds, None), None
    except Exception as error:  # whatever it is, the other ranks wait for it
        return None, error


def can_shard_itself(dataset: Any, size: int) -> bool:
    """Whether the dataset has `shard(num_shards=, index=)`, and makes as many equal shards as there are ranks.

    One that says how many it has, as `num_shards`, must have a multiple of the ranks: else some would have more to do.
    """
    shard = getattr(dataset, "shard", None)
    if not callable(shard):
        return False
    try:
        inspect.signature(shard).bind(num_shards=size, index=0)
    except (TypeError, ValueError):
        return False
    count = getattr(dataset, "num_shards", size)
    return isinstance(count, int) and count % size == 0


class ByDataset:
    """The batches of the shard that the dataset makes for this rank; it shards among workers itself.

    The shards may differ in length: before each step the ranks gather how many rows each has. One that
    has no more gets its first batch again, which does not count.
    """

    def __init__(self, loader: DataLoader[Any], sharding: Sharding, streams: Streams) -> None:
        self._loader = loader
        self._sharding = sharding
        self._streams = streams
        self.per_step = sharding.size
        self.seeded: torch.Tensor | None = None
        self._batch_count: int = max(streams.collectives.gather_object(_batch_count(self._shard())))

    def _shard(self) -> DataLoader[Any]:
        inner: DataLoader[Any] = copy(self._loader)
        dataset: Any = self._loader.dataset
        shard = dataset.shard(num_shards=self._sharding.size, index=self._sharding.rank)
        # Datasets of Hugging Face do not copy it.
        if isinstance(epoch := getattr(dataset, "epoch", None), int) and hasattr(shard, "set_epoch"):
            shard.set_epoch(epoch)
        vars(inner).update(dataset=shard, _iterator=None)
        return inner

    def begin(self, start: PassStart) -> Epoch:
        """A pass of this rank's shard."""
        shared = SharedRandom(self._streams, owners_of(self._loader), start.before)
        start.before = shared.before
        # Sharded in each pass: what was set on the dataset since, such as its epoch, goes into the shard.
        with shared.drawing():
            batches: Iterator[Any] = iter(self._shard())
        if not self._loader.num_workers:
            batches = _first_shared(batches, shared)
        rest = itertools.islice(batches, start.position // self.per_step, None)
        return epoch_of(self._even(rest)) if self._sharding.even_batches else Epoch(rest)

    def _even(self, batches: Iterator[Any]) -> Iterator[tuple[Any, Step]]:
        first: Any = None
        for batch in itertools.chain(batches, itertools.repeat(None)):
            mine = 0 if batch is None else tensors.rows(batch) or 1
            valid = self._streams.collectives.counts(mine)
            if not any(valid):
                return
            if first is None and 0 in valid:
                raise EmptyShard(
                    f"the dataset gave rank {valid.index(0)} an empty shard: it needs data for each process"
                )
            first = batch if first is None else first
            kept = first if batch is None else batch
            rows = self._streams.collectives.counts(tensors.rows(kept) or 1) if 0 in valid else valid
            yield kept, Step(rows=tuple(rows), valid=tuple(valid))

    def count(self, position: int = 0) -> int:
        """The batches of the longest shard. Raises: TypeError for shards without a length."""
        if self._batch_count < 0:
            raise TypeError("a dataset that shards itself and has no length")
        return max(self._batch_count - position // self.per_step, 0)


def _first_shared(batches: Iterator[Any], shared: SharedRandom) -> Iterator[Any]:
    """The batches, the first of which is made from the shared stream: a dataset may draw its order there."""
    with shared.drawing():
        first = list(itertools.islice(batches, 1))
    yield from itertools.chain(first, batches)


class EmptyShard(AccelifyError):
    """A rank without any data. The same on every rank."""


def _batch_count(loader: DataLoader[Any]) -> int:
    """The number of batches; -1 where that is not known."""
    try:
        return len(loader)
    except NO_LENGTH:
        return -1
