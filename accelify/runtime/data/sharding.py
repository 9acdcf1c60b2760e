"""Shard an epoch's indices or batches, and know of every step how many rows each rank has and how many count."""

from __future__ import annotations

import itertools
from collections import UserDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any  # indices and batches are the user's

import numpy
import torch

from accelify.errors import AccelifyError
from accelify.runtime.data.passes import NO_BATCH, Step, moves_itself
from accelify.runtime.world import tensors


@dataclass(kw_only=True)
class Sharding:
    """How an epoch is sharded; one object for all loaders of an accelerator."""

    rank: int = 0
    size: int = 1
    split_batches: bool = False
    even_batches: bool = True
    dispatches: bool = False

    def drops_last(self, loader: Any) -> bool:
        """Whether an epoch's incomplete last round is left out, so that all ranks get full batches only."""
        parts = loader, getattr(loader, "batch_sampler", None)
        is_asked = any(getattr(part, "drop_last", False) is True for part in parts)
        return is_asked and self.even_batches and not self.split_batches and self.size > 1

    def __deepcopy__(self, memo: dict[int, Any]) -> Sharding:
        """The same object: what is changed for an accelerator's loaders is changed for their copies."""
        return self

    @property
    def batches_per_step(self) -> int:
        """How many of one process's batches all ranks together take in a step."""
        return 1 if self.split_batches else self.size

    def count(self, batches: int, *, drops_last: bool = False) -> int:
        """How many steps this rank takes for so many batches of one process."""
        if self.split_batches:
            return batches
        full, rest = divmod(batches, self.size)
        if drops_last:
            return full
        return full + (rest > 0 if self.even_batches else self.rank < rest)


def separate_batches(batches: Iterator[Any], size: int, is_kept: Callable[[int], bool]) -> Iterator[Any]:
    """The batches in dicts, lists and tuples of their own: a loader may fill the same ones again for its next batch.

    Where it fills tensors or arrays again, the batches whose numbers are kept have copies of them; that is seen by
    their memory, which comes again within `size` batches. So many at the start of the pass are copied before it is
    known: they complete its last round. What is no plain container is not looked into.
    """
    recent: deque[dict[object, Any]] = deque(maxlen=size)  # while they are here, nothing else has their memory
    is_refilled = False
    for number, batch in enumerate(batches):
        filled: dict[object, Any] = {}
        separate = tensors.map_leaves(partial(_noted, filled), batch, is_leaf=_is_no_plain_container)
        is_refilled = is_refilled or any(not filled.keys().isdisjoint(before) for before in recent)
        recent.append(filled)
        if number < size or (is_refilled and is_kept(number)):
            separate = tensors.map_leaves(copy_of, separate, is_leaf=_is_no_plain_container)
        yield separate


_SIMPLE: frozenset[type] = frozenset((int, float, str, bool, bytes, type(None)))


def _noted(filled: dict[object, Any], leaf: Any) -> Any:
    """The leaf itself, noted under its memory if it is a tensor or an array."""
    if type(leaf) not in _SIMPLE and isinstance(leaf, (torch.Tensor, numpy.ndarray)):
        filled[_memory_of(leaf)] = leaf
    return leaf


def _memory_of(leaf: Any) -> object:
    """Where its numbers are, alike for all views that begin there; of what does not say that, the object's own."""
    if isinstance(leaf, numpy.ndarray) and leaf.size:
        return "cpu", leaf.ctypes.data
    is_plain = type(leaf) is torch.Tensor and leaf.layout == torch.strided and leaf.device.type in ("cpu", "cuda")
    return (str(leaf.device), leaf.data_ptr()) if is_plain and leaf.numel() and not leaf.is_nested else id(leaf)


def copy_of(leaf: Any) -> Any:
    """A copy of an array or a batch's tensor: a generator may fill the same memory with the next element."""
    if isinstance(leaf, numpy.ndarray):
        return leaf.copy()
    return leaf.clone() if isinstance(leaf, torch.Tensor) and not leaf.requires_grad else leaf


