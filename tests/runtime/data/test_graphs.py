"""Batches of graphs lose the graphs that were added to even out the last step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from accelify.runtime.data.metrics import _trim_rows
from accelify.runtime.data.passes import Step


class Graphs:
    """The interface of a batch of PyTorch Geometric: a graph has a node, an edge and a number."""

    def __init__(self, numbers: list[int]) -> None:
        self._held = {"y": torch.tensor(numbers), "edge_index": torch.zeros(2, len(numbers))}
        self._num_graphs = len(numbers)

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        return iter(list(self._held.items()))

    def __getitem__(self, key: str) -> torch.Tensor:
        return self._held[key]

    def __setitem__(self, key: str, value: torch.Tensor) -> None:
        self._held[key] = value

    @property
    def num_graphs(self) -> int:
        return self._num_graphs

    def to_data_list(self) -> list[int]:
        return self["y"].tolist()  # type: ignore[no-any-return]  # numbers

    @classmethod
    def from_data_list(cls, numbers: list[int]) -> Graphs:
        return cls(numbers)

    def __cat_dim__(self, key: str, value: Any) -> int:
        return -1 if "index" in key else 0


@pytest.mark.parametrize("count", [3, 2, 0])
def test_graphs_that_were_added_are_left_out(count: int) -> None:
    step = Step(rows=(3, 3), valid=(3, count))
    loss, kept = _trim_rows((torch.tensor(1.0), Graphs([5, 6, 7])), step, rank=1)
    assert loss == 1
    assert kept.num_graphs == count
    assert kept["y"].tolist() == [5, 6, 7][:count]
    assert kept["edge_index"].shape == (2, count)


def test_a_batch_of_another_loader_stays() -> None:
    batch = Graphs([5, 6])
    assert _trim_rows(batch, Step(rows=(3, 3), valid=(3, 1)), rank=1) is batch
