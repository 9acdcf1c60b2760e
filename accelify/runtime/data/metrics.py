"""The rows of a batch that count: of all ranks, or of one; what was added to even out the last step does not."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any  # what is gathered is whatever the user's script made

import torch

from accelify.errors import AccelifyError
from accelify.runtime.data import graphs
from accelify.runtime.data.passes import Left, LoaderPass, LoaderPasses, Step
from accelify.runtime.data.untrimmed_variables import untrimmed_beside
from accelify.runtime.world import tensors
from accelify.runtime.world.collectives import Collectives
from accelify.runtime.world.process_group import World


class CannotGather(AccelifyError):
    """A metric whose rows cannot be distinguished from those that were added to even out the last step."""


class Row:
    """One sample's value, gathered as a single object whatever it holds: no dataclass, whose fields are containers.

    It is sent with its tensors on the CPU; each rank moves them to its own device.
    """

    def __init__(self, value: Any) -> None:
        self._value = tensors.map_leaves(_to_cpu, value)

    def value_on(self, device: torch.device) -> Any:
        """The value on the device on which a rank wants it."""
        return tensors.map_leaves(
            lambda leaf: leaf.tensor.to(device) if isinstance(leaf, _CpuTensor) else leaf, self._value
        )


class _CpuTensor:
    """A tensor that was on a device."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor.cpu()


