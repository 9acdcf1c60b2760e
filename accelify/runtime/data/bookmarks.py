"""Where a pass over a loader begins, what must be known of a loader to begin there, and who can."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol  # batches, indices and attributes are whatever the user's loader has

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from accelify.runtime.data.passage import Epoch
from accelify.runtime.data.randomness import LIBRARIES, States


@dataclass
class Bookmark:
    """Where a pass begins: after so many batches of one process, with the random state from which the epoch was drawn.

    A pass that has none takes the state it finds, and writes it here. `seeded` is the state of the generator that gave
    the workers' seed, where that was not drawn together with the epoch's order. `can_repeat`: whether as many workers
    of as many processes were given the batches before; `iteration`: how many passes had come to their end; `is_apart`:
    whether this rank's workers draw other numbers than rank 0's.
    """

    position: int = 0
    before: States | None = None
    seeded: torch.Tensor | None = None
    can_repeat: bool = False
    iteration: int = 0
    is_apart: bool = False

    @property
    def is_new(self) -> bool:
        """Whether it says nothing: a pass from the start, as any other."""
        return not self.position and self.before is None and self.seeded is None


class Source(Protocol):
    """Where a prepared loader's batches come from."""

    per_step: int

    @property
    def seeded(self) -> torch.Tensor | None:
        """What workers that live on were seeded from, if any do."""

    def begin(self, start: Bookmark) -> Epoch:
        """One epoch from the bookmark on: this rank's batches, each with the truth about its step."""

    def count(self, position: int = 0) -> int:
        """How many batches this rank gets from there on. Raises: TypeError where that is not known."""


def seeding_state(loader: DataLoader[Any]) -> torch.Tensor:
    """The state of the generator from which a loader takes its workers' seed, as it is now."""
    return torch.get_rng_state() if loader.generator is None else loader.generator.get_state()


def generator_in(state: torch.Tensor) -> torch.Generator:
    """A generator that is in this state."""
    generator = torch.Generator()
    generator.set_state(state)
    return generator


def samplers_of(loader: DataLoader[Any]) -> list[object]:
    """The samplers that decide the order, from the outside in."""
    if loader.batch_sampler is None:
        return [loader.sampler]
    inner = getattr(loader.batch_sampler, "sampler", None)
    return [loader.batch_sampler] if inner is None else [loader.batch_sampler, inner]


def owners_of(loader: Any) -> list[object]:
    """What may hold private generators from which the order or the elements are drawn."""
    if not isinstance(loader, DataLoader):
        return [loader]
    return [*samplers_of(loader), loader.generator, loader.dataset]


def is_reread(loader: Any) -> bool:
    """Whether the rest of a pass can be had only by going through what comes before it."""
    return not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset) or iterates_itself(loader)


# Samplers of torch draw once, before their first index; any other may draw at any time.
_DRAW_FIRST = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


def draws_first(loader: DataLoader[Any]) -> bool:
    """Whether the order of a pass is drawn once, when its first batch is asked for."""
    if isinstance(loader.dataset, IterableDataset) or iterates_itself(loader):
        return False
    return all(type(owner) in (*_DRAW_FIRST, BatchSampler) for owner in samplers_of(loader))


def draws_from(loader: DataLoader[Any]) -> Iterable[str]:
    """The libraries from which the order of a pass may be drawn: samplers of torch know no other."""
    return ("torch",) if draws_first(loader) else LIBRARIES


def iterates_itself(loader: DataLoader[Any]) -> bool:
    return type(loader).__iter__ is not DataLoader.__iter__
