"""Shard a loader by its indices: every rank draws the epoch's from one random stream, and fetches its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sized
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from operator import length_hint
from typing import Any  # batches and indices are whatever the user's loader has

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    SequentialSampler,
)

from accelify.runtime.data.passes import NO_BATCH, NO_LENGTH, Epoch, Step
from accelify.runtime.data.random_state import WorkerStart, states_of, unchanged_generators
from accelify.runtime.data.resume import (
    PassStart,
    Replay,
    draws_first,
    draws_from,
    generator_in,
    replay_of,
    samplers_of,
    seeding_state,
)
from accelify.runtime.data.sharding import Sharding, shard_items, shard_rows, split_indices, split_rows, taker
from accelify.runtime.data.streams import SharedRandom, Streams

# Iterators of indices that are all there: nothing is drawn any more.
HOLDERS: tuple[type[Any], ...] = (type(iter([])), type(iter(())), type(iter(range(0))))

# Of more indices than these no list is made: a dataset without an end has a length of 2**32, say.
_MANY = 2**22

# The attributes in which samplers hold the world size and their rank, each perhaps with an underscore before it.
_WORLDS, _RANKS = ("num_replicas", "world_size"), ("rank",)


class ByIndex:
    """This rank's batches of a map-style dataset: the indices are sharded, each rank fetches its own."""

    def __init__(
        self,
        loader: DataLoader[Any],
        sharding: Sharding,
        streams: Streams,
        sampler_sharding: Sharding | None = None,
    ) -> None:
        """sampler_sharding: how the sampler's indices are sharded, where that is not as the loader's batches are."""
        self._loader = loader
        self._sharding = sharding
        self._sampler_sharding = sampler_sharding or sharding
        self._streams = streams
        self._kept: tuple[DataLoader[Any], ShardedSampler] | None = None
        self.per_step = sharding.batches_per_step
        self._seeded: torch.Tensor | None = None

    def begin(self, start: PassStart) -> Epoch:
        """A pass whose order is the same on all ranks."""
        # In a resumed one the dataset's own generators are where they were left, though a sampler may hold it.
        with unchanged_generators([] if start.before is None else [self._loader.dataset]):
            return self._begin(start)

    def _begin(self, start: PassStart) -> Epoch:
        inner, sampler = self._inner()
        sampler.start, sampler.random, sampler.at_first = self._left_out(start.position), None, None
        sampler.replay, sampler.drops_last = None, self._drops_last()
        self._seed_workers(inner, start)
        if start.before is None and not inner.num_workers and sampler.draws_once:
            # As a plain loader does: other loaders may begin before this one is asked for its first batch.
            sampler.at_first = lambda: self._share_random_state(sampler, start)
            return Epoch(iter(inner), sampler.steps)
        shared = self._share_random_state(sampler, start)
        if self._kept is None or not sampler.is_begun:
            inner.worker_init_fn = self._worker_start()
            sampler.replay = replay_of(inner, start, self.per_step)
        with shared.drawing() if shared else nullcontext():
            batches = iter(inner)
            sampler.draw_first()
        if sampler.replay is not None:
            sampler.replay.finish(batches)
        return Epoch(batches, sampler.steps)

    def _drops_last(self) -> bool:
        return self._sampler_sharding.drops_last(self._loader)

    def _left_out(self, position: int) -> int:
        """How many of the sampler's items come before so many batches of one process are over."""
        return position

    def _share_random_state(self, sampler: ShardedSampler, start: PassStart) -> SharedRandom | None:
        """Have the epoch drawn from rank 0's stream, if anything is drawn at all."""
        owners = samplers_of(self._loader)
        private = [*owners, self._loader.generator]
        if start.before or any(type(owner) not in (SequentialSampler, BatchSampler) for owner in owners):
            libraries = draws_from(self._loader)
            sampler.random = SharedRandom(self._streams, private, start.before, libraries)
            start.before = sampler.random.before
        else:
            start.before = states_of(private, draws_from(self._loader))
        if sampler.at_first is not None:
            # Drawn after the workers' seed, of which there is no use without workers: any will do.
            start.seeded = start.before["shared"]["torch"]
        return sampler.random

    def _seed_workers(self, inner: DataLoader[Any], start: PassStart) -> None:
        """Take the workers' seed from where it once came from; those that live on have theirs."""
        if self._kept is not None and self._seeded is not None:
            start.seeded = self._seeded
        elif start.seeded is not None:
            inner.generator = generator_in(start.seeded)
            self._seeded = start.seeded
        else:
            self._seeded = seeding_state(self._loader)

    def _worker_start(self) -> Any:
        """The `worker_init_fn` of the workers: each rank's workers draw random numbers of their own."""
        own = self._loader.worker_init_fn
        return WorkerStart(own, self._sharding.rank) if self._streams.differ else own

    def _inner(self) -> tuple[DataLoader[Any], ShardedSampler]:
        """The user's loader with its indices sharded: a shallow copy, so that later changes of theirs count."""
        if self._kept is not None:
            return self._kept
        inner: DataLoader[Any] = copy(self._loader)
        name = "sampler" if self._loader.batch_sampler is None else "batch_sampler"
        is_batches = self._loader.batch_sampler is not None
        sampler, draws_once = getattr(self._loader, name), draws_first(self._loader)
        sampler = ShardedSampler(sampler, self._sampler_sharding, is_batches=is_batches, draws_once=draws_once)
        # DataLoader refuses a new sampler by assignment; a copy of ours may have one.
        vars(inner).update({name: sampler, "_iterator": None})
        if self._loader.persistent_workers:
            self._kept = inner, sampler
        return inner, sampler

    @property
    def seeded(self) -> torch.Tensor | None:
        """The seed of persistent workers; None where there are none."""
        return None if self._kept is None else self._seeded

    def count(self, position: int = 0) -> int:
        """How many batches this rank gets from there on."""
        sampler = self._loader.sampler if self._loader.batch_sampler is None else self._loader.batch_sampler
        left = max(len(sampler) - position, 0)  # type: ignore[arg-type]  # TypeError if unknown
        return self._sharding.count(left, drops_last=self._drops_last())


