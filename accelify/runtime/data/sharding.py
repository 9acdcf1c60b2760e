"""Deal out what an epoch consists of, indices or batches, with the truth about every step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any  # indices and batches are the user's

from accelify.runtime.data.passes import ABSENT, Step
from accelify.runtime.world import tensors


@dataclass(kw_only=True)
class Sharing:
    """How an epoch is divided among ranks; one for all loaders of an accelerator."""

    rank: int = 0
    size: int = 1
    split_batches: bool = False
    even_batches: bool = True
    dispatches: bool = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Sharing:
        """The very same: what is changed for an accelerator's loaders is changed for their copies."""
        return self

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


Take = Callable[[int], list[Any]]
# This rank's parts of an epoch, and the truth about each one's step.
Dealt = tuple[list[Any], list[Step]]


def taking(items: Iterator[Any]) -> Take:
    """What gives the next so many items, or what there still is."""

    def take(count: int) -> list[Any]:
        taken: list[Any] = []
        while len(taken) < count and (one := list(itertools.islice(items, 1))):
            taken += one
            # A generator that hands on a list's elements, as torch's samplers do, need not be resumed for each of them;
            # which list these are is seen once it has been resumed.
            inner = getattr(items, "gi_yieldfrom", None)
            if not isinstance(inner, _LIST_ITERATOR):
                return taken + list(itertools.islice(items, count - len(taken)))
            taken += itertools.islice(inner, count - len(taken))
        return taken

    return take


_LIST_ITERATOR: type[Any] = type(iter([]))


def dealt(
    take: Take,
    sharing: Sharing,
    size_of: Callable[[Any], int | None],
    batch_size: int | None = None,
    start: int = 0,
) -> Iterator[tuple[Any, Step]]:
    """Item `k * N + r` for each k, in rounds of N. The last round is completed from the epoch's first items.

    With a fixed batch size the rows of an incomplete last round are dealt out evenly instead, so that no rank sees what
    another has seen; fewer than N rows are added to make the shares equal. Where they need not be equal, a rank without
    an item in the last round is told of it by ABSENT. The first `start` items are left out.
    """
    # The epoch's first items complete its last round, also when the pass begins after them.
    head = take(max(start, sharing.size)) if start else []
    first, left = head[: sharing.size], head[start:]
    while items := left + take(sharing.size - len(left)):
        first, left = first or items, []
        yield _share(items, first, sharing, size_of, batch_size)


def deal_rows(rows: list[Any], batch_size: int, sharing: Sharing, start: int) -> Dealt:
    """What `dealt` gives for the batches of these rows, all at once."""
    span, begin = sharing.size * batch_size, start * batch_size
    rounds = max(len(rows) - begin, 0) // span
    end = begin + rounds * span
    parts = [rows[at : at + batch_size] for at in range(begin + sharing.rank * batch_size, end, span)]
    whole = (batch_size,) * sharing.size
    steps = [Step(rows=whole, valid=whole)] * rounds
    items, first = (_batches(some, batch_size) for some in (rows[end:], rows[:span]))
    if items:
        part, step = _share(items, first, sharing, len, batch_size)
        parts += [] if part is ABSENT else [part]
        steps.append(step)
    return parts, steps


def split_rows(rows: list[Any], batch_size: int, sharing: Sharing, start: int) -> Dealt:
    """This rank's slice of each batch of these rows, without the first `start` batches."""
    begin, end = start * batch_size, len(rows) - len(rows) % batch_size
    low, high, step = _bounds(batch_size, sharing)
    parts = [rows[at + low : at + high] for at in range(begin, end, batch_size)]
    steps = [step] * len(parts)
    if rest := rows[max(begin, end) :]:
        low, high, step = _bounds(len(rest), sharing)
        parts.append(rest[low:high])
        steps.append(step)
    return parts, steps


def _batches(rows: list[Any], batch_size: int) -> list[list[Any]]:
    return [rows[at : at + batch_size] for at in range(0, len(rows), batch_size)]


def _share(
    items: list[Any],
    first: list[Any],
    sharing: Sharing,
    size_of: Callable[[Any], int | None],
    batch_size: int | None,
) -> tuple[Any, Step]:
    """This rank's share of a round, and the truth about it."""
    present = len(items)
    absent = (0,) * (sharing.size - present)
    if absent and not sharing.even_batches:
        sizes = (*(size_of(item) or 1 for item in items), *absent)
        return items[sharing.rank] if sharing.rank < present else ABSENT, Step(rows=sizes, valid=sizes)
    if batch_size is not None and sharing.even_batches and _is_short(items, sharing.size, batch_size):
        return _even_share(items, first, sharing)
    completed = items + [first[position % len(first)] for position in range(len(absent))]
    rows = tuple(map(size_of, completed))
    if None in rows:
        return completed[sharing.rank], Step(rows=None, valid=(1,) * present + absent)
    return completed[sharing.rank], Step(rows=rows, valid=rows[:present] + absent)  # type: ignore[arg-type]


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


def split_indices(take: Take, sharing: Sharing, start: int) -> Iterator[tuple[Any, Step]]:
    """This rank's slice of each batch of indices; the first `start` left out."""
    take(start)
    while batches := take(1):
        indices = list(batches[0])
        if indices:
            low, high, step = _bounds(len(indices), sharing)
            yield indices[low:high], step


def slices(batches: Iterator[Any], sharing: Sharing) -> Iterator[tuple[Any, Step]]:
    """This rank's slice of each batch itself. Raises: CannotSlice for a batch without rows."""
    for batch in batches:
        length = tensors.rows(batch)
        if not length:
            raise tensors.CannotSlice(f"split_batches: a batch of type {type(batch).__name__} has no rows to divide")
        start, stop, step = _bounds(length, sharing)
        yield tensors.slice_rows(batch, start, stop, length), step
