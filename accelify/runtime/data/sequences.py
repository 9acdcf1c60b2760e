"""Shard what is not a loader: the k-th element of rank r is element `k * N + r`, and all ranks get equally many."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, overload  # elements are the user's

import numpy
import torch

from accelify.errors import AccelifyError

_NEVER = object()


class CannotShard(AccelifyError, TypeError):
    """A collection without an order that is the same on all ranks."""


class SequenceShard(Sequence[Any]):
    """A view of a sequence that holds one rank's elements."""

    def __init__(self, sequence: Any, rank: int, size: int) -> None:
        self._sequence = sequence
        self._positions = _positions(len(sequence), rank, size)

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

    def __init__(self, iterable: Any, rank: int, size: int) -> None:
        self._iterable = iterable
        self._rank = rank
        self._size = size

    def __len__(self) -> int:
        return -(-len(self._iterable) // self._size)

    def __iter__(self) -> Iterator[Any]:
        first: list[Any] = []
        for items in _rounds(iter(self._iterable), self._size):
            first = first or items
            wrapped = itertools.chain(items, itertools.cycle(first))
            yield next(itertools.islice(wrapped, self._rank, None))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._iterable, name)


def shard(elements: Any, rank: int, size: int, is_even: bool = True) -> Any:
    """This rank's shard, of the type that came in where it can be; in one process the same object.

    With a length: every rank gets `ceil(length / N)` elements, completed by going round to the start.
    Without (a generator, `zip`, `enumerate`): every N-th element as it comes; an incomplete last round is dropped.
    Uneven shards hold each element once: nothing is completed, and nothing dropped.
    Raises: CannotShard for a set, whose order differs from process to process.
    """
    if size == 1:
        return elements
    if isinstance(elements, (set, frozenset)):
        raise CannotShard("shard: a set has another order in every process; give it sorted(...) instead")
    if not is_even:
        return _uneven(elements, rank, size)
    if isinstance(elements, (list, tuple)):
        shard_items = [elements[position] for position in _positions(len(elements), rank, size)]
        return shard_items if isinstance(elements, list) else tuple(shard_items)
    if isinstance(elements, (torch.Tensor, numpy.ndarray)):
        return elements[list(_positions(len(elements), rank, size))]
    if isinstance(elements, range) and len(elements) % size == 0:
        return elements[rank::size]
    if isinstance(elements, Sized) and hasattr(elements, "__getitem__") and not hasattr(elements, "keys"):
        return SequenceShard(elements, rank, size)
    if isinstance(elements, Sized):
        return IterableShard(elements, rank, size)
    if isinstance(elements, Iterable):
        return (items[rank] for items in _rounds(iter(elements), size) if len(items) == size)
    raise CannotShard(f"shard: a {type(elements).__name__} cannot be iterated")


def _uneven(elements: Any, rank: int, size: int) -> Any:
    if isinstance(elements, (list, tuple, range, torch.Tensor, numpy.ndarray)):
        return elements[rank::size]
    if isinstance(elements, Iterable):
        return itertools.islice(elements, rank, None, size)
    raise CannotShard(f"shard: a {type(elements).__name__} cannot be iterated")


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


def _rounds(elements: Iterator[Any], size: int) -> Iterator[list[Any]]:
    # By a generator, as `iter` of an iterator may begin it anew
    following = (element for element in iter(elements.__next__, _NEVER))
    while items := list(itertools.islice(following, size)):
        yield items