class ShardedSampler:
    """The sampler of the copied loader: this rank's shard of what the user's sampler yields."""

    def __init__(self, sampler: Any, sharding: Sharding, *, is_batches: bool, draws_once: bool) -> None:
        self.steps: list[Step] = []
        self.random: SharedRandom | None = None
        self.draws_once = draws_once
        self.at_first: Callable[[], object] | None = None
        self.start = 0
        self.replay: Replay | None = None
        self.drops_last = False
        self.is_begun = False
        self._sampler = sampler
        # Where all batches but the last have one size.
        self._is_plain = is_batches and type(sampler) is BatchSampler
        self._sharding = sharding
        self._is_drawn = False
        self._begin = 0
        self._items: Iterator[Any] = iter(())
        self._shard: Iterator[Any] = iter(())

    def __iter__(self) -> Iterator[Any]:
        self.steps, self._is_drawn, self.is_begun = [], False, True
        self._items = iter(self._sampler)
        return itertools.chain.from_iterable(self._drawn())

    def __len__(self) -> int:
        return self._sharding.count(len(self._sampler), drops_last=self.drops_last)

    def draw_first(self) -> None:
        """Have the sampler draw its permutation now, as it would when a plain loader asks for its first batch."""
        if self._is_drawn:
            return
        self._is_drawn = True
        if self.at_first is not None:
            self.at_first()
        # The elements that the workers fetch again have to be sharded, too.
        self._begin = self.start if self.replay is None else 0
        self._shard = self._all_at_once(self._sampler) if self._is_plain else self._one_by_one(self._items)
        if self.replay is not None:
            self._shard = self.replay.indices(self._shard)
            del self.steps[: self.replay.count]
        if self.draws_once:
            self.random = None
        elif self.random is not None:
            self.random.diverge()

    def _drawn(self) -> Iterator[Iterator[Any]]:
        self.draw_first()
        yield self._shard

    def _all_at_once(self, batches: BatchSampler) -> Iterator[Any]:
        """This rank's shard of an epoch that is drawn when its first index is there; else it comes item by item."""
        sampler: Any = batches.sampler
        with self._drawing():
            indices = iter(sampler)
            self.draws_once = self.draws_once or isinstance(indices, HOLDERS)
            if isinstance(indices, HOLDERS) and length_hint(indices) <= _MANY:
                rows = list(indices)
            elif not isinstance(indices, HOLDERS) and self.draws_once and not getattr(sampler, "replacement", False):
                rows = taker(indices)(len(sampler))
            else:
                return self._one_by_one(iter(BatchSampler(indices, batches.batch_size, batches.drop_last)))
        if batches.drop_last:
            del rows[len(rows) - len(rows) % batches.batch_size :]
        if self._sharding.split_batches:
            items, steps = split_rows(rows, batches.batch_size, self._sharding, self._begin)
        else:
            items, steps = shard_rows(rows, batches.batch_size, self._sharding, self._begin, drops_last=self.drops_last)
        self.steps.extend(steps)
        # A sampler that comes to its end draws once more, which only its own generator shows.
        return itertools.chain(items, indices) if getattr(sampler, "generator", None) else iter(items)

    def _one_by_one(self, items: Iterator[Any]) -> Iterator[Any]:
        """This rank's shard of what may draw anew for each item."""
        plainly = taker(items)

        def take(count: int) -> list[Any]:
            with self._drawing():
                return plainly(count)

        if self._sharding.split_batches:
            pairs = split_indices(take, self._sharding, self._begin)
        else:
            batch_size = self._sampler.batch_size if self._is_plain else None
            pairs = shard_items(take, self._sharding, _size, batch_size, self._begin, drops_last=self.drops_last)
        return self._noted(itertools.chain(list(itertools.islice(pairs, 1)), pairs))

    def _drawing(self) -> AbstractContextManager[None]:
        return self.random.drawing() if self.random else nullcontext()

    def _noted(self, pairs: Iterator[tuple[Any, Step]]) -> Iterator[Any]:
        for item, step in pairs:
            self.steps.append(step)
            if item is not NO_BATCH:
                yield item
        if self.random is not None:
            self.random.converge()


