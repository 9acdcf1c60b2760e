"""The collectives outside the backward pass: gather, reduce, broadcast and barrier, each checked on all ranks first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol  # Any: nested containers of anything go in and come out

import numpy
import torch

from accelify.errors import AccelifyError
from accelify.runtime.world.desync import call_site, disagreement, hash_of_text, missing
from accelify.runtime.world.process_group import World
from accelify.runtime.world.tensors import (
    is_list_of_objects,
    leaves,
    map_leaves,
    signature,
    structure_of,
    with_keys_of,
)
from accelify.runtime.world.transport import Transport

REDUCTIONS = ("sum", "mean", "max", "min")

Kinds = tuple[Any, ...]  # for each leaf: None for a number 0, else what it is


class BadReduction(AccelifyError, ValueError):
    """A reduction that does not exist."""


class Copies(Protocol):
    """What every rank holds a copy of: models, whose buffers a forward pass sets from each rank's own batch."""

    def have_changed(self) -> bool:
        """Whether this rank's buffers may have changed since they last agreed."""

    def synchronise_buffers(self) -> None:
        """Make the buffers agree; every rank does so at once."""


class Collectives:
    """One process: everything is already everywhere."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Collectives:
        """The same object: it belongs to the process, also where a copied loader uses it."""
        return self

    def keep_alike(self, copies: Copies) -> None:
        """They are the only ones."""

    def agree(self, operation: str, detail: str = "") -> None:
        """Nothing to agree on."""

    def is_alike(self, operation: str, detail: str) -> bool:
        """Whether every rank has this detail."""
        return True

    def barrier(self, name: str = "wait_for_everyone") -> None:
        """Nobody to wait for."""

    def gather(self, tree: Any) -> Any:
        """The tree itself; a number as a list of one."""
        return map_leaves(lambda leaf: [leaf] if _is_number(leaf) else leaf, tree)

    def gather_rows(self, tree: Any, keep: Sequence[int] | None) -> Any:
        """The tree itself."""
        return tree

    def reduce(self, tree: Any, reduction: str) -> Any:
        """The tree itself: the sum, mean and extremes of one."""
        _check_reduction(reduction)
        return tree

    def broadcast(self, tree: Any, source: int = 0) -> Any:
        """The tree itself."""
        return tree

    def pad(self, tree: Any, dim: int, value: int, is_first: bool) -> Any:
        """The tree itself: it is as long as the longest."""
        return tree

    def gather_object(self, value: Any) -> list[Any]:
        """The object of the only rank."""
        return [value]

    def counts(self, mine: int, operation: str = "the number of rows") -> list[int]:
        """This rank's number."""
        return [mine]

    def scatter_object(self, values: list[Any]) -> Any:
        """The only rank's object."""
        return values[0]

    def broadcast_object(self, value: Any, source: int = 0) -> Any:
        """The object itself."""
        return value


