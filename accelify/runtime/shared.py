"""Take a loader whose DistributedSampler divides the dataset already as it is, and know what its batches are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any  # batches are whatever the user's loader yields

from torch.utils.data import DataLoader, DistributedSampler

from accelify.runtime.bookmarks import Bookmark
from accelify.runtime.collectives import Alone
from accelify.runtime.dealing import Sharing
from accelify.runtime.indices import ByIndex
from accelify.runtime.passage import Epoch, Step


class AlreadyShared(ByIndex):
    """The batches of this rank's sampler, all of them."""

    def __init__(
        self, loader: DataLoader[Any], sampler: DistributedSampler[Any], sharing: Sharing, collectives: Alone
    ) -> None:
        super().__init__(loader, sharing, collectives, Sharing())
        self.per_step = sharing.size
        self._sampler = sampler

    def begin(self, start: Bookmark) -> Epoch:
        """This rank's own pass: the sampler's order follows from the epoch it was told."""
        epoch = super().begin(start)
        if self._loader.batch_size is None:
            return Epoch(epoch.batches)
        return Epoch(epoch.batches, list(self._steps(self._loader.batch_size, self._left_out(start.position))))

    def _steps(self, batch_size: int, skipped: int) -> Iterator[Step]:
        # The sampler deals single elements: the i-th of rank r is number i * N + r; from the dataset's length on they
        # are repetitions.
        size, share = self._sharing.size, len(self._sampler)
        real = min(len(self._sampler.dataset), self._sampler.total_size)  # type: ignore[arg-type]  # it has a length
        for start in range(skipped * batch_size, share, batch_size):
            stop = min(start + batch_size, share)
            owned = [sum(i * size + rank < real for i in range(start, stop)) for rank in range(size)]
            yield Step(rows=(stop - start,) * size, valid=tuple(owned))

    def count(self, position: int = 0) -> int:
        """The batches of the sampler's own share."""
        return max(len(self._loader) - self._left_out(position), 0)

    def _left_out(self, position: int) -> int:
        return position // self.per_step
