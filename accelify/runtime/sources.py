"""Give each rank its share of one epoch: batch k of rank r is batch `k * N + r` of the single-process run.

With `split_batches` it is the r-th slice of batch k instead; a batch that N does not divide gives the first ranks one
row more, and one with fewer rows than ranks lends a row, with no weight, to those that would have none.

The user's loader, sampler and batch sampler are kept and read, never rebuilt: every rank draws the whole epoch's
indices from one random stream (rank 0's), and fetches its own. What cannot be divided by its indices (an iterable
dataset, a loader with an `__iter__` of its own, a loader of another library) is divided by its batches: every rank
runs it and keeps every N-th.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sized
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol  # batches, indices and attributes are whatever the user's loader has

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from accelify.runtime import nested
from accelify.runtime.collectives import Alone
from accelify.runtime.dealing import Sharing, dealt, slices, split_indices
from accelify.runtime.passage import Step
from accelify.runtime.randomness import SharedRandom, States, WorkerStart, states_of

# Samplers of torch draw once, before their first index; any other may draw at any time.
_DRAW_FIRST = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


@dataclass
class Bookmark:
    """Where a pass begins: after so many batches of one process, with the random state from before the whole epoch.

    A pass that has none takes the state it finds, and writes it here.
    """

    position: int = 0
    before: States | None = None


class Source(Protocol):
    """Where a prepared loader's batches come from."""

    per_step: int

    def begin(self, start: Bookmark) -> Iterator[tuple[Any, Step | None]]:
        """One epoch from the bookmark on: this rank's batches, each with the truth about its step."""

    def count(self, position: int = 0) -> int:
        """How many batches this rank gets from there on. Raises: TypeError where that is not known."""


class Whole:
    """All batches, for one process."""

    per_step = 1

    def __init__(self, loader: Any, collectives: Alone) -> None:
        self._loader = loader
        self._collectives = collectives

    def begin(self, start: Bookmark) -> Iterator[tuple[Any, Step | None]]:
        """The loader's own pass, or the rest of one."""
        if start.before is None:
            start.before = states_of(_owners(self._loader))
            batches = _after(self._loader, start.position)
        else:
            with SharedRandom(self._collectives, _owners(self._loader), start.before).drawing():
                batches = _after(self._loader, start.position)
        return ((batch, None) for batch in batches)

    def count(self, position: int = 0) -> int:
        """All that the loader has from there on."""
        return max(len(self._loader) - position, 0)


