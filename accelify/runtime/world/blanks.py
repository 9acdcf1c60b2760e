"""A rank that had nothing to add up: the 0 that its sum began with, where the others' sums have become tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # nested containers of anything

import numpy
import torch

from accelify.runtime.world.nested import leaves, map_leaves, signature

Kinds = tuple[Any, ...]  # for each leaf: None for a number 0, else what it is


def kinds(tree: Any) -> Kinds:
    """What the ranks must tell each other to fill in their zeros; first comes how the leaves are held."""
    held = signature(map_leaves(lambda leaf: 0, tree))
    return (held, *(_kind(leaf) for leaf in leaves(tree)))


def _kind(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.dtype, tuple(leaf.shape), leaf.device.type
    if isinstance(leaf, numpy.ndarray):
        return leaf.dtype.str, leaf.shape, "numpy"
    return None if isinstance(leaf, (int, float)) and leaf == 0 else "number"


def filled(tree: Any, everyone: Sequence[Kinds | None], device: torch.device) -> Any:
    """The tree with its zeros as the others have them; None where that is not the only difference between ranks."""
    known = [kind for kind in everyone if kind is not None]
    if len(known) < len(everyone) or len({(kind[0], len(kind)) for kind in known}) > 1:
        return None
    agreed: list[Any] = []
    for position in range(1, len(known[0])):
        found = {kind[position] for kind in known} - {None}
        if len(found) > 1:
            return None
        agreed.append(found.pop() if found else "number")
    wanted = iter(agreed)

    def fill(leaf: Any) -> Any:
        kind = next(wanted)
        return leaf if kind == "number" or _kind(leaf) is not None else _zeros(kind, device)

    return map_leaves(fill, tree)


def _zeros(kind: tuple[Any, tuple[int, ...], str], device: torch.device) -> Any:
    dtype, shape, place = kind
    if place == "numpy":
        return numpy.zeros(shape, dtype)
    return torch.zeros(shape, dtype=dtype, device="cpu" if place == "cpu" else device)
