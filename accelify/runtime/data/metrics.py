"""The rows of a batch that count: of all ranks, or of one; what was added to even out the last step does not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any  # what is gathered is whatever the user's script made

import torch

from accelify.errors import AccelifyError
from accelify.runtime.data.passes import LoaderPasses, Step
from accelify.runtime.world import tensors
from accelify.runtime.world.collectives import Collectives
from accelify.runtime.world.process_group import World


class CannotGather(AccelifyError):
    """A metric whose rows cannot be told from those that were added to even out the last step."""


class Row:
    """One sample's value, gathered as a single object whatever it holds: no dataclass, whose fields are containers.

    It is sent with its tensors on the CPU; each rank moves them to its own device.
    """

    def __init__(self, value: Any) -> None:
        self._value = tensors.map_leaves(_to_cpu, value)

    def value_on(self, device: torch.device) -> Any:
        """What it holds, where a rank wants it."""
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
    """What a script collects of the batches of prepared loaders, without the rows that were added to even them out."""

    def __init__(self, *, world: World, collectives: Collectives, passes: LoaderPasses) -> None:
        self._world = world
        self._collectives = collectives
        self._passes = passes

    def gather(self, values: Any, *, by_element: bool) -> Any:
        """The rows of all ranks in the order of one process; `by_element`: each element of a list is a row.

        Raises: CannotGather where that cannot be told.
        """
        rank = self._world.rank
        if self._world.size == 1:
            return values
        if by_element and isinstance(values, list):
            gathered = _gather_rows([Row(each) for each in values], self._passes, self._collectives, rank)
            return [row.value_on(self._world.device) for row in gathered]
        return _gather_rows(values, self._passes, self._collectives, rank)

    def trim(self, values: Any) -> Any:
        """This rank's rows of the current batch; no other rank is asked."""
        return _trim_rows(values, self._passes.step, self._world.rank)

    def mean(self, mean: Any, function: Callable[..., Any], rows: Sequence[Any]) -> Any:
        """The function's mean over this rank's rows that count: the given one where all do, zero where none does."""
        step, rank = self._passes.step, self._world.rank
        if step is None or step.rows is None or step.rows[rank] == step.valid[rank]:
            return mean
        if not step.valid[rank]:
            return mean.detach() * 0
        with torch.no_grad():
            return function(*_trim_rows(tuple(rows), step, rank))


def _gather_rows(tree: Any, passes: LoaderPasses, collectives: Collectives, rank: int) -> Any:
    """The rows of all ranks that count, in the order of one process.

    Inside a loop over a prepared loader: of the current batch. After it: of everything collected in the loop, row by
    row, trimmed or not, or batch by batch, as the length says; a batch counts if a row of it does. A loop that was
    broken off has collected what its first steps had.
    Raises: CannotGather when rows were added and these are not theirs.
    """
    step = passes.step
    if passes.is_inside:
        return _of_step(tree, step, collectives, rank)
    history = passes.finished
    if any(step.rows is None for step in history):
        history = []
    everything = collectives.gather_rows(tree, None)
    lengths = {length for _, length in _lengths(everything)}
    if passes.current is not None and not _is_of_loop(lengths, history, step):
        return _of_step(tree, step, collectives, rank)
    ended = [steps for steps in _readings(history) if steps and lengths == {_total(steps)}]
    broken = passes.broken if passes.current is None else []
    begun = [steps for reading in _readings(broken) if (steps := _first_of(reading, lengths))]
    orders = [_order(steps) for steps in ended[:1] + begun[:1]]
    if orders and torch.equal(orders[0], orders[-1]):
        return tensors.map_leaves(_ordering(orders[0]), everything, is_leaf=tensors.is_list_of_objects)
    if orders:
        raise CannotGather(
            f"gather_for_metrics after a loop: {sorted(lengths)} rows may be those of the loop that ended last or of "
            "one that was broken off since. Call it in the loop, on each batch."
        )
    if all(step.is_unpadded for step in passes.finished):
        return everything
    raise CannotGather(
        f"gather_for_metrics after the loop: {sorted(lengths)} rows are not the {_total(history)} that the ranks were "
        "given, and some of those were added to even out the last step. Call it in the loop, on each batch."
    )


