"""Shard what is not a loader: the k-th element of rank r is element `k * N + r`, and all ranks get equally many."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import nullcontext, suppress
from typing import Any, overload  # elements are the user's

import numpy
import torch

from accelify.errors import AccelifyError
from accelify.runtime.data.passes import LoaderPasses
from accelify.runtime.data.sharding import copy_of
from accelify.runtime.world import tensors

# Iterators that are only passed over: to ask them for the next element draws no random number.
_PLAIN: tuple[type, ...] = (list, tuple, range, str, bytes, dict, type({}.keys()), type({}.values()), type({}.items()))
_PLAIN_ITERATORS: tuple[type, ...] = (
    *(type(iter(kind())) for kind in (list, tuple, dict, str, bytes)),
    type(iter(range(0))),
)


class CannotShard(AccelifyError, TypeError):
    """A collection without an order that is the same on all ranks."""


class SequenceShard(Sequence[Any]):
    """A view of a sequence that holds one rank's elements."""

    def __init__(self, sequence: Any, positions: Sequence[int], passes: LoaderPasses) -> None:
        self._sequence = sequence
        self._positions = positions
        self._passes = passes

    def __iter__(self) -> Iterator[Any]:
        return self._passes.loop(self._sequence[position] for position in self._positions)

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self._sequence[position] for position in self._positions[index]]
        return self._sequence[self._positions[index]]


class IterableShard:
    """One rank's elements of an iterable that has a length but no indices; can be iterated again if that can."""

    def __init__(self, iterable: Any, rank: int, size: int, passes: LoaderPasses) -> None:
        self._iterable = iterable
        self._rank = rank
        self._size = size
        self._passes = passes

    def __len__(self) -> int:
        return -(-len(self._iterable) // self._size)

    def __iter__(self) -> Iterator[Any]:
        return self._passes.loop(self._elements())

    def _elements(self) -> Iterator[Any]:
        first: list[Any] = []
        for items in _rounds(self._iterable, self._rank, self._size, self._passes):
            first = first or items
            wrapped = itertools.chain(items, itertools.cycle(first))
            yield next(itertools.islice(wrapped, self._rank, None))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._iterable, name)


class ListShard(list[Any]):
    """A list of one rank's elements; everywhere else, in a copy say, it is a plain one."""

    def __init__(self, elements: Iterable[Any], passes: LoaderPasses) -> None:
        super().__init__(elements)
        self._passes = passes

    def __iter__(self) -> Iterator[Any]:
        return self._passes.loop(super().__iter__())

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        return list, (self[:],)


class TupleShard(tuple[Any, ...]):
    """A tuple of one rank's elements; everywhere else, in a copy say, it is a plain one."""

    _passes: LoaderPasses

    def __new__(cls, elements: Iterable[Any], passes: LoaderPasses) -> TupleShard:
        made = super().__new__(cls, elements)
        made._passes = passes
        return made

    def __iter__(self) -> Iterator[Any]:
        return self._passes.loop(super().__iter__())

    def __reduce__(self) -> tuple[type[tuple[Any, ...]], tuple[tuple[Any, ...]]]:
        return tuple, (self[:],)


def shard(elements: Any, rank: int, size: int, passes: LoaderPasses, is_even: bool = True) -> Any:
    """This rank's shard, like what came in where it can be; loops over it are among these passes.

    What has no indices is iterated on every rank, drawing what all ranks draw, so that all see the same elements: a
    `zip` of loaders draws their order when it is iterated.

    With a length: every rank gets `ceil(length / N)` elements, completed by going round to the start.
    Without (a generator, `zip`, `enumerate`): every N-th element as it comes; an incomplete last round is dropped,
    with a warning if it is the only one.
    Uneven shards hold each element once: nothing is completed, and nothing dropped.
    Raises: CannotShard for a set, whose order differs from process to process.
    """
    if isinstance(elements, (set, frozenset)):
        raise CannotShard("shard: a set has another order in every process; give it sorted(...) instead")
    if isinstance(elements, Sized) and hasattr(elements, "__getitem__") and not hasattr(elements, "keys"):
        length = len(elements)
        positions = _positions(length, rank, size) if is_even else range(rank, length, size)
        return _elements_at(elements, positions, passes)
    if isinstance(elements, Sized) and is_even:
        return IterableShard(elements, rank, size, passes)
    if not isinstance(elements, Iterable):
        raise CannotShard(f"shard: a {type(elements).__name__} cannot be iterated")
    rounds = _rounds(elements, rank, size, passes)
    if not is_even:
        return passes.loop(items[rank] for items in rounds if len(items) > rank)
    return passes.loop(_of_full_rounds(rounds, rank, size))