def _is_no_plain_container(tree: Any) -> bool:
    """Whether this is an object of its own kind; dicts of all kinds are none, nor named tuples."""
    if type(tree) in _SIMPLE:
        return True
    is_plain = type(tree) in (list, tuple) or isinstance(tree, (dict, UserDict)) or hasattr(tree, "_fields")
    return not is_plain or moves_itself(tree)


Take = Callable[[int], list[Any]]
# This rank's items of an epoch, and the step of each.
ShardAndSteps = tuple[list[Any], list[Step]]


def taker(items: Iterator[Any]) -> Take:
    """A function that takes the next so many items, or those that are left."""

    def take(count: int) -> list[Any]:
        taken: list[Any] = []
        while len(taken) < count and (one := list(itertools.islice(items, 1))):
            taken += one
            # A generator that yields a list's elements, as torch's samplers do, need not be resumed for each of them;
            # which list these are is seen once it has been resumed.
            inner = getattr(items, "gi_yieldfrom", None)
            if not isinstance(inner, _LIST_ITERATOR):
                return taken + list(itertools.islice(items, count - len(taken)))
            taken += itertools.islice(inner, count - len(taken))
        return taken

    return take


_LIST_ITERATOR: type[Any] = type(iter([]))


def shard_items(
    take: Take,
    sharding: Sharding,
    size_of: Callable[[Any], int | None],
    batch_size: int | None = None,
    start: int = 0,
    *,
    drops_last: bool = False,
) -> Iterator[tuple[Any, Step]]:
    """Item `k * N + r` for each k, in rounds of N. The last round is completed from the epoch's first items.

    With a fixed batch size the rows of an incomplete last round are divided evenly instead, so that no rank sees what
    another has seen; fewer than N rows are added to make the shards equal. Where they need not be equal, a rank without
    an item in the last round gets NO_BATCH. The first `start` items are left out. With `drops_last` an incomplete last
    round is left out, too.
    Raises: NoFullRound where that leaves nothing.
    """
    # The epoch's first items complete its last round, also when the pass begins after them.
    head = take(max(start, sharding.size)) if start else []
    first, left = head[: sharding.size], head[start:]
    while items := left + take(sharding.size - len(left)):
        if drops_last and len(items) < sharding.size:
            check_full_round(len(items), sharding, is_only=not first)
            return
        first, left = first or items, []
        yield _shard_of_round(items, first, sharding, size_of, batch_size)


class NoFullRound(AccelifyError):
    """An epoch with fewer full batches than processes, where `drop_last` asks for full ones. The same on every rank."""


def check_full_round(batches: int, sharding: Sharding, *, is_only: bool) -> None:
    """Raises: NoFullRound where these are the epoch's only batches."""
    if is_only and batches:
        raise NoFullRound(
            f"drop_last=True: an epoch has {batches} full batches, fewer than the {sharding.size} processes, so that "
            "none is left for any. Take a smaller batch size, fewer processes, or drop_last=False"
        )


def shard_rows(
    rows: list[Any], batch_size: int, sharding: Sharding, start: int, *, drops_last: bool = False
) -> ShardAndSteps:
    """The same as `shard_items` for the batches of these rows, all at once."""
    span, begin = sharding.size * batch_size, start * batch_size
    rounds = max(len(rows) - begin, 0) // span
    end = begin + rounds * span
    own = [rows[at : at + batch_size] for at in range(begin + sharding.rank * batch_size, end, span)]
    full = (batch_size,) * sharding.size
    steps = [Step(rows=full, valid=full)] * rounds
    items, first = (_batches(some, batch_size) for some in (rows[end:], rows[:span]))
    if drops_last and len(items) < sharding.size:
        check_full_round(len(items), sharding, is_only=not end)
    elif items:
        item, step = _shard_of_round(items, first, sharding, len, batch_size)
        own += [] if item is NO_BATCH else [item]
        steps.append(step)
    return own, steps


