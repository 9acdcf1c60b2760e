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
from typing import Any, Protocol  # batches, indices and attributes are whatever the user's loader has

import torch
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
from accelify.runtime.passage import Passages, Step
from accelify.runtime.randomness import SharedRandom, WorkerStart

# Samplers of torch draw once, before their first index; any other may draw at any time.
_DRAW_FIRST = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


class Source(Protocol):
    """Where a prepared loader's batches come from."""

    def __iter__(self) -> Iterator[tuple[Any, Step | None]]:
        """One epoch: this rank's batches, each with the truth about its step."""

    def __len__(self) -> int:
        """How many batches this rank gets."""


class Whole:
    """All batches, for one process."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[tuple[Any, Step | None]]:
        return ((batch, None) for batch in iter(self._loader))

    def __len__(self) -> int:
        return len(self._loader)


class AlreadyShared:
    """The batches of a loader whose DistributedSampler divides the dataset already."""

    def __init__(self, loader: DataLoader[Any], sampler: DistributedSampler[Any], sharing: Sharing) -> None:
        self._loader = loader
        self._sampler = sampler
        self._sharing = sharing

    def __iter__(self) -> Iterator[tuple[Any, Step | None]]:
        return self._counted(iter(self._loader))

    def _counted(self, batches: Iterator[Any]) -> Iterator[tuple[Any, Step | None]]:
        # The sampler deals single elements: the i-th of rank r is number i * N + r; from the dataset's length on they
        # are repetitions.
        size, length = self._sharing.size, len(self._sampler.dataset)  # type: ignore[arg-type]  # it has a length
        total = self._sampler.total_size
        batch_size, start = self._loader.batch_size, 0
        for batch in batches:
            if batch_size is None:
                yield batch, None
                continue
            stop = min(start + batch_size, len(self._sampler))
            rows = (stop - start,) * size
            owned = [sum(i * size + rank < min(length, total) for i in range(start, stop)) for rank in range(size)]
            yield batch, Step(rows=rows, valid=tuple(owned))
            start = stop

    def __len__(self) -> int:
        return len(self._loader)


class ByIndex:
    """This rank's batches of a map-style dataset: the indices are dealt out, each rank fetches its own."""

    def __init__(self, loader: DataLoader[Any], sharing: Sharing, collectives: Alone) -> None:
        self._loader = loader
        self._sharing = sharing
        self._collectives = collectives
        self._kept: tuple[DataLoader[Any], _Deal] | None = None

    def __iter__(self) -> Iterator[tuple[Any, Step | None]]:
        inner, deal = self._inner()
        owners = _samplers(self._loader)
        draws = any(type(owner) not in (SequentialSampler, BatchSampler) for owner in owners)
        shared = SharedRandom(self._collectives, [*owners, self._loader.generator]) if draws else None
        deal.random = shared
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

    def __len__(self) -> int:
        sampler = self._loader.sampler if self._loader.batch_sampler is None else self._loader.batch_sampler
        return self._sharing.count(len(sampler))  # type: ignore[arg-type]  # one without a length raises TypeError


class ByBatch:
    """Every N-th batch of anything that yields batches; with `split_batches`, a slice of each."""

    def __init__(self, loader: Any, sharing: Sharing, collectives: Alone) -> None:
        self._loader = loader
        self._sharing = sharing
        self._collectives = collectives

    def __iter__(self) -> Iterator[tuple[Any, Step | None]]:
        loader = self._loader
        shared = SharedRandom(self._collectives, [loader, getattr(loader, "dataset", None)])
        with shared.drawing():
            batches = iter(loader)
        # With workers the draws are theirs, from a seed that is shared now.
        if not getattr(loader, "num_workers", 0):
            batches = _drawn(batches, shared)
        if self._sharing.split_batches:
            return slices(batches, self._sharing)
        return dealt(batches, self._sharing, nested.rows, None)

    def __len__(self) -> int:
        return self._sharing.count(len(self._loader))


class _Deal:
    """What takes the sampler's place in the copied loader: this rank's part of what the sampler yields."""

    def __init__(self, sampler: Iterable[Any], sharing: Sharing, batch_size: int | None) -> None:
        self.steps: deque[Step] = deque()
        self.random: SharedRandom | None = None
        self._sampler = sampler
        self._sharing = sharing
        self._batch_size = batch_size
        self._first: list[tuple[Any, Step]] | None = None
        self._rest: Iterator[tuple[Any, Step]] = iter(())

    def __iter__(self) -> Iterator[Any]:
        self.steps.clear()
        drawn = self._draw(iter(self._sampler))
        if self._batch_size is None or not self._sharing.split_batches:
            self._rest = dealt(drawn, self._sharing, self._size, self._batch_size)
        else:
            self._rest = split_indices(drawn, self._sharing)
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