class GroupCollectives(Collectives):
    """Several processes. Each call first compares what the ranks ask for, and raises on all of them if it differs.

    Cost: one all-gather of 16 bytes for the comparison, on the CPU. One bit of it says whether buffers have changed:
    where all ranks come together, what has changed on any of them is made to agree.
    """

    def __init__(self, *, world: World, transport: Transport) -> None:
        self._world = world
        self._transport = transport
        self._copies: Copies | None = None

    def keep_alike(self, copies: Copies) -> None:
        """Have the buffers of these agree after each comparison."""
        self._copies = copies

    def agree(self, operation: str, detail: str = "") -> None:
        """Return once every rank has asked for the same operation with the same detail.

        Raises: Desync on every rank, naming what each asked for and the line that did.
        """
        if not self.is_alike(operation, detail):
            raise disagreement(self._transport.objects(f"{call_site()} {operation} {detail}".strip()))

    def is_alike(self, operation: str, detail: str) -> bool:
        """Whether every rank has this detail, at an operation for which every rank must have come.

        Raises: Desync where another operation was asked for.
        """
        has_changed = self._copies is not None and self._copies.have_changed()
        numbers = self._exchange(operation, hash_of_text(detail) & ~1 | has_changed, detail)
        if self._copies is not None and any(number & 1 for number in numbers):
            self._copies.synchronise_buffers()
        return all(number >> 1 == numbers[0] >> 1 for number in numbers)

    def _exchange(self, operation: str, number: int, detail: str = "") -> list[int]:
        """Every rank's number, once all have come for this operation."""
        mine = torch.tensor([hash_of_text(operation), number], dtype=torch.int64)
        try:
            everyone = self._transport.gather(mine, operation, detail)
        except RuntimeError as error:
            raise missing(self._world, f"{operation} {detail}", error) from None
        received = [one.tolist() for one in everyone]
        if any(call != received[0][0] for call, _ in received):
            raise disagreement(self._transport.objects(f"{call_site()} {operation} {detail}".strip()))
        return [number for _, number in received]

    def _completed(self, asked: str, tree: Any) -> Any:
        """The tree of a sum with this rank's zeros as the others have them, where that is all in which they differ."""
        structures = self._transport.objects(None if tree is None else structure_of(tree))
        tree = tree if None in structures else with_keys_of(tree, structures)
        known = () if tree is None else tuple(kinds_of(tree, is_leaf) for is_leaf in _ZEROS)
        everyone: list[Any] = self._transport.objects((f"{call_site()} {asked}", known))
        for at, is_leaf in enumerate(_ZEROS if tree is not None else ()):
            kinds = [known[at] if known else None for _, known in everyone]
            completed = filled(tree, kinds, self._world.device, is_leaf)
            if completed is not None:
                return completed
        raise disagreement([call for call, _ in everyone])

    def barrier(self, name: str = "wait_for_everyone") -> None:
        """Return once every rank has come here."""
        self.agree(name)

    def gather(self, tree: Any) -> Any:
        """Every rank's tensors, one rank's after the other's.

        Shapes: (n, ...) on each rank -> (world_size * n, ...); a scalar tensor -> (world_size,).
        A number becomes the list of all ranks' numbers.
        Raises: Desync when structure, dtype or shape differ between ranks.
        """
        self.agree("gather", signature(tree))
        return map_leaves(self._gather_leaf, tree)

    def _gather_leaf(self, leaf: Any) -> Any:
        if _is_number(leaf):
            return self._transport.objects(leaf)
        if isinstance(leaf, numpy.ndarray):
            return self._gather_leaf(torch.as_tensor(leaf)).numpy()
        if not isinstance(leaf, torch.Tensor):
            raise TypeError(f"gather takes tensors and numbers, not {type(leaf).__name__}: use gather_object for it")
        return torch.cat([part.reshape(1) if leaf.ndim == 0 else part for part in self._transport.gather(leaf)])

    def gather_rows(self, tree: Any, keep: Sequence[int] | None) -> Any:
        """Every rank's rows, of each only the first `keep[rank]`; None keeps all. The row counts may differ.

        Shapes: (n_r, ...) -> (sum of keep, ...). A list without tensors is taken as one object per row, any other
        object as one per rank.
        """
        self.agree("gather_for_metrics", signature(tree, ragged=True))
        return map_leaves(lambda leaf: self._rows_of(leaf, keep), tree, is_leaf=is_list_of_objects)

    def _rows_of(self, leaf: Any, keep: Sequence[int] | None) -> Any:
        if isinstance(leaf, list):
            everyone = self._transport.objects(leaf)
            return [value for rank, values in enumerate(everyone) for value in values[: keep[rank] if keep else None]]
        if isinstance(leaf, numpy.ndarray):
            return self._rows_of(torch.as_tensor(leaf), keep).numpy()
        if leaf is None:  # on every rank, by its signature: a field that an output does not have
            return None
        if not isinstance(leaf, torch.Tensor):
            return [value for rank, value in enumerate(self._transport.objects(leaf)) if keep is None or keep[rank]]
        if leaf.ndim == 0:
            parts = self._transport.gather(leaf)
            return torch.stack([part for rank, part in enumerate(parts) if keep is None or keep[rank]])
        lengths = self._transport.objects(len(leaf))
        longest = max(lengths)
        padded = leaf.detach()
        if len(leaf) < longest:
            filler = leaf.new_zeros((longest - len(leaf), *leaf.shape[1:]))
            padded = torch.cat([padded, filler])
        parts = self._transport.gather(padded)
        counts = lengths if keep is None else keep
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    def reduce(self, tree: Any, reduction: str) -> Any:
        """The sum, mean, max or min over ranks of each tensor or number, in kind: a number stays a number.

        The mean of integers is a float. In a sum a rank may have 0, or a list of zeros, for what is a tensor on others,
        and its dicts may lack keys that others have, or have them in another order.
        Raises: Desync when structure, dtype or shape differ between ranks otherwise.
        """
        _check_reduction(reduction)
        if not self.is_alike(f"reduce {reduction}", signature(tree)):
            tree = self._completed(f"reduce {reduction} {signature(tree)}", tree if reduction == "sum" else None)
        return map_leaves(lambda leaf: self._reduce_leaf(leaf, reduction), tree)

    def _reduce_leaf(self, leaf: Any, reduction: str) -> Any:
        if _is_number(leaf):
            # Python's own arithmetic keeps integers of any size and the last bit of a float.
            return _REDUCERS[reduction](self._transport.objects(leaf))
        if isinstance(leaf, numpy.ndarray):
            return self._reduce_leaf(torch.as_tensor(leaf), reduction).numpy()
        if not isinstance(leaf, torch.Tensor):
            raise TypeError(f"reduce takes tensors and numbers, not {type(leaf).__name__}")
        if leaf.is_complex():
            return torch.view_as_complex(self._reduce_leaf(torch.view_as_real(leaf.resolve_conj()), reduction))
        total = self._transport.reduce(leaf, reduction)
        if reduction == "mean":
            total = total / self._world.size
            return total.to(leaf.dtype) if leaf.is_floating_point() else total
        return total if leaf.dtype == torch.bool and reduction == "sum" else total.to(leaf.dtype)

    def broadcast(self, tree: Any, source: int = 0) -> Any:
        """The source rank's tensors and objects on every rank; the structure must agree."""
        self.agree("broadcast", signature(tree))
        return map_leaves(lambda leaf: self._broadcast_leaf(leaf, source), tree)

    def _broadcast_leaf(self, leaf: Any, source: int) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return self._transport.object_from(leaf, source)
        return self._transport.broadcast(leaf, source)

    def pad(self, tree: Any, dim: int, value: int, is_first: bool) -> Any:
        """Tensors padded with `value` along `dim` to the longest of all ranks; one without that dimension stays.

        Raises: Desync when structure, dtype or any other dimension differ between ranks.
        """
        self.agree("pad_across_processes", f"dim {dim} of {outline(tree, dim)}")

        def padded(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            sizes = self._transport.objects(leaf.size(dim) if -leaf.ndim <= dim < leaf.ndim else None)
            if None in sizes or max(sizes) == leaf.size(dim):
                return leaf
            shape = list(leaf.shape)
            shape[dim] = max(sizes) - leaf.size(dim)
            filler = leaf.new_full(shape, value)
            return torch.cat([filler, leaf] if is_first else [leaf, filler], dim=dim)

        return map_leaves(padded, tree)

    def gather_object(self, value: Any) -> list[Any]:
        """Every rank's object, in the order of ranks."""
        self.agree("gather_object")
        return self._transport.objects(value)

    def counts(self, mine: int, operation: str = "the number of rows") -> list[int]:
        """Every rank's number, in one small message: for what every step exchanges."""
        return self._exchange(operation, mine)

    def scatter_object(self, values: list[Any]) -> Any:
        """This rank's object of those that rank 0 has, one for each."""
        self.agree("the next batch from process 0")
        return self._transport.own_object(values, self._world.rank)

    def broadcast_object(self, value: Any, source: int = 0) -> Any:
        """The source rank's object on every rank."""
        self.agree("broadcast_object")
        return self._transport.object_from(value, source)


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, (bool, int, float, complex, numpy.number, numpy.bool_))


