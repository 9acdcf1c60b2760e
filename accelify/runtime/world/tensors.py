"""Map over containers of tensors: what a DataLoader yields, what a model returns, what a metric collects."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any  # a batch is whatever the user's collate function made

import numpy
import torch

from accelify.errors import AccelifyError

# Units: elements of a container that holds a script's own objects, and not its data
SHORT = 64


_WHOLE = "without split_batches each process takes batches of its own"


class CannotSlice(AccelifyError):
    """A batch that has no rows to take."""


def map_leaves(
    function: Callable[[Any], Any], tree: Any, *, is_leaf: Callable[[Any], bool] = lambda tree: False
) -> Any:
    """The same containers with `function` applied to everything in them that is no container."""
    if isinstance(tree, torch.Tensor) or is_leaf(tree):
        return function(tree)
    if isinstance(tree, Mapping):
        return _with_items(tree, {key: map_leaves(function, value, is_leaf=is_leaf) for key, value in tree.items()})
    if isinstance(tree, (list, tuple)):
        return _like(tree, [map_leaves(function, value, is_leaf=is_leaf) for value in tree])
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        changed = copy.copy(tree)
        for field in dataclasses.fields(tree):
            value = map_leaves(function, getattr(tree, field.name), is_leaf=is_leaf)
            object.__setattr__(changed, field.name, value)
        return changed
    return function(tree)


def is_list_of_objects(tree: Any) -> bool:
    """Whether this is a list with no tensor anywhere in it."""
    arrays = (torch.Tensor, numpy.ndarray)
    return isinstance(tree, list) and not any(isinstance(leaf, arrays) for leaf in leaves(tree))


def leaves(tree: Any) -> Iterator[Any]:
    """Everything in the containers that is no container, in order."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, Mapping):
        for value in tree.values():
            yield from leaves(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from leaves(value)
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for field in dataclasses.fields(tree):
            yield from leaves(getattr(tree, field.name))
    else:
        yield tree


def rows(batch: Any) -> int | None:
    """How many samples the batch holds: the length of its first tensor, else of its first list of leaves.

    Of an object, the `batch_size` that it says, where that is its length, too, as that of torchtext's batches.
    """
    for leaf in leaves(batch):
        if isinstance(leaf, torch.Tensor) and leaf.ndim:
            return len(leaf)
    if isinstance(batch, Mapping):
        return next((rows(value) for value in batch.values()), None)
    return len(batch) if isinstance(batch, (list, tuple)) or _says_its_length(batch) else None


def _says_its_length(batch: Any) -> bool:
    size = getattr(batch, "batch_size", None)
    return isinstance(size, int) and isinstance(batch, Sized) and len(batch) == size


def slice_rows(batch: Any, start: int, stop: int, length: int) -> Any:
    """Rows `start` to `stop` of a batch of `length` rows; what has no rows (a number, a name) is kept as it is.

    Raises: CannotSlice naming what has another number of rows.
    """
    if isinstance(batch, torch.Tensor):
        if batch.ndim and len(batch) != length:
            shape = list(batch.shape)
            raise CannotSlice(f"split_batches: a tensor of shape {shape} in a batch of {length} rows; {_WHOLE}")
        return batch[start:stop] if batch.ndim else batch
    if isinstance(batch, Mapping):
        return _with_items(batch, {key: slice_rows(value, start, stop, length) for key, value in batch.items()})
    if isinstance(batch, (list, tuple)):
        is_list = len(batch) == length and not hasattr(batch, "_fields")
        if is_list and not any(isinstance(leaf, torch.Tensor) for leaf in batch):
            return _like(batch, list(batch[start:stop]))
        return _like(batch, [slice_rows(value, start, stop, length) for value in batch])
    if batch is None or isinstance(batch, (bool, int, float, str)):
        return batch
    raise CannotSlice(f"split_batches: no way to take rows of a {type(batch).__name__}; {_WHOLE}")


def map_short_container(function: Callable[[Any], Any], container: Any) -> Any:
    """A short list, tuple or dict with `function` applied to what it holds; itself where that changes nothing."""
    if type(container) not in (list, tuple, dict) or len(container) > SHORT:
        return container
    values = list(container.values() if isinstance(container, dict) else container)
    changed = [function(value) for value in values]
    if all(new is old for new, old in zip(changed, values, strict=True)):
        return container
    return dict(zip(container, changed, strict=True)) if isinstance(container, dict) else type(container)(changed)


def signature(tree: Any, *, ragged: bool = False) -> str:
    """Structure, dtypes and shapes in one line, such as `{x: f32[2,3], y: i64[2]}`; `ragged`: any first dimension."""
    if isinstance(tree, torch.Tensor):
        shape = ["*" if ragged and position == 0 else str(length) for position, length in enumerate(tree.shape)]
        return f"{_SHORT.get(tree.dtype, str(tree.dtype).removeprefix('torch.'))}[{','.join(shape)}]"
    if isinstance(tree, Mapping):
        return "{" + ", ".join(f"{key}: {signature(value, ragged=ragged)}" for key, value in tree.items()) + "}"
    if ragged and is_list_of_objects(tree):
        return "objects"
    if isinstance(tree, (list, tuple)):
        return "(" + ", ".join(signature(value, ragged=ragged) for value in tree) + ")"
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        values = (getattr(tree, field.name) for field in dataclasses.fields(tree))
        return type(tree).__name__ + "(" + ", ".join(signature(value, ragged=ragged) for value in values) + ")"
    # An int on one rank and a float on another reduce well together.
    return "number" if isinstance(tree, (int, float, numpy.number)) else type(tree).__name__


_SHORT = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}