def _samplers(loader: DataLoader[Any]) -> list[object]:
    """The samplers that decide the order, from the outside in."""
    if loader.batch_sampler is None:
        return [loader.sampler]
    inner = getattr(loader.batch_sampler, "sampler", None)
    return [loader.batch_sampler] if inner is None else [loader.batch_sampler, inner]


def _fixed_size(loader: DataLoader[Any]) -> int | None:
    """The batch size where all batches but the last have it."""
    sampler = loader.batch_sampler
    return sampler.batch_size if type(sampler) is BatchSampler else None


def is_loader(value: object) -> bool:
    """Whether this is a source of batches: a DataLoader, or what can be iterated and counted but not indexed."""
    if isinstance(value, DataLoader):
        return True
    if isinstance(value, (torch.Tensor, str, bytes, dict, set, frozenset)):
        return False
    return hasattr(value, "__iter__") and hasattr(value, "__len__") and not hasattr(value, "__getitem__")


def choose_source(loader: Any, sharing: Sharing, collectives: Alone) -> Source:
    """The way to divide this loader, and why: by indices where they decide everything, else by batches."""
    if sharing.size == 1:
        return Whole(loader)
    if not isinstance(loader, DataLoader):
        return ByBatch(loader, sharing, collectives)
    for sampler in _samplers(loader):
        if isinstance(sampler, DistributedSampler) and sampler.num_replicas == sharing.size:
            return AlreadyShared(loader, sampler, sharing)
    own_iteration = type(loader).__iter__ is not DataLoader.__iter__
    cannot_index = sharing.split_batches and (loader.batch_sampler is None)
    if isinstance(loader.dataset, IterableDataset) or own_iteration or cannot_index:
        return ByBatch(loader, sharing, collectives)
    return ByIndex(loader, sharing, collectives)


class _Prepared:
    """A loader's stand-in: its batches are this rank's, on its device; everything else is the loader's own."""

    def __init__(self, loader: Any, source: Source, passages: Passages, device: torch.device | None) -> None:
        vars(self).update(_loader=loader, _source=source, _passages=passages, _device=device)

    def __iter__(self) -> Iterator[Any]:
        own = vars(self)
        try:
            length = len(own["_source"])
        except TypeError:
            length = None
        return own["_passages"].begin(iter(own["_source"]), own["_device"], length)  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(vars(self)["_source"])

    def __getattr__(self, name: str) -> Any:
        if "_loader" not in vars(self):
            raise AttributeError(name)
        return getattr(vars(self)["_loader"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(vars(self)["_loader"], name, value)

    def __repr__(self) -> str:
        return f"prepared {vars(self)['_loader']!r}"

    def set_epoch(self, epoch: int) -> None:
        """Tell whatever of the loader wants to know the epoch: its samplers, its dataset."""
        loader = vars(self)["_loader"]
        own = [loader] if hasattr(loader, "set_epoch") else []
        for owner in own or [*_samplers(loader), getattr(loader, "dataset", None)]:
            if hasattr(owner, "set_epoch"):
                owner.set_epoch(epoch)


class PreparedIterable(_Prepared):
    """The stand-in for another library's loader."""


class PreparedLoader(_Prepared, DataLoader[Any]):  # type: ignore[misc]  # our iterator is not torch's private one
    """The stand-in for a DataLoader, and one itself."""


def prepare_loader(
    loader: Any, source: Source, passages: Passages, device: torch.device | None, *, is_counted: bool
) -> Any:
    """The loader to use from now on; the very same one where nothing has to be done, not even counting."""
    if isinstance(loader, _Prepared) or (isinstance(source, Whole) and device is None and not is_counted):
        return loader
    kind = PreparedLoader if isinstance(loader, DataLoader) else PreparedIterable
    return kind(loader, source, passages, device)


class _Skipping:
    """A loader without the first batches of each pass."""

    def __init__(self, loader: Any, count: int) -> None:
        self._loader = loader
        self._count = count

    def __iter__(self) -> Iterator[Any]:
        passage = iter(self._loader)
        for _ in itertools.islice(passage, self._count):
            pass
        return passage  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return max(len(self._loader) - self._count, 0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._loader, name)


def skip_first_batches(loader: Any, num_batches: int = 0) -> Any:
    """The loader without its first `num_batches` batches; they are drawn and dropped, so that the rest are the same."""
    return _Skipping(loader, num_batches) if num_batches else loader
