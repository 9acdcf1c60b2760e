"""Bring workers to where they were: in a resumed pass they fetch again what it leaves out, if that draws at random.

A worker begins an epoch from its seed and draws from there, sample after sample, for what augments them at random. So
a pass that goes on in the middle must have drawn what came before. Where the first batches draw nothing, nothing does.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any  # batches and indices are whatever the user's loader has

from torch.utils.data import DataLoader, get_worker_info

from accelify.runtime.data.bookmarks import Bookmark
from accelify.runtime.data.randomness import digest, states_of


@dataclass(frozen=True, slots=True)
class Again:
    """The indices of a batch that is fetched for its draws alone."""

    indices: Any


class Replay:
    """The batches that a resumed pass leaves out, on their way to the workers once more."""

    def __init__(self, loader: DataLoader[Any], count: int, *, is_whole: bool) -> None:
        """`is_whole`: whether these are all that the workers have drawn; else we only look whether they draw."""
        self.count = count
        self._is_whole = is_whole
        self._enough = loader.num_workers
        self._sent = 0
        self._drew: list[bool] = []
        dataset = Repeating(loader)
        replaced = {"dataset": dataset, "collate_fn": dataset.collate, "worker_init_fn": dataset.begin}
        vars(loader).update(replaced)

    def parts(self, indices: Iterator[Any]) -> Iterator[Any]:
        """For the workers: the indices of these batches, the first marked as left out."""
        left_out = list(itertools.islice(indices, self.count))
        return itertools.chain(self._again(left_out), indices)

    def _again(self, left_out: list[Any]) -> Iterator[Again]:
        for part in left_out:
            if len(self._drew) >= self._enough and not (self._is_whole and any(self._drew)):
                return
            self._sent += 1
            yield Again(part)

    def finish(self, batches: Iterator[Any]) -> None:
        """Wait until the workers are where they were."""
        while len(self._drew) < self._sent:
            self._drew.append(_outcome(batches))
        if any(self._drew) and not self._is_whole:
            warnings.warn(
                "load_state: the dataset draws random numbers in workers that live on, and these have drawn in epochs "
                "before this one: what they draw from here on is not what an uninterrupted run draws",
                stacklevel=2,
            )


def _outcome(batches: Iterator[Any]) -> bool:
    try:
        return bool(next(batches))
    except StopIteration:
        raise RuntimeError("the workers ended before they were where they had been") from None
    except Exception:  # what cannot be read could not be read then, and the script went on
        return True


def replay_of(loader: DataLoader[Any], start: Bookmark, per_step: int) -> Replay | None:
    """What must be fetched again by the workers of this copy of a loader, if anything may have to be."""
    count = start.position // per_step
    if not (count and start.can_repeat and loader.num_workers and getattr(loader, "in_order", True)):
        return None
    return Replay(loader, count, is_whole=not (loader.persistent_workers and start.iteration))


class Repeating:
    """In a worker: the dataset, and of a batch that is fetched again only whether that drew anything."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._dataset: Any = loader.dataset
        self._collate = loader.collate_fn
        self._begin = loader.worker_init_fn
        self._is_again = False
        self._before = ""

    def begin(self, worker: int) -> None:
        """The loader's own `worker_init_fn`, for which the dataset is the loader's own."""
        # It lets nobody assign, and each version of torch in another way.
        object.__setattr__(get_worker_info(), "dataset", self._dataset)
        if self._begin is not None:
            self._begin(worker)

    def __getitem__(self, index: Any) -> Any:
        return self._dataset[self._indices(index)]

    def __getitems__(self, indices: Any) -> Any:
        indices = self._indices(indices)
        fetch = getattr(self._dataset, "__getitems__", None)
        return fetch(indices) if fetch else [self._dataset[index] for index in indices]

    def __len__(self) -> int:
        return len(self._dataset)

    def _indices(self, given: Any) -> Any:
        self._is_again = isinstance(given, Again)
        if not self._is_again:
            return given
        self._before = digest(states_of([self._dataset]))
        return given.indices

    def collate(self, data: Any) -> Any:
        """The batch; of one that is fetched again, whether it drew."""
        batch = self._collate(data)
        return self._before != digest(states_of([self._dataset])) if self._is_again else batch
