"""Deal out what an epoch consists of, indices or batches, with the truth about every step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any  # indices and batches are the user's

from accelify.runtime import nested
from accelify.runtime.passage import Step


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """How an epoch is divided among ranks."""

    rank: int = 0
    size: int = 1
    split_batches: bool = False
    even_batches: bool = True

    def count(self, batches: int) -> int:
        """How many steps this rank takes for so many batches of one process."""
        if self.split_batches:
            return batches
        whole, rest = divmod(batches, self.size)
        return whole + (rest > 0 if self.even_batches else self.rank < rest)


def dealt(
    items: Iterator[Any], sharing: Sharing, size_of: Callable[[Any], int | None], batch_size: int | None
) -> Iterator[tuple[Any, Step]]:
    """Item `k * N + r` for each k, in rounds of N. The last round is completed from the epoch's first items.

    With a fixed batch size the short last batch grows to the others' size in its round, so that all ranks hold alike.
    """
    first: list[Any] = []
    while True:
        items_of_round = list(itertools.islice(items, sharing.size))
        if not items_of_round:
            return
        first = first or items_of_round
        present = len(items_of_round)
        if present < sharing.size and not sharing.even_batches:
            sizes = [size_of(item) or 1 for item in items_of_round] + [0] * (sharing.size - present)
            if sharing.rank < present:
                yield items_of_round[sharing.rank], Step(rows=tuple(sizes), valid=tuple(sizes))
            return
        completed = _completed(items_of_round, first, sharing.size, batch_size if sharing.even_batches else None)
        real = [size_of(item) for item in items_of_round]
        rows = [size_of(item) for item in completed]
        absent = (0,) * (sharing.size - present)
        if None in rows:
            step = Step(rows=None, valid=(1,) * present + absent)
        else:
            step = Step(rows=tuple(map(int, rows)), valid=tuple(map(int, real)) + absent)  # type: ignore[arg-type]
        yield completed[sharing.rank], step


def _completed(items: list[Any], first: list[Any], size: int, batch_size: int | None) -> list[Any]:
    if batch_size is None:
        return items + [first[position % len(first)] for position in range(size - len(items))]
    target = max(map(len, items))
    again = itertools.cycle([index for item in first for index in item])
    whole = [[*item, *itertools.islice(again, target - len(item))] for item in items]
    return whole + [list(itertools.islice(again, target)) for _ in range(size - len(items))]


def _bounds(length: int, sharing: Sharing) -> tuple[int, int, Step]:
    """Which rows of a batch are this rank's: contiguous, the first ranks one more where N does not divide."""
    each, more = divmod(length, sharing.size)
    valid = tuple(each + (rank < more) for rank in range(sharing.size))
    start = sum(valid[: sharing.rank])
    rows = tuple(max(count, 1) for count in valid)
    if not valid[sharing.rank]:
        start = sharing.rank % length
    return start, start + rows[sharing.rank], Step(rows=rows, valid=valid, is_split=True)


def split_indices(batches: Iterator[Any], sharing: Sharing) -> Iterator[tuple[Any, Step]]:
    """This rank's slice of each batch of indices."""
    for batch in batches:
        indices = list(batch)
        if indices:
            start, stop, step = _bounds(len(indices), sharing)
            yield indices[start:stop], step


def slices(batches: Iterator[Any], sharing: Sharing) -> Iterator[tuple[Any, Step]]:
    """This rank's slice of each batch itself. Raises: CannotSlice for a batch without rows."""
    for batch in batches:
        length = nested.rows(batch)
        if not length:
            raise nested.CannotSlice(f"split_batches: a batch of type {type(batch).__name__} has no rows to divide")
        start, stop, step = _bounds(length, sharing)
        yield nested.slice_rows(batch, start, stop, length), step