def _of_step(tree: Any, step: Step | None, collectives: Collectives, rank: int) -> Any:
    """The rows of all ranks in one step."""
    if step is None or step.is_unpadded:
        return collectives.gather_rows(tree, None)
    problem = _problem(tree, step, rank)
    # On all ranks: one that found nothing would wait for the others.
    if not collectives.is_alike("gather_for_metrics", problem) or problem:
        problems = enumerate(collectives.gather_object(problem))
        found = "; ".join(f"rank {at} has {what}" for at, what in problems if what)
        raise CannotGather(
            f"gather_for_metrics: {found}; the rest were added to even out the last step. Give it one row per "
            "sample, or use gather."
        )
    return collectives.gather_rows(tree, step.valid)


def _is_of_loop(lengths: set[int], history: Sequence[Step], step: Step | None) -> bool:
    """Whether these are the rows of the loop that ended last, not those of the batch around it, where it ended.

    Raises: CannotGather where they may be of either, and rows were added to one of them.
    """
    if not history or lengths not in ({_total(history)}, {_total([_of_batches(step) for step in history])}):
        return False
    is_either = step is not None and step.rows is not None and lengths == {sum(step.rows)}
    if is_either and step is not None and not all(one.is_unpadded for one in [*history, step]):
        raise CannotGather(
            f"gather_for_metrics after a loop in a loop: {sorted(lengths)} rows may be those of the loop that ended or "
            "of the batch around it, and some were added to even out a last step. Call it in the loop, on each batch."
        )
    return True


def _trim_rows(tree: Any, step: Step | None, rank: int) -> Any:
    """This rank's rows of a step's batch that count; the tree itself where they all do, or cannot be told."""
    if step is None or step.rows is None or step.is_unpadded or any(n != step.rows[rank] for _, n in _lengths(tree)):
        return tree
    count = step.valid[rank]

    def trim(leaf: Any) -> Any:
        return leaf[:count] if isinstance(leaf, list) or (hasattr(leaf, "ndim") and leaf.ndim) else leaf

    return tensors.map_leaves(trim, tree, is_leaf=tensors.is_list_of_objects)


def _total(history: Sequence[Step]) -> int:
    return sum(sum(step.rows) for step in history if step.rows)


def _trimmed(step: Step) -> Step:
    """A step of the rows that count alone."""
    return Step(rows=step.valid, valid=step.valid)


def _of_batches(step: Step) -> Step:
    """A step in which each batch is one row: what is collected once for a batch."""
    present = tuple(int(rows > 0) for rows in step.rows or ())
    return Step(rows=present, valid=tuple(int(rows > 0) for rows in step.valid))


def _readings(history: Sequence[Step]) -> list[list[Step]]:
    """What a script may have collected in a loop of these steps: rows, rows that count, or one for each batch."""
    return [list(history), [_trimmed(step) for step in history], [_of_batches(step) for step in history]]


def _first_of(history: Sequence[Step], lengths: set[int]) -> list[Step]:
    """The first steps, as many as make up these rows; none where none do."""
    totals = itertools.accumulate(sum(step.rows or ()) for step in history)
    return next((list(history[:count]) for count, total in enumerate(totals, start=1) if lengths == {total}), [])


def _problem(tree: Any, step: Step, rank: int) -> str:
    """What of this is not as long as the rank's batch; nothing where all is."""
    rows = step.rows[rank] if step.rows else None
    for leaf, length in _lengths(tree) if rows is not None else ():
        if length != rows:
            kind = f"tensor of shape {list(leaf.shape)}" if isinstance(leaf, torch.Tensor) else f"list of {length}"
            return f"a {kind} for a batch of {rows} rows, of which {step.valid[rank]} count"
    return ""


def _lengths(tree: Any) -> Iterator[tuple[Any, int]]:
    """What has rows in the tree, and how many: tensors, arrays, lists of objects."""
    found: list[tuple[Any, int]] = []

    def look(leaf: Any) -> Any:
        if isinstance(leaf, list) or (hasattr(leaf, "ndim") and leaf.ndim):
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
