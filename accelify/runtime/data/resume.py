"""Resume a pass in the middle: where it starts, from which random state, and what workers must draw again."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard  # batches, indices and attributes are whatever the user's loader has

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
)

from accelify.runtime.data.passes import Epoch
from accelify.runtime.data.random_state import LIBRARIES, States, digest, states_of


@dataclass
class PassStart:
    """Where a pass begins: after so many batches of one process, with the random state from which the epoch was drawn.

    A pass without a random state takes the one it finds, and writes it here. `seeded` is the state of the generator
    that gave the workers' seed, where that was not drawn together with the epoch's order. `can_repeat`: whether as
    many workers of as many processes were given the batches before; `iteration`: how many passes had come to their
    end.
    """

    position: int = 0
    before: States | None = None
    seeded: torch.Tensor | None = None
    can_repeat: bool = False
    iteration: int = 0

    @property
    def is_new(self) -> bool:
        """Whether this is the start of any new pass."""
        return not self.position and self.before is None and self.seeded is None


class Source(Protocol):
    """Where a prepared loader's batches come from."""

    per_step: int

    @property
    def seeded(self) -> torch.Tensor | None:
        """The seed of persistent workers, if there are any."""

    def begin(self, start: PassStart) -> Epoch:
        """One epoch from this start on: this rank's batches, each with its step."""

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
    """The objects that may hold private generators from which the order or the elements are drawn."""
    if not is_torch_loader(loader):
        return [loader]
    return [*samplers_of(loader), loader.generator, loader.dataset]


def is_reread(loader: Any) -> bool:
    """Whether the rest of a pass can be had only by going through what comes before it."""
    return not is_torch_loader(loader) or isinstance(loader.dataset, IterableDataset) or iterates_itself(loader)


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


def is_torch_loader(value: object) -> TypeGuard[DataLoader[Any]]:
    """Whether this is a DataLoader that was set up as one: a subclass with a constructor of its own may not be."""
    return isinstance(value, DataLoader) and bool(getattr(value, "_DataLoader__initialized", False))


def iterates_itself(loader: DataLoader[Any]) -> bool:
    return type(loader).__iter__ is not DataLoader.__iter__


@dataclass(frozen=True, slots=True)
class ReplayedIndices:
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
        dataset = ReplayingDataset(loader)
        replaced = {"dataset": dataset, "collate_fn": dataset.collate, "worker_init_fn": dataset.begin}
        vars(loader).update(replaced)

    def indices(self, indices: Iterator[Any]) -> Iterator[Any]:
        """For the workers: the indices of these batches, the first marked as left out."""
        left_out = list(itertools.islice(indices, self.count))
        return itertools.chain(self._again(left_out), indices)

    def _again(self, left_out: list[Any]) -> Iterator[ReplayedIndices]:
        for indices in left_out:
            if len(self._drew) >= self._enough and not (self._is_whole and any(self._drew)):
                return
            self._sent += 1
            yield ReplayedIndices(indices)

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


def replay_of(loader: DataLoader[Any], start: PassStart, per_step: int) -> Replay | None:
    """The elements that the workers of this copy of a loader must fetch again, if there may be any."""
    count = start.position // per_step
    if not (count and start.can_repeat and loader.num_workers and getattr(loader, "in_order", True)):
        return None
    return Replay(loader, count, is_whole=not (loader.persistent_workers and start.iteration))


class ReplayingDataset:
    """In a worker: the dataset, and of a batch that is fetched again only whether that drew anything."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._dataset: Any = loader.dataset
        self._collate = loader.collate_fn
        self._begin = loader.worker_init_fn
        self._is_again = False
        self._before = ""

    def begin(self, worker: int) -> None:
        """The loader's own `worker_init_fn`, for which the dataset is the loader's own."""
        # It refuses assignment, each version of torch in another way.
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
        self._is_again = isinstance(given, ReplayedIndices)
        if not self._is_again:
            return given
        self._before = digest(states_of([self._dataset]))
        return given.indices

    def collate(self, data: Any) -> Any:
        """The batch; of one that is fetched again, whether it drew."""
        batch = self._collate(data)
        return self._before != digest(states_of([self._dataset])) if self._is_again else batch
