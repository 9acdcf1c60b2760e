"""Take a loader whose sampler divides the dataset already as it is, and know what its batches are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any  # batches are whatever the user's loader yields

from torch.utils.data import DataLoader, DistributedSampler

from accelify.runtime.data.bookmarks import Bookmark
from accelify.runtime.data.dealing import Sharing
from accelify.runtime.data.indices import ByIndex
from accelify.runtime.data.passage import Epoch, Step
from accelify.runtime.world.collectives import Alone

# How samplers that know of other ranks call their number and their own, each perhaps with an underscore before it.
_WORLDS, _RANKS = ("num_replicas", "world_size"), ("rank",)


def divides_by_itself(sampler: Any, sharing: Sharing) -> bool:
    """Whether this is a sampler for one rank of these: torch's DistributedSampler, or one of the script's own."""
    if isinstance(sampler, DistributedSampler):
        return sampler.num_replicas == sharing.size
    return _attribute(sampler, _WORLDS) == sharing.size and _attribute(sampler, _RANKS) == sharing.rank


def _attribute(sampler: Any, names: tuple[str, ...]) -> object:
    held = getattr(sampler, "__dict__", {})
    return next((held[key] for name in names for key in (name, f"_{name}") if key in held), None)


class AlreadyShared(ByIndex):
    """The batches of this rank's sampler, all of them."""

    def __init__(self, loader: DataLoader[Any], sampler: Any, sharing: Sharing, collectives: Alone) -> None:
        super().__init__(loader, sharing, collectives, Sharing())
        self.per_step = sharing.size
        self._sampler = sampler

    def begin(self, start: Bookmark) -> Epoch:
        """This rank's own pass: the sampler's order follows from the epoch it was told."""
        epoch = super().begin(start)
        skipped = self._left_out(start.position)
        if self._loader.batch_size is not None and _deals_in_turn(self._sampler):
            steps = self._steps(self._loader.batch_size, skipped)
        else:
            # Nobody but the sampler knows which of its elements are there to make the shares equal, if any are.
            steps = itertools.repeat(Step(rows=None, valid=(1,) * self._sharing.size))
        try:
            count = len(self._loader) - skipped
        except TypeError:  # a sampler without an end
            return Epoch(epoch.batches)
        return Epoch(epoch.batches, list(itertools.islice(steps, max(count, 0))))

    def _steps(self, batch_size: int, skipped: int) -> Iterator[Step]:
        # The sampler deals single elements: the i-th of rank r is number i * N + r; from the dataset's length on they
        # are repetitions.
        size, share = self._sharing.size, len(self._sampler)
        real = min(len(self._sampler.dataset), self._sampler.total_size)
        for start in range(skipped * batch_size, share, batch_size):
            stop = min(start + batch_size, share)
            owned = [sum(i * size + rank < real for i in range(start, stop)) for rank in range(size)]
            yield Step(rows=(stop - start,) * size, valid=tuple(owned))

    def count(self, position: int = 0) -> int:
        """The batches of the sampler's own share."""
        return max(len(self._loader) - self._left_out(position), 0)

    def _left_out(self, position: int) -> int:
        return position // self.per_step


def _deals_in_turn(sampler: Any) -> bool:
    return getattr(type(sampler), "__iter__", None) is DistributedSampler.__iter__