class AlreadyShared:
    """The batches of a loader whose DistributedSampler divides the dataset already."""

    def __init__(self, loader: DataLoader[Any], sampler: DistributedSampler[Any], sharing: Sharing) -> None:
        self._loader = loader
        self._sampler = sampler
        self._sharing = sharing
        self.per_step = sharing.size

    def begin(self, start: Bookmark) -> Iterator[tuple[Any, Step | None]]:
        """This rank's own pass: the sampler's order follows from the epoch it was told."""
        start.before = start.before or states_of(())
        count = start.position // self.per_step
        return self._counted(_after(self._loader, count), count)

    def _counted(self, batches: Iterator[Any], skipped: int) -> Iterator[tuple[Any, Step | None]]:
        # The sampler deals single elements: the i-th of rank r is number i * N + r; from the dataset's length on they
        # are repetitions.
        size, length = self._sharing.size, len(self._sampler.dataset)  # type: ignore[arg-type]  # it has a length
        total = self._sampler.total_size
        batch_size = self._loader.batch_size
        start = skipped * (batch_size or 1)
        for batch in batches:
            if batch_size is None:
                yield batch, None
                continue
            stop = min(start + batch_size, len(self._sampler))
            rows = (stop - start,) * size
            owned = [sum(i * size + rank < min(length, total) for i in range(start, stop)) for rank in range(size)]
            yield batch, Step(rows=rows, valid=tuple(owned))
            start = stop

    def count(self, position: int = 0) -> int:
        """The batches of the sampler's own share."""
        return max(len(self._loader) - position // self.per_step, 0)


class ByIndex:
    """This rank's batches of a map-style dataset: the indices are dealt out, each rank fetches its own."""

    def __init__(self, loader: DataLoader[Any], sharing: Sharing, collectives: Alone) -> None:
        self._loader = loader
        self._sharing = sharing
        self._collectives = collectives
        self._kept: tuple[DataLoader[Any], _Deal] | None = None
        self.per_step = sharing.batches_per_step

    def begin(self, start: Bookmark) -> Iterator[tuple[Any, Step | None]]:
        """A pass whose order all ranks draw alike."""
        inner, deal = self._inner()
        owners = samplers_of(self._loader)
        draws = start.before or any(type(owner) not in (SequentialSampler, BatchSampler) for owner in owners)
        private = [*owners, self._loader.generator]
        shared = SharedRandom(self._collectives, private, start.before) if draws else None
        start.before = shared.before if shared else states_of(private)
        deal.random, deal.start = shared, start.position
        inner.worker_init_fn = self._worker_start(shared)
        with shared.drawing() if shared else nullcontext():
            batches = iter(inner)
            deal.draw_first()
        if all(type(owner) in (*_DRAW_FIRST, BatchSampler) for owner in owners):
            deal.random = None
        elif shared:
            shared.part()
        return _with_steps(batches, deal.steps)

    def _worker_start(self, shared: SharedRandom | None) -> Any:
        """What workers do at their start: where this rank draws by itself (`seed_by_rank`), so do they."""
        own = self._loader.worker_init_fn
        return own if shared is None or shared.is_in_step else WorkerStart(own, self._sharing.rank)

    def _inner(self) -> tuple[DataLoader[Any], _Deal]:
        """The user's loader with its indices dealt: a shallow copy, so that later changes of theirs count."""
        if self._kept is not None:
            return self._kept
        inner: DataLoader[Any] = copy(self._loader)
        name = "sampler" if self._loader.batch_sampler is None else "batch_sampler"
        deal = _Deal(getattr(self._loader, name), self._sharing, _fixed_size(self._loader))
        # DataLoader refuses a new sampler by assignment; a copy of ours may have one.
        vars(inner).update({name: deal, "_iterator": None})
        if self._loader.persistent_workers:
            self._kept = inner, deal
        return inner, deal

    def count(self, position: int = 0) -> int:
        """This rank's share of the batches from there on."""
        sampler = self._loader.sampler if self._loader.batch_sampler is None else self._loader.batch_sampler
        return self._sharing.count(max(len(sampler) - position, 0))  # type: ignore[arg-type]  # TypeError if unknown


class ByBatch:
    """Every N-th batch of anything that yields batches; with `split_batches`, a slice of each."""

    def __init__(self, loader: Any, sharing: Sharing, collectives: Alone) -> None:
        self._loader = loader
        self._sharing = sharing
        self._collectives = collectives
        self.per_step = sharing.batches_per_step

    def begin(self, start: Bookmark) -> Iterator[tuple[Any, Step | None]]:
        """A pass of the whole loader, of which this rank keeps its share."""
        loader = self._loader
        shared = SharedRandom(self._collectives, _owners(loader), start.before)
        start.before = shared.before
        with shared.drawing():
            batches = iter(loader)
        # With workers the draws are theirs, from a seed that is shared now.
        if not getattr(loader, "num_workers", 0):
            batches = _drawn(batches, shared)
        if self._sharing.split_batches:
            return slices(itertools.islice(batches, start.position, None), self._sharing)
        return dealt(batches, self._sharing, nested.rows, None, start.position)

    def count(self, position: int = 0) -> int:
        """This rank's share of the batches from there on."""
        return self._sharing.count(max(len(self._loader) - position, 0))


class _Deal:
    """What takes the sampler's place in the copied loader: this rank's part of what the sampler yields."""

    def __init__(self, sampler: Iterable[Any], sharing: Sharing, batch_size: int | None) -> None:
        self.steps: deque[Step] = deque()
        self.random: SharedRandom | None = None
        self.start = 0
        self._sampler = sampler
        self._sharing = sharing
        self._batch_size = batch_size
        self._first: list[tuple[Any, Step]] | None = None
        self._rest: Iterator[tuple[Any, Step]] = iter(())

    def __iter__(self) -> Iterator[Any]:
        self.steps.clear()
        drawn = self._draw(iter(self._sampler))
        if self._batch_size is None or not self._sharing.split_batches:
            self._rest = dealt(drawn, self._sharing, self._size, self._batch_size, self.start)
        else:
            self._rest = split_indices(itertools.islice(drawn, self.start, None), self._sharing)
        self._first = None
        return self._parts()

    def __len__(self) -> int:
        return self._sharing.count(len(self._sampler))  # type: ignore[arg-type]  # one without a length raises TypeError

    def _size(self, indices: Any) -> int | None:
        return len(indices) if isinstance(indices, Sized) and not isinstance(indices, str) else None

    def _draw(self, indices: Iterator[Any]) -> Iterator[Any]:
        while True:
            with self.random.drawing() if self.random else nullcontext():
                try:
                    index = next(indices)
                except StopIteration:
                    return
            yield index

    def draw_first(self) -> None:
        """Have the sampler draw its permutation now, as it would when a plain loader asks for its first batch."""
        if self._first is None:
            self._first = list(itertools.islice(self._rest, 1))

    def _parts(self) -> Iterator[Any]:
        self.draw_first()
        for part, step in itertools.chain(self._first or (), self._rest):
            self.steps.append(step)
            yield part


class _Rest:
    """What takes the sampler's place for the rest of a pass: what it yields after the first so many."""

    def __init__(self, sampler: Any, count: int) -> None:
        self._sampler = sampler
        self._count = count
        self._drawn: Iterator[Any] = iter(())
        self._is_begun = False

    def __iter__(self) -> Iterator[Any]:
        self._drawn, self._is_begun = iter(self._sampler), False
        return self._items()

    def begin(self) -> None:
        """Have the sampler draw what is left out, now: the random state is the epoch's only now."""
        if not self._is_begun:
            self._is_begun = True
            _drop(self._drawn, self._count)

    def _items(self) -> Iterator[Any]:
        self.begin()
        yield from self._drawn

    def __len__(self) -> int:
        return max(len(self._sampler) - self._count, 0)


def _after(loader: Any, count: int) -> Iterator[Any]:
    """A pass of the loader without its first batches; they are not even fetched where indices decide."""
    if not count:
        return iter(loader)
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset) or _iterates_itself(loader):
        everything: Iterator[Any] = iter(loader)
        _drop(everything, count)
        return everything
    inner: DataLoader[Any] = copy(loader)
    name = "sampler" if loader.batch_sampler is None else "batch_sampler"
    rest = _Rest(getattr(loader, name), count)
    vars(inner).update({name: rest, "_iterator": None})
    batches = iter(inner)
    rest.begin()
    return batches


