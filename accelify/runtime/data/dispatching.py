"""Have process 0 read for all and hand the others their batches: for data that only one may read, on request."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any  # batches are whatever the user's loader yields

from accelify.errors import AccelifyError
from accelify.runtime.data.bookmarks import Bookmark, owners_of
from accelify.runtime.data.dealing import Sharing, dealt, slices, taking
from accelify.runtime.data.passage import Epoch, Step, in_pairs
from accelify.runtime.data.randomness import SharedRandom, drawn
from accelify.runtime.world import nested
from accelify.runtime.world.collectives import Alone


class CannotRead(AccelifyError):
    """What process 0 could not read for the others."""


@dataclass(frozen=True, slots=True)
class _Failure:
    words: str


class Dispatched:
    """The batches that process 0 reads and deals out: each process gets its own, and none but its own.

    Every step is a message, so all processes must take equally many.
    """

    def __init__(self, loader: Any, sharing: Sharing, collectives: Alone) -> None:
        self._loader = loader
        self._sharing = sharing
        self._collectives = collectives
        self.per_step = sharing.batches_per_step
        self.seeded = None

    def begin(self, start: Bookmark) -> Epoch:
        """A pass of the loader in process 0."""
        shared = SharedRandom(self._collectives, owners_of(self._loader), start.before)
        start.before = shared.before
        # The others draw nothing: where the ranks' own streams are in step, they stay so.
        shared.part()
        return in_pairs(self._received(start.position, shared))

    def _received(self, position: int, shared: SharedRandom) -> Iterator[tuple[Any, Step]]:
        rounds = self._rounds(position, shared) if self._sharing.rank == 0 else iter(())
        while True:
            shares, error = _next(rounds)
            instead = None if error is None else _Failure(f"{type(error).__name__}: {error}")
            mine = self._collectives.scatter_object(shares or [instead] * self._sharing.size)
            if error is not None:
                raise error
            if isinstance(mine, _Failure):
                raise CannotRead(f"process 0 could not read the next batch: {mine.words}")
            if mine is None:
                return
            yield mine

    def _rounds(self, position: int, shared: SharedRandom) -> Iterator[list[tuple[Any, Step]]]:
        """What each rank gets in each step; the first `position` batches left out."""
        with shared.drawing():
            batches = iter(self._loader)
        if not getattr(self._loader, "num_workers", 0):
            batches = drawn(batches, shared)
        # Dealt once for every rank: what each takes is there before the next asks for it.
        copies = itertools.tee(batches, self._sharing.size)
        return map(list, zip(*(self._share(rank, own, position) for rank, own in enumerate(copies)), strict=True))

    def _share(self, rank: int, batches: Iterator[Any], position: int) -> Iterator[tuple[Any, Step]]:
        own = replace(self._sharing, rank=rank)
        if own.split_batches:
            return slices(itertools.islice(batches, position, None), own)
        return dealt(taking(batches), own, nested.rows, start=position)

    def count(self, position: int = 0) -> int:
        """This rank's share of the batches from there on."""
        return self._sharing.count(max(len(self._loader) - position, 0))


def _next(rounds: Iterator[list[Any]]) -> tuple[list[Any] | None, Exception | None]:
    try:
        return next(rounds, None), None
    except Exception as error:  # whatever it is, the other ranks wait to hear of it
        return None, error