def _of_full_rounds(rounds: Iterator[list[Any]], rank: int, size: int) -> Iterator[Any]:
    for number, items in enumerate(rounds):
        if len(items) == size:
            yield items[rank]
        elif not number:
            message = f"shard: {len(items)} elements, fewer than the {size} processes: none is left for any of them"
            warnings.warn(f"{message}. Use fewer processes, or smaller elements", stacklevel=2)


def _elements_at(sequence: Any, positions: Sequence[int], passes: LoaderPasses) -> Any:
    if isinstance(sequence, (torch.Tensor, numpy.ndarray)):
        return sequence[list(positions)]
    if not isinstance(sequence, (list, tuple)):
        return SequenceShard(sequence, positions, passes)
    taken = (sequence[position] for position in positions)
    return ListShard(taken, passes) if isinstance(sequence, list) else TupleShard(taken, passes)


def contiguous_part(inputs: Any, rank: int, size: int, is_padded: bool) -> Any:
    """This rank's contiguous part, the first ranks one element more; a new object, the given one stays as it is.

    A text is not divided: every rank gets it.
    """
    if size == 1 or isinstance(inputs, (str, bytes)):
        return inputs
    if isinstance(inputs, dict):
        lengths = {len(value) for value in inputs.values()}
        if len(lengths) > 1:
            raise CannotShard(f"split_between_processes: the dict's values have different lengths {sorted(lengths)}")
        return {key: contiguous_part(value, rank, size, is_padded) for key, value in inputs.items()}
    each, more = divmod(len(inputs), size)
    start = rank * each + min(rank, more)
    count = each + (rank < more)
    missing = each + (more > 0) - count if is_padded and len(inputs) else 0
    if hasattr(inputs, "column_names"):  # a dataset of Hugging Face, whose slices are dicts of columns
        return inputs.select([*range(start, start + count), *[len(inputs) - 1] * missing])
    own, last = inputs[start : start + count], inputs[-1:]
    if not missing:
        return own
    if isinstance(own, torch.Tensor):
        return torch.cat([own, *[last] * missing])
    if isinstance(own, numpy.ndarray):
        return numpy.concatenate([own, *[last] * missing])
    if isinstance(own, range):
        return [*own, *list(last) * missing]
    return own + last * missing


def _positions(length: int, rank: int, size: int) -> Sequence[int]:
    if length % size == 0:
        return range(rank, length, size)
    return [(step * size + rank) % length for step in range(-(-length // size))]


def _rounds(iterable: Iterable[Any], rank: int, size: int, passes: LoaderPasses) -> Iterator[list[Any]]:
    """The elements, as many at a time as there are ranks; this rank's as it was when the iterable gave it.

    So are all of the first round, with which the last may be completed.
    """
    is_plain = _draws_nothing(iterable)
    shared = nullcontext if is_plain else passes.streams.shared
    with shared():
        elements = _one_by_one(iter(iterable))
    for number in itertools.count():
        with shared():
            items = [
                element if is_plain or (number and position != rank) else tensors.map_leaves(copy_of, element)
                for position, element in enumerate(itertools.islice(elements, size))
            ]
        if not items:
            return
        yield items


def _one_by_one(elements: Iterator[Any]) -> Iterator[Any]:
    """A generator, because `iter` of an iterator may begin it anew, and what has ended would be asked again."""
    with suppress(StopIteration):
        while True:
            yield next(elements)


def _draws_nothing(iterable: Any) -> bool:
    """Whether to pass over this draws no random numbers, however many elements are asked for."""
    if isinstance(iterable, (zip, enumerate)):
        return all(map(_draws_nothing, iterable.__reduce__()[1][: None if isinstance(iterable, zip) else 1]))
    return type(iterable) in _PLAIN + _PLAIN_ITERATORS
