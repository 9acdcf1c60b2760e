"""Loops that end by the number of batches of one process: they end by that of their own."""

from __future__ import annotations

import pytest

from accelify.codemod.rewrite import Options
from tests.codemod.pairs import run

SCRIPT = """\
import math
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

size = 4
data = TensorDataset(torch.randn(18, 4))
loader = DataLoader(data, batch_size=size)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = len(data) // size
for i, (x,) in enumerate(loader):
    if {test}:
        {then}
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""
SHARED = "N processes share the items"


def rewritten(test: str, then: str = "break", options: Options | None = None) -> tuple[str, list[str]]:
    """The condition that comes out, and what is said of it."""
    result = run(SCRIPT.format(test=test, then=then), options)
    (line,) = [line for line in result.after.decode().splitlines() if line.startswith("    if ")]
    return line[7:-1], [note.message for note in result.notes if SHARED in note.message]


@pytest.mark.parametrize(
    ("test", "after"),
    [
        ("i == len(data) // size", "i == len(data) // size // accelerator.num_processes"),
        ("i >= loader.dataset.__len__() // 4", "i >= loader.dataset.__len__() // 4 // accelerator.num_processes"),
        ("i == batches", "i == batches // accelerator.num_processes"),
        ("int(len(data) / size) <= i", "int(len(data) / size) // accelerator.num_processes <= i"),
        ("i == math.floor(len(data) / 4)", "i == math.floor(len(data) / 4) // accelerator.num_processes"),
    ],
)
def test_a_loop_that_leaves_out_what_fills_no_batch(test: str, after: str) -> None:
    assert rewritten(test) == (after, [])


@pytest.mark.parametrize(("test", "then"), [("i == batches", "print(i)"), ("i + 1 == batches", "break")])
def test_what_waits_for_another_round_is_reported(test: str, then: str) -> None:
    after, notes = rewritten(test, then)
    assert (after, len(notes)) == (test, 1)


def test_processes_that_divide_each_batch_take_as_many_rounds_as_one() -> None:
    assert rewritten("i == batches", options=Options(keep_global_batch=True)) == ("i == batches", [])