def structure_of(tree: Any) -> Any:
    """The containers of a tree without what is in them: dicts and tuples, None for a leaf."""
    if isinstance(tree, Mapping):
        return {key: structure_of(value) for key, value in tree.items()}
    return tuple(map(structure_of, tree)) if isinstance(tree, (list, tuple)) else None


def with_keys_of(tree: Any, everyone: Sequence[Any]) -> Any:
    """A tree whose dicts have all keys of some structures, in their order, with a 0 for each that is new."""
    if isinstance(tree, dict) and all(isinstance(structure, dict) for structure in everyone):
        known = {key: [s[key] for s in everyone if key in s] for structure in everyone for key in structure}
        items = {
            key: with_keys_of(tree[key] if key in tree else _zeros_in(structures[0]), structures)
            for key, structures in known.items()
        }
        emptied = copy.copy(tree)
        emptied.clear()  # for the order of the keys
        return _with_items(emptied, items)
    if isinstance(tree, (list, tuple)) and all(isinstance(s, tuple) and len(s) == len(tree) for s in everyone):
        parts = zip(tree, *everyone, strict=True)
        return _like(tree, [with_keys_of(value, structures) for value, *structures in parts])
    return tree


def _zeros_in(structure: Any) -> Any:
    if isinstance(structure, dict):
        return {key: _zeros_in(inner) for key, inner in structure.items()}
    return tuple(map(_zeros_in, structure)) if isinstance(structure, tuple) else 0


def _with_items(original: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """A mapping of the original's kind: a defaultdict keeps its factory, a ModelOutput its attributes."""
    if type(original) is dict:
        return items
    try:
        changed = copy.copy(original)
        for key, value in items.items():
            changed[key] = value  # type: ignore[index]  # a mapping that forbids this raises TypeError, caught below
    except TypeError:
        return items
    return changed


def _like(original: list[Any] | tuple[Any, ...], values: list[Any]) -> Any:
    if type(original) is list:
        return values
    if type(original) is tuple:
        return tuple(values)
    return type(original)(*values) if hasattr(original, "_fields") else type(original)(values)


def content_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's numbers as a flat tensor of bytes; a conjugate view is resolved first."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    # A single element keeps the stride that it had among others.
    return flat.as_strided(flat.shape, (1,)).view(torch.uint8)