def split_rows(rows: list[Any], batch_size: int, sharding: Sharding, start: int) -> ShardAndSteps:
    """This rank's slice of each batch of these rows, without the first `start` batches."""
    begin, end = start * batch_size, len(rows) - len(rows) % batch_size
    low, high, step = _bounds(batch_size, sharding)
    items = [rows[at + low : at + high] for at in range(begin, end, batch_size)]
    steps = [step] * len(items)
    if rest := rows[max(begin, end) :]:
        low, high, step = _bounds(len(rest), sharding)
        items.append(rest[low:high])
        steps.append(step)
    return items, steps


def _batches(rows: list[Any], batch_size: int) -> list[list[Any]]:
    return [rows[at : at + batch_size] for at in range(0, len(rows), batch_size)]


def _shard_of_round(
    items: list[Any],
    first: list[Any],
    sharding: Sharding,
    size_of: Callable[[Any], int | None],
    batch_size: int | None,
) -> tuple[Any, Step]:
    """This rank's item of a round, and the round's step."""
    present = len(items)
    absent = (0,) * (sharding.size - present)
    if absent and not sharding.even_batches:
        sizes = (*(size_of(item) or 1 for item in items), *absent)
        return items[sharding.rank] if sharding.rank < present else NO_BATCH, Step(rows=sizes, valid=sizes)
    if batch_size is not None and sharding.even_batches and _is_short(items, sharding.size, batch_size):
        return _even_shard(items, first, sharding)
    completed = items + [first[position % len(first)] for position in range(len(absent))]
    rows = tuple(map(size_of, completed))
    if None in rows:
        return completed[sharding.rank], Step(rows=None, valid=(1,) * present + absent)
    return completed[sharding.rank], Step(rows=rows, valid=rows[:present] + absent)  # type: ignore[arg-type]


def _is_short(items: list[Any], size: int, batch_size: int) -> bool:
    """Whether a round has fewer rows than N full batches."""
    return len(items) < size or any(len(item) < batch_size for item in items)


def _even_shard(items: list[Any], first: list[Any], sharding: Sharding) -> tuple[list[Any], Step]:
    """This rank's rows of a round, equally many on all ranks.

    They are two at least, where a single one would not do: BatchNorm has no variance of one.
    """
    rows = [index for item in items for index in item]
    each = -(-len(rows) // sharding.size)
    if each == 1 and max(map(len, items)) > 1:
        each = 2
    again = itertools.cycle([index for item in first for index in item])
    rows += itertools.islice(again, each * sharding.size - len(rows))
    real = sum(map(len, items))
    valid = tuple(min(max(real - rank * each, 0), each) for rank in range(sharding.size))
    start = sharding.rank * each
    return rows[start : start + each], Step(rows=(each,) * sharding.size, valid=valid)


def _bounds(length: int, sharding: Sharding) -> tuple[int, int, Step]:
    """Which rows of a batch are this rank's: contiguous, the first ranks one more where N does not divide."""
    each, more = divmod(length, sharding.size)
    valid = tuple(each + (rank < more) for rank in range(sharding.size))
    start = sum(valid[: sharding.rank])
    rows = tuple(max(count, 1) for count in valid)
    if not valid[sharding.rank]:
        start = sharding.rank % length
    return start, start + rows[sharding.rank], Step(rows=rows, valid=valid, is_split=True)


def split_indices(take: Take, sharding: Sharding, start: int) -> Iterator[tuple[Any, Step]]:
    """This rank's slice of each batch of indices; the first `start` left out."""
    take(start)
    while batches := take(1):
        indices = list(batches[0])
        if indices:
            low, high, step = _bounds(len(indices), sharding)
            yield indices[low:high], step


def slices(batches: Iterator[Any], sharding: Sharding) -> Iterator[tuple[Any, Step]]:
    """This rank's slice of each batch itself. Raises: CannotSlice for a batch without rows."""
    for batch in batches:
        length = tensors.rows(batch)
        if not length:
            raise tensors.CannotSlice(f"split_batches: a batch of type {type(batch).__name__} has no rows to divide")
        start, stop, step = _bounds(length, sharding)
        yield tensors.slice_rows(batch, start, stop, length), step