def _drop(items: Iterator[Any], count: int) -> None:
    for _ in itertools.islice(items, count):
        pass


def _iterates_itself(loader: DataLoader[Any]) -> bool:
    return type(loader).__iter__ is not DataLoader.__iter__


def _drawn(batches: Iterator[Any], shared: SharedRandom) -> Iterator[Any]:
    shared.part()
    while True:
        with shared.drawing():
            try:
                batch = next(batches)
            except StopIteration:
                return
        yield batch


def _with_steps(batches: Iterator[Any], steps: deque[Step]) -> Iterator[tuple[Any, Step | None]]:
    # Workers are given indices ahead of time; the steps wait in order.
    for batch in batches:
        yield batch, steps.popleft()


def samplers_of(loader: DataLoader[Any]) -> list[object]:
    """The samplers that decide the order, from the outside in."""
    if loader.batch_sampler is None:
        return [loader.sampler]
    inner = getattr(loader.batch_sampler, "sampler", None)
    return [loader.batch_sampler] if inner is None else [loader.batch_sampler, inner]


def _owners(loader: Any) -> list[object]:
    """What may hold private generators that decide the order."""
    if not isinstance(loader, DataLoader):
        return [loader]
    return [*samplers_of(loader), loader.generator, loader.dataset]


def _fixed_size(loader: DataLoader[Any]) -> int | None:
    """The batch size where all batches but the last have it."""
    sampler = loader.batch_sampler
    return sampler.batch_size if type(sampler) is BatchSampler else None


def choose_source(loader: Any, sharing: Sharing, collectives: Alone) -> Source:
    """The way to divide this loader, and why: by indices where they decide everything, else by batches."""
    if sharing.size == 1:
        return Whole(loader, collectives)
    if not isinstance(loader, DataLoader):
        return ByBatch(loader, sharing, collectives)
    for sampler in samplers_of(loader):
        if isinstance(sampler, DistributedSampler) and sampler.num_replicas == sharing.size:
            return AlreadyShared(loader, sampler, sharing)
    cannot_index = sharing.split_batches and (loader.batch_sampler is None)
    if isinstance(loader.dataset, IterableDataset) or _iterates_itself(loader) or cannot_index:
        return ByBatch(loader, sharing, collectives)
    return ByIndex(loader, sharing, collectives)
