"""Which zeros of a rank stand for the tensors that other ranks have in a sum; in processes, see `checks`."""

from __future__ import annotations

from collections import Counter, namedtuple
from typing import Any

import numpy
import pytest
import torch

from accelify.runtime.world.collectives import filled, is_list_of_zeros, kinds_of
from accelify.runtime.world.tensors import structure_of, with_keys_of

CPU = torch.device("cpu")
Pair = namedtuple("Pair", "x y")


def of_rank(trees: list[Any], rank: int) -> Any:
    """What a rank has after its zeros are filled in; None where ranks differ in more."""
    by_numbers = filled(trees[rank], [kinds_of(tree) for tree in trees], CPU)
    if by_numbers is not None:
        return by_numbers
    return filled(trees[rank], [kinds_of(tree, is_list_of_zeros) for tree in trees], CPU, is_list_of_zeros)


def test_a_list_of_zeros_beside_an_array() -> None:
    array = numpy.array([1, 2])
    assert of_rank([array, [0.0, 0.0]], 1).tolist() == [0, 0]
    assert of_rank([array, [0.0, 0.0]], 0) is array


def test_a_list_of_zeros_beside_a_tensor_within_a_tuple() -> None:
    total, counts = of_rank([(1.5, torch.ones(2, 3)), (0, [0] * 3)], 1)
    assert (total, counts.tolist()) == (0, torch.zeros(2, 3).tolist())


@pytest.mark.parametrize("other", [[0.0], [0, 1], (0, 0), [[0, 0]]])
def test_other_lists_are_no_zeros(other: object) -> None:
    trees = [numpy.array([1, 2]), other]
    assert of_rank(trees, 0) is of_rank(trees, 1) is None


def test_a_list_of_tensors_beside_one_of_zeros() -> None:
    first, second = of_rank([[torch.ones(1), torch.ones(2)], [0, 0]], 1)
    assert (first.shape, second.shape) == ((1,), (2,))


@pytest.mark.parametrize(
    ("trees", "expected"),
    [
        ([Counter(a=1), Counter(b=2, a=3)], Counter(a=3, b=2)),
        ([(1, {"a": {"x": 1}}), (2, {})], (2, {"a": {"x": 0}})),
        ([{}, {"a": [1, 2]}], {"a": [1, 2]}),
        ([Pair({"a": 1}, 1), Pair({"b": 2}, 1)], Pair({"a": 0, "b": 2}, 1)),
    ],
)
def test_keys_that_other_ranks_have(trees: list[Any], expected: Any) -> None:
    completed = with_keys_of(trees[1], [structure_of(tree) for tree in trees])
    assert completed == expected
    assert repr(completed) == repr(expected)  # in the same order
    assert type(completed) is type(expected)