def _to_cpu(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return leaf.detach() if leaf.device.type == "cpu" else _CpuTensor(leaf.detach())


class Metrics:
    """Values that a script collects from the batches of prepared loaders, without the rows added to even them out."""

    def __init__(self, *, world: World, collectives: Collectives, passes: LoaderPasses) -> None:
        self._world = world
        self._collectives = collectives
        self._passes = passes

    def gather(self, values: Any, *, by_element: bool, per: str | None) -> Any:
        """The rows of all ranks in the order of one process; `by_element`: each element of a list is a row.

        per: what an element of the values stands for that the loop left last has collected, "row" or "batch"; None
        for values of the batch that the script is at. A row may have several elements, as many as any other.
        Raises: CannotGather where that is not known.
        """
        if per not in (None, "row", "batch"):
            raise ValueError(f"per={per!r}: choose row or batch")
        if self._world.size == 1:
            return values
        if per is None and not (by_element and isinstance(values, list)):
            return self._gathered(values, per)
        gathered = self._gathered(tensors.map_leaves(_as_rows, values, is_leaf=_is_list), per)
        return tensors.map_leaves(self._as_values, gathered, is_leaf=_is_list)

    def _gathered(self, tree: Any, per: str | None) -> Any:
        passes, collectives, rank = self._passes, self._collectives, self._world.rank
        if per is not None:
            return _of_loop(tree, per, passes.left, collectives)
        at = passes.current
        if not passes.is_inside and not all(left.is_unpadded for left in passes.left):
            problem = _problem_after_loop(tree, None if at is None else at.step, passes.left, rank)
            _raise_on_all(collectives, problem, _AFTER_LOOP)
        return _of_step(tree, at, collectives, rank)

    def _as_values(self, leaf: Any) -> Any:
        """The values that were sent row by row, on this rank's device."""
        if not isinstance(leaf, list):
            return leaf
        return [one.value_on(self._world.device) if isinstance(one, Row) else one for one in leaf]

    def trim(self, values: Any) -> Any:
        """This rank's rows of the current batch; no other rank is asked."""
        step, rank = self._passes.step, self._world.rank
        trimmed = _trim_rows(values, step, rank)
        if trimmed is not values and step is not None and step.rows and step.rows[rank] != step.valid[rank]:
            _warn_of_untrimmed(sys._getframe(2), values, step.rows[rank], step.valid[rank])
        return trimmed

    def mean(self, mean: Any, function: Callable[..., Any], rows: Sequence[Any], options: dict[str, Any]) -> Any:
        """The function's mean over this rank's rows that count: the given one where all do, zero where none does."""
        step, rank = self._passes.step, self._world.rank
        if step is None or step.rows is None or step.rows[rank] == step.valid[rank]:
            return mean
        if not step.valid[rank]:
            return (mean.detach() if isinstance(mean, torch.Tensor) else mean) * 0
        with torch.no_grad():
            rows, options = _trim_rows((tuple(rows), options), step, rank)
            return function(*rows, **options)


_AFTER_LOOP = (
    "Call it in the loop, on each batch; or say what an element stands for that the loop collected, by per='row' or "
    "per='batch'; gather takes everything as it is"
)
_IN_LOOP = "Give it one row per sample; for what comes from a loader that is not prepared, use gather"


def _is_list(tree: Any) -> bool:
    return isinstance(tree, list)


def _as_rows(leaf: Any) -> Any:
    """A list's elements as one object each, where they are not plain already."""
    return [Row(each) for each in leaf] if isinstance(leaf, list) and not tensors.is_list_of_objects(leaf) else leaf


def _raise_on_all(collectives: Collectives, problem: str, advice: str) -> None:
    """Raises: CannotGather on all ranks where any has a problem: one that has none would wait for the others."""
    if not collectives.is_alike("gather_for_metrics", problem) or problem:
        problems = enumerate(collectives.gather_object(problem))
        found = "; ".join(f"rank {at} has {what}" for at, what in problems if what)
        raise CannotGather(f"gather_for_metrics: {found}. {advice}")


def _of_loop(tree: Any, per: str, all_left: Sequence[Left], collectives: Collectives) -> Any:
    """The values collected in the loop that the script left last, in the order of one process.

    Raises: CannotGather where that is not one element for each row, or batch, on every rank.
    """
    left = all_left[-1] if all_left else Left((), "no prepared loader")
    mine = len(left.steps), [*dict.fromkeys(length for _, length in _lengths(tree))]
    everyone = collectives.gather_object(mine)
    lengths = [own for _, own in everyone]
    readings = _readings(left.steps, per) if all(taken == mine[0] for taken, _ in everyone) else []
    if per == "row":
        readings += [scaled for reading in readings if (scaled := _several(reading, lengths)) is not None]
    found = [begin for reading in readings if (begin := _begin_of(reading, lengths, left.is_broken)) is not None]
    if not found:
        totals = (
            [sum(counts) for counts in zip(*(step.rows or () for step in readings[0]), strict=True)] if readings else []
        )
        given = f", which gave them {totals}" if totals else ""
        raise CannotGather(
            f"gather_for_metrics(per={per!r}): the ranks have {lengths} elements, not one for each {per} of the loop "
            f"that was left last, over {left.loader}{given}. Collect each {per} of it, or use gather"
        )
    everything = collectives.gather_rows(tree, None)
    if not found[0]:
        return everything
    return tensors.map_leaves(_ordering(_order(found[0])), everything, is_leaf=tensors.is_list_of_objects)


def _readings(steps: Sequence[Step], per: str) -> list[list[Step]]:
    """How a list collected in a loop of these steps may be read: an element for each batch, or one for each row."""
    if per == "batch":
        return [[_of_batches(step) for step in steps]]
    return [] if any(step.rows is None for step in steps) else [list(steps), [_trimmed(step) for step in steps]]


def _several(reading: list[Step], lengths: list[list[int]]) -> list[Step] | None:
    """The steps with several elements for each row, as of flattened masks; None where not each row has as many."""
    steps = [(step.rows or (), step.valid) for step in reading]
    totals = [sum(counts) for counts in zip(*(rows for rows, _ in steps), strict=True)]
    counts = {own[0] / total for own, total in zip(lengths, totals, strict=True) if len(own) == 1 and total}
    count = int(counts.pop()) if len(counts) == 1 else 0
    if [[total * count] for total in totals] != lengths:
        return None
    return [Step(rows=tuple(n * count for n in rows), valid=tuple(n * count for n in valid)) for rows, valid in steps]


def _begin_of(reading: list[Step], lengths: list[list[int]], is_broken: bool) -> list[Step] | None:
    """The steps of which each rank has as many elements: all, or the first ones of a loop that was broken off."""
    totals = [[0] for _ in lengths]
    if totals == lengths and (is_broken or not reading):
        return []
    for count, step in enumerate(reading, start=1):
        totals = [[total + rows] for (total,), rows in zip(totals, step.rows or (), strict=True)]
        if totals == lengths and (is_broken or count == len(reading)):
            return reading[:count]
    return None


def _of_step(tree: Any, at: LoaderPass | None, collectives: Collectives, rank: int) -> Any:
    """The rows of all ranks in one step."""
    step = None if at is None else at.step
    if at is None or step is None or step.is_unpadded:
        return collectives.gather_rows(tree, None)
    problem = _problem(tree, step, rank)
    _raise_on_all(collectives, problem, f"The rest were added to even out the last step of {at.loader}. {_IN_LOOP}")
    return collectives.gather_rows(tree, step.valid)


def _problem_after_loop(tree: Any, step: Step | None, all_left: Sequence[Left], rank: int) -> str:
    """Which values may come from a loop that added rows; empty where all are of the current batch or have no rows."""
    lengths = {length for _, length in _lengths(tree)}
    own = step.rows[rank] if step is not None and step.rows else None
    padded = [left for left in all_left if not left.is_unpadded]
    readings = [reading for left in padded for per in ("row", "batch") for reading in _readings(left.steps, per)]
    of_loop = {sum(each.rows[rank] for each in reading if each.rows) for reading in readings}
    if not lengths or (lengths == {own} and own not in of_loop):
        return ""
    return f"{sorted(lengths)} rows after a loop over {padded[-1].loader}, which added some to even out its last step"


def _trim_rows(tree: Any, step: Step | None, rank: int) -> Any:
    """This rank's rows of a step's batch that count; the tree itself where all do, or where that is not known."""
    if step is None or step.rows is None or step.is_unpadded:
        return tree
    rows, count = step.rows[rank], step.valid[rank]
    if any(n != rows and (count or not _are_of_rows(n, rows)) for _, n in _lengths(tree)):
        return tree

    def trim(leaf: Any) -> Any:
        if graphs.is_batch(leaf):
            return graphs.first(leaf, count)
        return leaf[:count] if isinstance(leaf, list) or (hasattr(leaf, "ndim") and leaf.ndim) else leaf

    return tensors.map_leaves(trim, tree, is_leaf=tensors.is_list_of_objects)


def _are_of_rows(length: int, rows: int) -> bool:
    """Whether so many values may come from rows: some of each, or of a part of them. All go where no row counts."""
    return bool(length and rows) and (length % rows == 0 or rows % length == 0)


def _warn_of_untrimmed(frame: FrameType, values: Any, rows: int, count: int) -> None:
    """Warn where the script goes on to compute with rows that were trimmed and others that were not."""
    found = untrimmed_beside(frame, [leaf for leaf, _ in _lengths(values)], rows)
    if found is not None:
        name, line = found
        warnings.warn(
            f"trim_for_metrics: `{name}`, which line {line} reads beside what is trimmed here, still has {rows} rows, "
            f"of which {count} count; the rest were added to even out the last step. Trim `{name}`, too",
            stacklevel=4,
        )


def _trimmed(step: Step) -> Step:
    """A step of the rows that count alone."""
    return Step(rows=step.valid, valid=step.valid)


def _of_batches(step: Step) -> Step:
    """A step in which each batch is one row: what is collected once for a batch."""
    present = tuple(int(step.rows is None or step.rows[rank] > 0) for rank in range(len(step.valid)))
    return Step(rows=present, valid=tuple(int(rows > 0) for rows in step.valid))


def _problem(tree: Any, step: Step, rank: int) -> str:
    """Which of these values have another length than the rank's batch; empty where none has."""
    rows = step.rows[rank] if step.rows else None
    for leaf, length in _lengths(tree) if rows is not None else ():
        if length != rows:
            kind = f"tensor of shape {list(leaf.shape)}" if isinstance(leaf, torch.Tensor) else f"list of {length}"
            return f"a {kind} for a batch of {rows} rows, of which {step.valid[rank]} count"
    return ""


def _lengths(tree: Any) -> Iterator[tuple[Any, int]]:
    """The values in the tree that have rows, and how many: tensors, arrays, lists of objects."""
    found: list[tuple[Any, int]] = []

    def look(leaf: Any) -> Any:
        if graphs.is_batch(leaf):
            found.append((leaf, leaf.num_graphs))
        elif isinstance(leaf, list) or (hasattr(leaf, "ndim") and leaf.ndim):
            found.append((leaf, len(leaf)))
        return leaf

    tensors.map_leaves(look, tree, is_leaf=tensors.is_list_of_objects)
    return iter(found)


def _ordering(order: torch.Tensor) -> Callable[[Any], Any]:
    def put(leaf: Any) -> Any:
        if isinstance(leaf, list):
            return [leaf[position] for position in order.tolist()]
        if isinstance(leaf, torch.Tensor):
            return leaf[order.to(leaf.device)] if leaf.ndim else leaf
        return leaf[order.numpy()] if hasattr(leaf, "ndim") and leaf.ndim else leaf

    return put


def _order(history: Sequence[Step]) -> torch.Tensor:
    """Where, in all ranks' rows one rank after the other, the rows of the single-process order are."""
    ranks = range(len(history[0].valid))
    totals = [sum(step.rows[rank] for step in history if step.rows) for rank in ranks]
    starts = [sum(totals[:rank]) for rank in ranks]
    order: list[int] = []
    for step in history:
        for rank in ranks:
            order.extend(range(starts[rank], starts[rank] + step.valid[rank]))
            starts[rank] += step.rows[rank] if step.rows else 0
    return torch.tensor(order, dtype=torch.int64)