def _check_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise BadReduction(f"reduction {reduction!r}: choose one of {', '.join(REDUCTIONS)}")


_REDUCERS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "mean": lambda values: sum(values) / len(values),
    "max": max,
    "min": min,
}


def outline(tree: Any, dim: int) -> str:
    """A tree's structure, dtypes and shapes in one line, with a star for the length along a dimension."""

    def outlined(leaf: Any) -> str:
        if not isinstance(leaf, torch.Tensor):
            return type(leaf).__name__
        axis = dim + leaf.ndim if dim < 0 else dim
        shape = ["*" if at == axis else str(length) for at, length in enumerate(leaf.shape)]
        return f"{str(leaf.dtype).removeprefix('torch.')}[{','.join(shape)}]"

    return f"{signature(map_leaves(lambda leaf: 0, tree))} {' '.join(map(outlined, leaves(tree)))}"


def is_list_of_zeros(tree: Any) -> bool:
    """Whether this is `[0.0] * 3`, which becomes an array where arrays are added to it."""
    return type(tree) is list and bool(tree) and all(_is_number(part) and part == 0 for part in tree)


# What a rank's nothing is where others have a tensor: a number 0, or a list of as many (`[0.0] * 3`).
_ZEROS: tuple[Callable[[Any], bool], ...] = (lambda tree: False, is_list_of_zeros)


