"""In what ranks differ, from what each has read of its own tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from accelify.runtime.world import divergence
from accelify.runtime.world.collectives import Collectives
from accelify.runtime.world.divergence import Divergence, find_divergence, named_buffers, named_parameters


class Heard(Collectives):
    """What rank 0 hears of a rank that has other values, on hardware of the given kind."""

    def __init__(self, other: dict[str, Any], hardware: str | None = None) -> None:
        self.other, self.hardware, self.said = other, hardware, None

    def is_alike(self, operation: str, detail: str) -> bool:
        return self.said is not None and detail == self.said

    def gather_object(self, value: Any) -> list[Any]:
        recorder = Recorder()
        find_divergence(recorder, "", self.other)
        hardware, *rest = recorder.value
        return [value, (hardware if self.hardware is None else self.hardware, *rest)]


class Recorder(Collectives):
    value: Any = None

    def is_alike(self, operation: str, detail: str) -> bool:
        return False

    def gather_object(self, value: Any) -> list[Any]:
        self.value = value
        return [value]


def found(mine: dict[str, Any], other: dict[str, Any], hardware: str | None = None) -> Divergence | None:
    return find_divergence(Heard(other, hardware), "backward", mine)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.uint8])
def test_every_bit_counts_on_the_same_hardware(kind: torch.dtype) -> None:
    mine = torch.arange(11).to(kind)
    other = mine.clone()
    assert found({"a": mine, "b": mine}, {"a": mine, "b": other}) is None
    other[10] = 0
    difference = found({"a": mine, "b": mine}, {"a": mine, "b": other})
    assert str(difference) == "rank 1 holds another b than rank 0"


def test_rounding_of_other_hardware_does_not() -> None:
    mine = {"w": torch.ones(4), "lr": 0.1, "steps": [3.0], "name": "adam"}
    near = {"w": torch.ones(4) * 1.001, "lr": 0.1 + 1e-9, "steps": [3.0], "name": "adam"}
    assert str(found(mine, near)) == "rank 1 holds another lr and 1 more than rank 0"
    assert found(mine, near, hardware="another") is None
    far = {"w": torch.ones(4) * 1.1, "lr": 0.2, "steps": [4.0], "name": "sgd"}
    difference = found(mine, far, hardware="another")
    assert difference is not None
    assert set(difference.names) == set(mine)


def test_other_shapes_and_what_one_rank_lacks_are_not_compared() -> None:
    assert found({"w": torch.ones(4), "x": torch.ones(1)}, {"w": torch.zeros(3), "y": torch.ones(1)}) is None


def test_results_and_buffers_outside_the_state_are_left_out() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
    model[1].register_buffer("cache", torch.zeros(1), persistent=False)
    model[1]._parameters["weight"] = model[1].weight * 2
    assert [*named_parameters([model])] == ["0.weight of Sequential", "0.bias of Sequential", "1.bias of Sequential"]
    assert [*named_buffers([model])] == [
        f"0.{name} of Sequential" for name in ("running_mean", "running_var", "num_batches_tracked")
    ]


def test_what_has_no_memory_to_read_is_left_out() -> None:
    model = nn.Linear(2, 2, device="meta")
    assert found({**named_parameters([model])}, {**named_parameters([nn.Linear(2, 2)])}) is None
    assert not divergence._is_readable(torch.ones(2).to_sparse())
