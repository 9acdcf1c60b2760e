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


ITEMS = """\
import torch
from torch import nn

rows = [torch.randn(4) for _ in range(18)]
others = rows[:6]
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step, i = 0, 0
for epoch in range(2):
    {before}
    for {head}:
        {counted}
        model(x).mean().backward()
        {last}
        if step % 4 == 0 or {test}:
            optimizer.step()
            optimizer.zero_grad()
"""
OWN = "-(-{} // accelerator.num_processes)"


def of_items(**slots: str) -> tuple[str, list[str]]:
    """The same for a loop over items of the script's own."""
    parts = {"before": "pass", "head": "i, x in enumerate(rows)", "counted": "step += 1", "last": "pass", **slots}
    result = run(ITEMS.format(**parts))
    found = [line for line in result.after.decode().splitlines() if "4 == 0 or " in line]
    notes = [n.message for n in result.notes if SHARED in n.message or "never reaches" in n.message]
    return found[0].partition(" or ")[2][:-1], notes


@pytest.mark.parametrize(
    ("slots", "after"),
    [
        ({"test": "i == len(rows) - 1"}, f"i == {OWN} - 1"),
        ({"test": "i + 1 >= len(rows)"}, f"i + 1 >= {OWN}"),
        ({"test": "step % len(rows) == 0", "counted": "step = step + 1"}, f"step % {OWN} == 0"),
        ({"test": "len(rows) == step", "counted": "step = 1 + step"}, f"{OWN} == step"),
        ({"test": "i == len(rows) - 1", "head": "i, x in enumerate(reversed(rows))"}, f"i == {OWN} - 1"),
    ],
)
def test_the_last_of_the_items_is_that_of_each_process(slots: dict[str, str], after: str) -> None:
    assert of_items(**slots) == (after.format("len(rows)"), [])


@pytest.mark.parametrize("last", ["last = i == count - 1", "last = count - 1 == i"])
def test_a_number_of_items_that_a_variable_holds(last: str) -> None:
    result = run(ITEMS.format(
        before="count = len(rows)", head="i, x in enumerate(rows)", counted="step += 1", last=last, test="last"
    ))  # fmt: skip
    assert last.replace("count", OWN.format("count")) in result.after.decode()


@pytest.mark.parametrize(
    "slots",
    [
        {"test": "i == len(others) - 1"},
        {"test": "i * 2 == len(rows)"},
        {"test": "i == count", "before": "count = len(rows); rows = rows[1:]"},
        {"test": "epoch == len(rows)"},
    ],
)
def test_other_numbers_are_left(slots: dict[str, str]) -> None:
    assert of_items(**slots)[0] == slots["test"]
