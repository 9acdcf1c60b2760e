"""Containers of tensors: what is mapped, counted, sliced and compared."""

from collections import namedtuple
from types import SimpleNamespace

import pytest
import torch

from accelify.runtime.world.tensors import (
    SHORT,
    CannotSlice,
    content_of,
    map_leaves,
    map_short_container,
    rows,
    signature,
    slice_rows,
)

Pair = namedtuple("Pair", "x y")


def test_containers_keep_their_type():
    tree = {"a": [1, (2, 3)], "b": Pair(4, None)}
    assert map_leaves(lambda leaf: leaf and leaf + 1, tree) == {"a": [2, (3, 4)], "b": Pair(5, None)}
    assert isinstance(map_leaves(str, tree)["b"], Pair)


def test_a_short_container_is_the_same_object_where_nothing_changes():
    given = [1, 2]
    assert map_short_container(lambda each: each, given) is given
    assert map_short_container(lambda each: each + 1, given) == [2, 3]
    assert map_short_container(lambda each: each + 1, {"a": 1}) == {"a": 2}
    long = [1] * (SHORT + 1)
    assert map_short_container(lambda each: each + 1, long) is long


def test_rows_are_those_of_the_first_tensor():
    assert rows({"name": "x", "x": torch.zeros(3, 2)}) == 3
    assert rows((["a", "b"], 1)) == 2
    assert rows(torch.tensor(1.0)) is None


class _Batch:
    """A batch as of torchtext, whose first tensor has the words before the rows."""

    def __init__(self, size, length):
        self.batch_size, self.length, self.text = size, length, torch.zeros(7, 3)

    def __len__(self):
        return self.length


@pytest.mark.parametrize(("size", "length", "found"), [(3, 3, 3), (1, 1, 1), (3, 2, None), (torch.Size([3]), 3, None)])
def test_rows_are_those_that_an_object_says_by_its_size_and_its_length(size, length, found):
    assert rows(_Batch(size, length)) == found
    assert rows([_Batch(size, length)]) == 1  # a list of objects, a row each


def test_an_object_without_a_length_does_not_say_its_rows():
    assert rows(SimpleNamespace(batch_size=3)) is None
    assert rows(range(3)) is None


def test_a_slice_keeps_what_has_no_rows():
    batch = {"x": torch.arange(4), "scale": 2.0, "names": ["a", "b", "c", "d"]}
    part = slice_rows(batch, 1, 3, 4)
    assert (part["x"].tolist(), part["scale"], part["names"]) == ([1, 2], 2.0, ["b", "c"])
    with pytest.raises(CannotSlice, match=r"a tensor of shape \[3\] in a batch of 4 rows"):
        slice_rows({"x": torch.arange(4), "y": torch.arange(3)}, 0, 2, 4)


def test_a_signature_says_structure_dtype_and_shape():
    tree = {"x": torch.zeros(2, 3), "y": [1, "a"]}
    assert signature(tree) == "{x: f32[2,3], y: (number, str)}"
    assert signature(tree["x"], ragged=True) == "f32[*,3]"


def test_the_content_of_a_conjugate_view_is_resolved():
    tensor = torch.tensor([1 + 2j]).conj()
    assert content_of(tensor).view(torch.complex64).tolist() == [1 - 2j]
