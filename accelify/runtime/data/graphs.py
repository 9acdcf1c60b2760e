"""Batches of graphs, as PyTorch Geometric makes them: one object, whose rows are graphs, not those of a tensor."""

from __future__ import annotations

import copy
from typing import Any  # a library's class, which accelify does not depend on

import torch


def is_batch(leaf: Any) -> bool:
    """Whether this is a batch of graphs that can be taken apart."""
    return all(hasattr(type(leaf), name) for name in ("num_graphs", "to_data_list", "from_data_list", "__cat_dim__"))


def first(batch: Any, count: int) -> Any:
    """The first `count` graphs of a batch; of none, a batch whose tensors are empty."""
    if count:
        return type(batch).from_data_list(batch.to_data_list()[:count])
    empty = copy.copy(batch)
    for key, value in batch:
        if isinstance(value, torch.Tensor) and value.ndim:
            empty[key] = value.narrow(batch.__cat_dim__(key, value), 0, 0)
    empty._num_graphs = 0
    return empty
