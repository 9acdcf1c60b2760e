"""Divide a loader by its indices: every rank draws the whole epoch's from one random stream, and fetches its own."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import nullcontext
from copy import copy
from typing import Any  # batches and indices are whatever the user's loader has

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    SequentialSampler,
)

from accelify.runtime.bookmarks import Bookmark, draws_first, generator_in, samplers_of, seeding_state
from accelify.runtime.collectives import Alone
from accelify.runtime.dealing import Sharing, dealt, split_indices
from accelify.runtime.passage import ABSENT, Step
from accelify.runtime.randomness import SharedRandom, WorkerStart, states_of


class ByIndex:
    """This rank's batches of a map-style dataset: the indices are dealt out, each rank fetches its own."""

    def __init__(self, loader: DataLoader[Any], sharing: Sharing, collectives: Alone) -> None:
        self._loader = loader
        self._sharing = sharing
        self._collectives = collectives
        self._kept: tuple[DataLoader[Any], Deal] | None = None
        self.per_step = sharing.batches_per_step
        self._seeded: torch.Tensor | None = None

    def begin(self, start: Bookmark) -> Iterator[tuple[Any, Step | None]]:
        """A pass whose order all ranks draw alike."""
        inner, deal = self._inner()
        deal.start, deal.random, deal.at_first = start.position, None, None
        self._seed_workers(inner, start)
        if start.before is None and not inner.num_workers and deal.draws_once:
            # As a plain loader does: other loaders may begin before this one is asked for its first batch.
            deal.at_first = lambda: self._share(deal, start)
            return _with_steps(iter(inner), deal.steps)
        shared = self._share(deal, start)
        inner.worker_init_fn = self._worker_start(shared)
        with shared.drawing() if shared else nullcontext():
            batches = iter(inner)
            deal.draw_first()
        return _with_steps(batches, deal.steps)

    def _share(self, deal: Deal, start: Bookmark) -> SharedRandom | None:
        """Have the epoch drawn from rank 0's stream, if anything is drawn at all."""
        owners = samplers_of(self._loader)
        private = [*owners, self._loader.generator]
        if start.before or any(type(owner) not in (SequentialSampler, BatchSampler) for owner in owners):
            deal.random = SharedRandom(self._collectives, private, start.before)
            start.before = deal.random.before
        else:
            start.before = states_of(private)
        if deal.at_first is not None:
            # Drawn after the workers' seed, of which there is no use without workers: any will do.
            start.seeded = start.before["shared"]["torch"]
        return deal.random

    def _seed_workers(self, inner: DataLoader[Any], start: Bookmark) -> None:
        """Take the workers' seed from where it once came from; those that live on have theirs."""
        if self._kept is not None and self._seeded is not None:
            start.seeded = self._seeded
        elif start.seeded is not None:
            inner.generator = generator_in(start.seeded)
            self._seeded = start.seeded
        else:
            self._seeded = seeding_state(self._loader)

    def _worker_start(self, shared: SharedRandom | None) -> Any:
        """What workers do at their start: where this rank draws by itself (`seed_by_rank`), so do they."""
        own = self._loader.worker_init_fn
        return own if shared is None or shared.is_in_step else WorkerStart(own, self._sharing.rank)

    def _inner(self) -> tuple[DataLoader[Any], Deal]:
        """The user's loader with its indices dealt: a shallow copy, so that later changes of theirs count."""
        if self._kept is not None:
            return self._kept
        inner: DataLoader[Any] = copy(self._loader)
        name = "sampler" if self._loader.batch_sampler is None else "batch_sampler"
        draws_once = draws_first(self._loader)
        deal = Deal(getattr(self._loader, name), self._sharing, _fixed_size(self._loader), draws_once=draws_once)
        # DataLoader refuses a new sampler by assignment; a copy of ours may have one.
        vars(inner).update({name: deal, "_iterator": None})
        if self._loader.persistent_workers:
            self._kept = inner, deal
        return inner, deal

    @property
    def seeded(self) -> torch.Tensor | None:
        """What workers that live on were seeded from."""
        return None if self._kept is None else self._seeded

    def count(self, position: int = 0) -> int:
        """This rank's share of the batches from there on."""
        sampler = self._loader.sampler if self._loader.batch_sampler is None else self._loader.batch_sampler
        return self._sharing.count(max(len(sampler) - position, 0))  # type: ignore[arg-type]  # TypeError if unknown


class Deal:
    """What takes the sampler's place in the copied loader: this rank's part of what the sampler yields."""

    def __init__(self, sampler: Iterable[Any], sharing: Sharing, batch_size: int | None, *, draws_once: bool) -> None:
        self.steps: deque[Step] = deque()
        self.random: SharedRandom | None = None
        self.draws_once = draws_once
        self.at_first: Callable[[], object] | None = None
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
        if self._first is not None:
            return
        if self.at_first is not None:
            self.at_first()
        self._first = list(itertools.islice(self._rest, 1))
        if self.draws_once:
            self.random = None
        elif self.random is not None:
            self.random.part()

    def _parts(self) -> Iterator[Any]:
        self.draw_first()
        for part, step in itertools.chain(self._first or (), self._rest):
            self.steps.append(step)
            if part is not ABSENT:
                yield part


def _with_steps(batches: Iterator[Any], steps: deque[Step]) -> Iterator[tuple[Any, Step | None]]:
    # Workers are given indices ahead of time; the steps wait in order.
    for batch in batches:
        yield batch, steps.popleft()
    for step in steps:
        yield ABSENT, step


def _fixed_size(loader: DataLoader[Any]) -> int | None:
    """The batch size where all batches but the last have it."""
    sampler = loader.batch_sampler
    return sampler.batch_size if type(sampler) is BatchSampler else None