def kinds_of(tree: Any, is_leaf: Callable[[Any], bool] = _ZEROS[0]) -> Kinds:
    """The facts that ranks exchange to fill in their zeros: the structure of the containers, each leaf's kind."""
    found: list[Any] = []
    map_leaves(lambda leaf: found.append(_kind(leaf)), tree, is_leaf=is_leaf)
    return (signature(map_leaves(lambda leaf: 0, tree, is_leaf=is_leaf)), *found)


def _kind(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.dtype, tuple(leaf.shape), leaf.device.type
    if isinstance(leaf, numpy.ndarray):
        return leaf.dtype.str, leaf.shape, "numpy"
    if isinstance(leaf, list):
        return len(leaf)
    return None if isinstance(leaf, (int, float)) and leaf == 0 else "number"


def filled(
    tree: Any, everyone: Sequence[Kinds | None], device: torch.device, is_leaf: Callable[[Any], bool] = _ZEROS[0]
) -> Any:
    """The tree with its zeros as the others have them; None where that is not the only difference between ranks."""
    known = [kind for kind in everyone if kind is not None]
    if len(known) < len(everyone) or len({(kind[0], len(kind)) for kind in known}) > 1:
        return None
    agreed = [_agreed({kind[position] for kind in known}) for position in range(1, len(known[0]))]
    if None in agreed:
        return None
    wanted = iter(agreed)

    def fill(leaf: Any) -> Any:
        kind = next(wanted)
        return _zeros(kind, device) if isinstance(kind, tuple) and not isinstance(_kind(leaf), tuple) else leaf

    return map_leaves(fill, tree, is_leaf=is_leaf)


def _agreed(kinds: set[Any]) -> Any:
    """What all ranks have, or would have; None where they differ in more than in zeros."""
    lengths = {kind for kind in kinds if isinstance(kind, int)}
    found = kinds - lengths - {None}
    if len(found) > 1:
        return None
    kind = found.pop() if found else "number"
    is_as_long = isinstance(kind, tuple) and lengths == {*kind[1][-1:]}
    is_alike = not lengths or (kinds == lengths and len(lengths) == 1)
    return kind if is_as_long or is_alike else None


def _zeros(kind: tuple[Any, tuple[int, ...], str], device: torch.device) -> Any:
    dtype, shape, place = kind
    if place == "numpy":
        return numpy.zeros(shape, dtype)
    return torch.zeros(shape, dtype=dtype, device="cpu" if place == "cpu" else device)
