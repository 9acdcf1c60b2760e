"""Deal out what an epoch consists of, indices or batches, with the truth about every step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any  # indices and batches are the user's

from accelify.runtime import nested
from accelify.runtime.passage import ABSENT, Step


@dataclass(kw_only=True)
class Sharing:
    """How an epoch is divided among ranks; one for all loaders of an accelerator."""

    rank: int = 0
    size: int = 1
    split_batches: bool = False
    even_batches: bool = True

    @property
    def batches_per_step(self) -> int:
        """How many of one process's batches all ranks together take in a step."""
        return 1 if self.split_batches else self.size

    def count(self, batches: int) -> int:
        """How many steps this rank takes for so many batches of one process."""
        if self.split_batches:
            return batches
        whole, rest = divmod(batches, self.size)
        return whole + (rest > 0 if self.even_batches else self.rank < rest)


def dealt(
    items: Iterator[Any],
    sharing: Sharing,
    size_of: Callable[[Any], int | None],
    batch_size: int | None,
    start: int = 0,
) -> Iterator[tuple[Any, Step]]:
    """Item `k * N + r` for each k, in rounds of N. The last round is completed from the epoch's first items.

    With a fixed batch size the rows of an incomplete last round are dealt out evenly instead, so that no rank sees what
    another has seen; fewer than N rows are added to make the shares equal. Where they need not be equal, a rank without
    an item in the last round is told of it by ABSENT. The first `start` items are left out.
    """
    first: list[Any] = []
    if start:
        # The epoch's first items complete its last round, also when the pass begins after them.
        head = list(itertools.islice(items, max(start, sharing.size)))
        first, items = head[: sharing.size], itertools.chain(head[start:], items)
    while True:
        items_of_round = list(itertools.islice(items, sharing.size))
        if not items_of_round:
            return
        first = first or items_of_round
        present = len(items_of_round)
        if present < sharing.size and not sharing.even_batches:
            sizes = [size_of(item) or 1 for item in items_of_round] + [0] * (sharing.size - present)
            own = items_of_round[sharing.rank] if sharing.rank < present else ABSENT
            yield own, Step(rows=tuple(sizes), valid=tuple(sizes))
            return
        real = [size_of(item) for item in items_of_round]
        if batch_size is not None and sharing.even_batches and _is_short(items_of_round, sharing.size, batch_size):
            share, step = _even_share(items_of_round, first, sharing)
            yield share, step
            continue
        completed = items_of_round + [first[position % len(first)] for position in range(sharing.size - present)]
        rows = [size_of(item) for item in completed]
        absent = (0,) * (sharing.size - present)
        if None in rows:
            step = Step(rows=None, valid=(1,) * present + absent)
        else:
            step = Step(rows=tuple(map(int, rows)), valid=tuple(map(int, real)) + absent)  # type: ignore[arg-type]
        yield completed[sharing.rank], step


def _is_short(items: list[Any], size: int, batch_size: int) -> bool:
    """Whether a round has fewer rows than N whole batches."""
    return len(items) < size or any(len(item) < batch_size for item in items)


def _even_share(items: list[Any], first: list[Any], sharing: Sharing) -> tuple[list[Any], Step]:
    """This rank's part of the rows of a round, the parts equally long.

    A part has two rows at least, where a single one would not do: BatchNorm has no variance of one.
    """
    rows = [index for item in items for index in item]
    each = -(-len(rows) // sharing.size)
    if each == 1 and max(map(len, items)) > 1:
        each = 2
    again = itertools.cycle([index for item in first for index in item])
    rows += itertools.islice(again, each * sharing.size - len(rows))
    real = sum(map(len, items))
    valid = tuple(min(max(real - rank * each, 0), each) for rank in range(sharing.size))
    start = sharing.rank * each
    return rows[start : start + each], Step(rows=(each,) * sharing.size, valid=valid)


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
