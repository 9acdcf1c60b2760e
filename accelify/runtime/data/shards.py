"""Have an iterable dataset that can shard itself do so: each rank reads its own part, instead of all reading all."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from copy import copy
from typing import Any  # datasets and batches are whatever the user's are

import torch
from torch.utils.data import DataLoader

from accelify.errors import AccelifyError
from accelify.runtime.data.bookmarks import Bookmark, owners_of
from accelify.runtime.data.dealing import Sharing
from accelify.runtime.data.passage import Epoch, Step, in_pairs
from accelify.runtime.data.randomness import SharedRandom
from accelify.runtime.world import nested
from accelify.runtime.world.collectives import Alone


def can_shard_itself(dataset: Any, size: int) -> bool:
    """Whether the dataset has `shard(num_shards=, index=)`, and cuts as many equal shards as there are ranks.

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


class BySelf:
    """The batches of the shard that the dataset cuts out for this rank; workers are its own business, as always.

    Nobody knows how long the shards are: before each step the ranks tell each other how many rows they have. One that
    has no more gets its first batch again, which does not count.
    """

    def __init__(self, loader: DataLoader[Any], sharing: Sharing, collectives: Alone) -> None:
        self._loader = loader
        self._sharing = sharing
        self._collectives = collectives
        self.per_step = sharing.size
        self.seeded: torch.Tensor | None = None
        self._length: int = max(collectives.gather_object(_length(self._shard())))

    def _shard(self) -> DataLoader[Any]:
        inner: DataLoader[Any] = copy(self._loader)
        dataset: Any = self._loader.dataset
        part = dataset.shard(num_shards=self._sharing.size, index=self._sharing.rank)
        # Datasets of Hugging Face leave it behind.
        if isinstance(epoch := getattr(dataset, "epoch", None), int) and hasattr(part, "set_epoch"):
            part.set_epoch(epoch)
        vars(inner).update(dataset=part, _iterator=None)
        return inner

    def begin(self, start: Bookmark) -> Epoch:
        """A pass of this rank's shard."""
        shared = SharedRandom(self._collectives, owners_of(self._loader), start.before)
        start.before = shared.before
        # Cut in each pass: what the dataset was told since, such as its epoch, goes into the shard.
        with shared.drawing():
            batches = iter(self._shard())
        rest = itertools.islice(batches, start.position // self.per_step, None)
        return in_pairs(self._even(rest)) if self._sharing.even_batches else Epoch(rest)

    def _even(self, batches: Iterator[Any]) -> Iterator[tuple[Any, Step]]:
        first: Any = None
        for batch in itertools.chain(batches, itertools.repeat(None)):
            mine = 0 if batch is None else nested.rows(batch) or 1
            valid = self._collectives.counts(mine)
            if not any(valid):
                return
            if first is None and 0 in valid:
                raise EmptyShard(
                    f"the dataset gave rank {valid.index(0)} an empty shard: it needs data for each process"
                )
            first = batch if first is None else first
            kept = first if batch is None else batch
            rows = self._collectives.counts(nested.rows(kept) or 1) if 0 in valid else valid
            yield kept, Step(rows=tuple(rows), valid=tuple(valid))

    def count(self, position: int = 0) -> int:
        """The batches of the longest shard. Raises: TypeError for shards without a length."""
        if self._length < 0:
            raise TypeError("a dataset that shards itself and has no length")
        return max(self._length - position // self.per_step, 0)


class EmptyShard(AccelifyError):
    """A rank without any data. The same on every rank."""


def _length(loader: DataLoader[Any]) -> int:
    """The number of batches; -1 where that is not known."""
    try:
        return len(loader)
    except TypeError:
        return -1
