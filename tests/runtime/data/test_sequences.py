"""Shares of what scripts hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy
import pytest
import torch

from accelify.runtime.data.passes import LoaderPasses
from accelify.runtime.data.sequences import contiguous_part, shard
from accelify.runtime.data.streams import Streams
from accelify.runtime.world.collectives import Collectives


class Anew:
    def __iter__(self) -> Anew:
        self.at = 0
        return self

    def __next__(self) -> int:
        if self.at == 6:
            raise StopIteration
        self.at += 1
        return self.at


def test_an_iterator_that_begins_anew_is_dealt_out_once() -> None:
    passes = LoaderPasses(Streams(Collectives(), torch.device("cpu")))
    assert [list(shard(Anew(), rank, 2, passes)) for rank in range(2)] == [[1, 3, 5], [2, 4, 6]]


def in_one_memory(kind: str) -> Iterator[object]:
    held = numpy.zeros(2)
    for number in range(6):
        held[:] = number
        yield {"array": held, "tensor": torch.from_numpy(held), "pair": (None, [held])}[kind]


@pytest.mark.parametrize("kind", ["array", "tensor", "pair"])
def test_a_generator_may_give_all_its_elements_in_one_memory(kind: str) -> None:
    passes = LoaderPasses(Streams(Collectives(), torch.device("cpu")))
    for rank, expected in enumerate(([0, 2, 4], [1, 3, 5])):
        own = [given[1][0] if kind == "pair" else given for given in shard(in_one_memory(kind), rank, 2, passes)]
        assert [int(each[0]) for each in own] == expected


class InOneMemory:
    """With a length, so that the last round is completed from the first."""

    def __len__(self) -> int:
        return 5

    def __iter__(self) -> Iterator[object]:
        return itertools.islice(in_one_memory("array"), 5)


def test_a_round_is_completed_with_what_the_first_one_held() -> None:
    passes = LoaderPasses(Streams(Collectives(), torch.device("cpu")))
    own = [[int(each[0]) for each in shard(InOneMemory(), rank, 3, passes)] for rank in range(3)]
    assert own == [[0, 3], [1, 4], [2, 0]]


class Table:
    """As a dataset of Hugging Face is: a slice is a dict of columns."""

    column_names = ("a",)

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: slice) -> dict[str, list[int]]:
        return {"a": self.rows[index]}

    def select(self, indices: list[int]) -> Table:
        return Table([self.rows[index] for index in indices])


def parts(inputs: object, is_padded: bool) -> list[object]:
    return [getattr(mine := contiguous_part(inputs, rank, 2, is_padded), "rows", mine) for rank in range(2)]


def test_parts_of_every_kind_are_padded_to_equal_lengths() -> None:
    assert parts([1, 2, 3], True) == [[1, 2], [3, 3]]
    assert parts((1, 2, 3), True) == [(1, 2), (3, 3)]
    assert [list(own) for own in parts(range(3), True)] == [[0, 1], [2, 2]]
    assert [own.tolist() for own in parts(torch.arange(3), True)] == [[0, 1], [2, 2]]
    assert [own.tolist() for own in parts(numpy.arange(3), True)] == [[0, 1], [2, 2]]
    assert parts(Table([1, 2, 3]), True) == [[1, 2], [3, 3]]
    assert parts(Table([1, 2, 3]), False) == [[1, 2], [3]]
    assert parts([1], True) == [[1], [1]]
    assert parts([], True) == [[], []]


def test_a_text_is_no_list_of_letters() -> None:
    assert parts("prompt", False) == ["prompt"] * 2


@pytest.mark.parametrize(("count", "is_told"), [(0, False), (1, True), (2, False), (3, False)])
def test_a_generator_with_fewer_elements_than_processes_is_reported(
    count: int, is_told: bool, recwarn: pytest.WarningsRecorder
) -> None:
    passes = LoaderPasses(Streams(Collectives(), torch.device("cpu")))
    assert list(shard(iter(range(count)), 1, 2, passes)) == [1] * (count > 1)
    assert any("none is left for any" in str(w.message) for w in recwarn) is is_told
