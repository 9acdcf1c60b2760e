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
from copy import copy
from typing import Any  # batches are whatever the user's loader yields

import torch
from torch.utils.data import DataLoader, IterableDataset

from accelify.runtime.data.bookmarks import Bookmark, Source, iterates_itself, owners_of, samplers_of
from accelify.runtime.data.dealing import Sharing, dealt, slices, taking
from accelify.runtime.data.dispatching import Dispatched
from accelify.runtime.data.indices import ByIndex
from accelify.runtime.data.passage import Epoch, in_pairs
from accelify.runtime.data.randomness import SharedRandom, drawn
from accelify.runtime.data.shards import BySelf, can_shard_itself
from accelify.runtime.data.shared import AlreadyShared, divides_by_itself
from accelify.runtime.data.whole import Whole
from accelify.runtime.world import nested
from accelify.runtime.world.collectives import Alone


class ByBatch:
    """Every N-th batch of anything that yields batches; with `split_batches`, a slice of each."""

    def __init__(self, loader: Any, sharing: Sharing, collectives: Alone) -> None:
        self._loader = loader
        self._sharing = sharing
        self._collectives = collectives
        self.per_step = sharing.batches_per_step
        self.seeded: torch.Tensor | None = None

    def begin(self, start: Bookmark) -> Epoch:
        """A pass of the whole loader, of which this rank keeps its share."""
        loader = self._loader
        shared = SharedRandom(self._collectives, owners_of(loader), start.before)
        start.before = shared.before
        with shared.drawing():
            batches = iter(loader)
        # With workers the draws are theirs, from a seed that is shared now.
        if not getattr(loader, "num_workers", 0):
            batches = drawn(batches, shared)
        if self._sharing.split_batches:
            return in_pairs(slices(itertools.islice(batches, start.position, None), self._sharing))
        return in_pairs(dealt(taking(batches), self._sharing, nested.rows, start=start.position))

    def count(self, position: int = 0) -> int:
        """This rank's share of the batches from there on."""
        return self._sharing.count(max(len(self._loader) - position, 0))


def in_order(loader: Any, sharing: Sharing) -> Any:
    """The loader, or among several ranks a copy that waits for each batch in its turn (`in_order=False` does not).

    Ranks agree on which batch is whose, and on the rows of each, by their order alone.
    """
    if sharing.size == 1 or not isinstance(loader, DataLoader) or getattr(loader, "in_order", True):
        return loader
    patient: DataLoader[Any] = copy(loader)
    vars(patient).update(in_order=True, _iterator=None)
    return patient


def choose_source(loader: Any, sharing: Sharing, collectives: Alone, *, keeps_batches: bool = False) -> Source:
    """The way to divide this loader, and why: by indices where they decide everything, else by batches.

    keeps_batches: whether the batches must be those of one process, which shards of a dataset have no knowledge of.
    """
    if sharing.size == 1:
        return Whole(loader, collectives)
    if sharing.dispatches and not keeps_batches:
        return Dispatched(loader, sharing, collectives)
    if not isinstance(loader, DataLoader):
        return ByBatch(loader, sharing, collectives)
    for sampler in samplers_of(loader):
        if divides_by_itself(sampler, sharing):
            return AlreadyShared(loader, sampler, sharing, collectives)
    cannot_index = sharing.split_batches and (loader.batch_sampler is None)
    is_iterable = isinstance(loader.dataset, IterableDataset)
    if is_iterable and not (sharing.split_batches or keeps_batches) and can_shard_itself(loader.dataset, sharing.size):
        return BySelf(loader, sharing, collectives)
    if is_iterable or iterates_itself(loader) or cannot_index:
        return ByBatch(loader, sharing, collectives)
    return ByIndex(loader, sharing, collectives)
