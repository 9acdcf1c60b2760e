"""Nested containers of tensors, under Accelerate's names."""

from collections import OrderedDict, namedtuple

import pytest
import torch

from accelify.runtime import containers
from accelify.runtime.containers import concatenate, find_batch_size, recursively_apply, send_to_device

Pair = namedtuple("Pair", "a b")
BATCH = {"x": torch.ones(3, 2), "y": [torch.zeros(3), Pair(torch.ones(3), "name")], "n": 5}


def test_tensors_are_moved_in_their_containers():
    moved = send_to_device(OrderedDict(BATCH), "meta", skip_keys="x")
    assert isinstance(moved, OrderedDict)
    assert moved["x"].device.type == "cpu"
    assert moved["y"][0].device.type == moved["y"][1].a.device.type == "meta"
    assert moved["y"][1].b == "name"

    class Own:
        def to(self, device):
            return device

    assert send_to_device([Own()], "meta") == ["meta"]


def test_half_precision_becomes_single():
    halves = {"a": torch.ones(1, dtype=torch.float16), "b": torch.ones(1, dtype=torch.int64), "c": None}
    cast = containers.convert_outputs_to_fp32(lambda: halves)()
    assert [cast["a"].dtype, cast["b"].dtype, cast["c"]] == [torch.float32, torch.int64, None]


def test_the_first_tensor_gives_size_and_device():
    assert find_batch_size(BATCH) == 3
    assert containers.find_device(["text", BATCH]) == torch.device("cpu")
    assert containers.find_device([1]) is None
    assert containers.ignorant_find_batch_size({}) is None
    with pytest.raises(ValueError, match="empty dict"):
        find_batch_size({})
    with pytest.raises(TypeError, match="a str is no tensor"):
        find_batch_size(["text"])


def test_batches_are_joined_and_cut():
    joined = concatenate([{"x": torch.ones(2)}, {"x": torch.zeros(1)}])
    assert joined["x"].tolist() == [1, 1, 0]
    assert containers.slice_tensors(joined, slice(1, 3))["x"].tolist() == [1, 0]
    assert concatenate(["one"]) == "one"
    with pytest.raises(TypeError, match="a str is no tensor"):
        concatenate(["one", "two"])


def test_structures_are_described_and_made():
    made = containers.initialize_tensors(containers.get_data_structure(BATCH))
    assert made["x"].shape == (3, 2)
    assert made["n"] == 5
    assert containers.listify({"x": torch.ones(2, dtype=torch.bfloat16), "n": torch.tensor(3)}) == {
        "x": [1.0, 1.0],
        "n": 3,
    }


def test_a_function_is_applied_to_what_it_takes():
    assert recursively_apply(lambda x, n: x + n, (1, [2, "a"]), 3, test_type=lambda x: isinstance(x, int)) == (
        4,
        [5, "a"],
    )
    with pytest.raises(TypeError, match="a str is no list"):
        recursively_apply(len, ["a"], error_on_other_type=True)
