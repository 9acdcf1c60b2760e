"""Passes over loaders in one process, where nothing is sharded; resumed ones leave out the first batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from copy import copy
from typing import Any  # batches are whatever the user's loader yields

import torch
from torch.utils.data import DataLoader

from accelify.runtime.data.passes import Epoch
from accelify.runtime.data.random_state import states_of, unchanged_generators
from accelify.runtime.data.resume import (
    PassStart,
    Replay,
    draws_first,
    draws_from,
    generator_in,
    is_reread,
    is_torch_loader,
    iterates_itself,
    owners_of,
    replay_of,
    seeding_state,
)
from accelify.runtime.data.streams import SharedRandom, Streams


class OneProcess:
    """All batches, for one process."""

    per_step = 1

    def __init__(self, loader: Any, streams: Streams) -> None:
        self._loader = loader
        self._streams = streams
        self._workers: Workers | None = None
        if is_torch_loader(loader) and loader.persistent_workers and not iterates_itself(loader):
            self._workers = Workers(loader)

    def begin(self, start: PassStart) -> Epoch:
        """The loader's own pass, or the rest of one."""
        owners = owners_of(self._loader)
        if start.before is not None:
            # Elements of a map-style dataset that are left out are not fetched: its generators stay where they were.
            kept = [] if is_reread(self._loader) else [self._loader.dataset]
            with unchanged_generators(kept), SharedRandom(self._streams, owners, start.before).drawing():
                return Epoch(self._pass(start))
        if is_torch_loader(self._loader) and not self._loader.num_workers and draws_first(self._loader):
            return Epoch(itertools.chain(self._noting(start), self._pass(start)))
        start.before = states_of(owners)
        return Epoch(self._pass(start))

    def _pass(self, start: PassStart) -> Iterator[Any]:
        if self._workers is not None:
            return self._workers.begin(start)
        return rest_of(self._loader, start)

    def _noting(self, start: PassStart) -> Iterator[Any]:
        """Without workers the order is drawn at the first batch: other loaders may have begun since this one did."""
        start.before = states_of(owners_of(self._loader), draws_from(self._loader))
        # Drawn after the workers' seed, of which there is no use without workers: any will do.
        start.seeded = torch.get_rng_state()
        yield from ()

    @property
    def seeded(self) -> torch.Tensor | None:
        """The seed of persistent workers; None where there are none."""
        return None if self._workers is None else self._workers.seeded

    def count(self, position: int = 0) -> int:
        """All that the loader has from there on."""
        return max(len(self._loader) - position, 0)


class Workers:
    """A loader's persistent workers: started once, and reset for each later pass."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.seeded: torch.Tensor | None = None
        self._loader = loader
        self._inner, self._rest = without_first(loader, 0)
        self._is_alive = False

    def begin(self, start: PassStart) -> Iterator[Any]:
        """A pass of them from there on."""
        self._rest.count = start.position
        if self.seeded is not None:
            start.seeded = self.seeded
        elif start.seeded is not None:
            self.seeded = start.seeded
            self._inner.generator = generator_in(start.seeded)
        else:
            self.seeded = seeding_state(self._loader)
        self._rest.replay = None if self._is_alive else replay_of(self._inner, start, 1)
        self._is_alive = True
        return self._rest.of(self._inner)


class _Rest:
    """The sampler for the rest of a pass: it leaves out the first so many elements."""

    def __init__(self, sampler: Any, count: int) -> None:
        self._sampler = sampler
        self.count = count
        self._drawn: Iterator[Any] = iter(())
        self._is_begun = False
        self.replay: Replay | None = None

    def __iter__(self) -> Iterator[Any]:
        self._drawn, self._is_begun = iter(self._sampler), False
        return self._items()

    def of(self, loader: DataLoader[Any]) -> Iterator[Any]:
        """The pass of a loader that has this in its sampler's place."""
        batches: Iterator[Any] = iter(loader)
        self._begin()
        if self.replay is not None:
            self.replay.finish(batches)
        return batches

    def _begin(self) -> None:
        """Have the sampler draw what is left out, now: the random state is the epoch's only now."""
        if self._is_begun:
            return
        self._is_begun = True
        if self.replay is not None:
            self._drawn = self.replay.indices(self._drawn)
        else:
            _drop(self._drawn, self.count)

    def _items(self) -> Iterator[Any]:
        self._begin()
        yield from self._drawn

    def __len__(self) -> int:
        return max(len(self._sampler) - self.count, 0)


def rest_of(loader: Any, start: PassStart) -> Iterator[Any]:
    """A pass of the loader without its first batches; where indices decide, workers alone may fetch them again."""
    count, seeded = start.position, start.seeded
    if not count and seeded is None:
        return iter(loader)
    if is_reread(loader):
        everything: Iterator[Any] = iter(_seeded(loader, seeded))
        _drop(everything, count)
        return everything
    inner, rest = without_first(loader, count)
    if seeded is not None:
        inner.generator = generator_in(seeded)
    rest.replay = replay_of(inner, start, 1)
    return rest.of(inner)


def _seeded(loader: Any, state: torch.Tensor | None) -> Any:
    """The loader, or a copy of it that takes its workers' seed from a generator in this state."""
    if state is None or not is_torch_loader(loader):
        return loader
    inner = copy(loader)
    inner.generator = generator_in(state)
    return inner


def without_first(loader: DataLoader[Any], count: int) -> tuple[DataLoader[Any], _Rest]:
    """A shallow copy of the loader that leaves out the first so many batches, and what says how many."""
    inner: DataLoader[Any] = copy(loader)
    name = "sampler" if loader.batch_sampler is None else "batch_sampler"
    rest = _Rest(getattr(loader, name), count)
    vars(inner).update({name: rest, "_iterator": None})
    return inner, rest


def _drop(items: Iterator[Any], count: int) -> None:
    for _ in itertools.islice(items, count):
        pass