def _size(indices: Any) -> int | None:
    return len(indices) if isinstance(indices, Sized) and not isinstance(indices, str) else None


def is_sharding_sampler(sampler: Any, sharding: Sharding) -> bool:
    """Whether this is a sampler for one rank of these: torch's DistributedSampler, or one of the script's own."""
    if isinstance(sampler, DistributedSampler):
        return sampler.num_replicas == sharding.size
    return _attribute(sampler, _WORLDS) == sharding.size and _attribute(sampler, _RANKS) == sharding.rank


def _attribute(sampler: Any, names: tuple[str, ...]) -> object:
    held = getattr(sampler, "__dict__", {})
    return next((held[key] for name in names for key in (name, f"_{name}") if key in held), None)


class AlreadySharded(ByIndex):
    """The batches of this rank's sampler, all of them."""

    def __init__(self, loader: DataLoader[Any], sampler: Any, sharding: Sharding, streams: Streams) -> None:
        super().__init__(loader, sharding, streams, Sharding())
        self.per_step = sharding.size
        self._sampler = sampler

    def begin(self, start: PassStart) -> Epoch:
        """This rank's own pass: the sampler's order follows from the epoch that was set."""
        epoch = super().begin(start)
        skipped = self._left_out(start.position)
        if self._loader.batch_size is not None and _shards_in_turn(self._sampler):
            steps = self._steps(self._loader.batch_size, skipped)
        else:
            # Only the sampler knows which of its elements are there to make the shards equal, if any are.
            steps = itertools.repeat(Step(rows=None, valid=(1,) * self._sharding.size))
        try:
            count = len(self._loader) - skipped
        except NO_LENGTH:  # a sampler without an end
            return Epoch(epoch.batches)
        return Epoch(epoch.batches, list(itertools.islice(steps, max(count, 0))))

    def _steps(self, batch_size: int, skipped: int) -> Iterator[Step]:
        # The sampler shards single elements: the i-th of rank r is number i * N + r; from the dataset's length on they
        # are repetitions.
        size, count = self._sharding.size, len(self._sampler)
        real = min(len(self._sampler.dataset), self._sampler.total_size)
        for start in range(skipped * batch_size, count, batch_size):
            stop = min(start + batch_size, count)
            owned = [sum(i * size + rank < real for i in range(start, stop)) for rank in range(size)]
            yield Step(rows=(stop - start,) * size, valid=tuple(owned))

    def count(self, position: int = 0) -> int:
        """How many batches the sampler's own shard has."""
        return max(len(self._loader) - self._left_out(position), 0)

    def _left_out(self, position: int) -> int:
        return position // self.per_step


def _shards_in_turn(sampler: Any) -> bool:
    return getattr(type(sampler), "__iter__", None) is DistributedSampler.__iter__
