"""Facts about collate functions that cut rows into groups of their own size, and what becomes of their loaders."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.row_groups import regroups
from tests.codemod.facts import Facts
from tests.codemod.pairs import run

FUNCTIONS = {
    "remainder": "def collate(rows):\n    n = len(rows) - len(rows) % 16\n    return [rows[i] for i in range(n)]\n",
    "strides": (
        "def collate(rows):\n    n = len(rows)\n    return [torch.stack(rows[i : i + 16]) for i in range(0, n, 16)]\n"
    ),
    "slices": (
        "def collate(rows):\n    found = []\n    rows = sorted(rows, key=len)\n    while rows:\n"
        "        found.append(torch.stack(rows[:16]))\n        rows = rows[16:]\n    return found\n"
    ),
    "method": (
        "class Data:\n    size = 16\n    def collate(self, rows):\n        lengths = [-len(r) for r in rows]\n"
        "        order = np.arange(len(rows))\n        kept = order[: len(order) - (len(order) % self.size)]\n"
        "        return [self.one(rows, part) for part in kept.reshape((-1, self.size))]\ncollate = Data().collate\n"
    ),
    "object": (
        "class Collate:\n    def __call__(self, rows):\n        return [rows[i] for i in range(len(rows) // 16)]\n"
        "collate = Collate()\n"
    ),
}
WHOLE = {
    "stack": "def collate(rows):\n    return torch.stack(rows)\n",
    "pad": (
        "def collate(rows):\n    longest = max(len(r) for r in rows)\n    longest = longest // 8 * 8 + 8\n"
        "    out = torch.zeros(len(rows), longest)\n    for i, r in enumerate(rows):\n        out[i, : len(r)] = r\n"
        "    return out\n"
    ),
    "unzip": "def collate(rows):\n    x, y = zip(*rows)\n    return torch.stack(x), torch.tensor(y)\n",
    "lambda": "collate = lambda rows: rows\n",
}
TRAIN = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader
{collate}
loader = DataLoader(torch.randn(192, 4), batch_size=64, shuffle=True, collate_fn=collate)
model = nn.DataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for group in loader:
    for x in group:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def is_cut(collate: str) -> bool:
    facts = Facts(TRAIN.format(collate=collate))
    (call,) = (c for c in facts.program.calls if ast.unparse(c.func) == "DataLoader")
    return any(regroups(facts.program, v) for v in facts.program.values(call))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_that_are_cut(name: str) -> None:
    assert is_cut(FUNCTIONS[name])


@pytest.mark.parametrize("name", WHOLE)
def test_rows_that_are_not(name: str) -> None:
    assert not is_cut(WHOLE[name])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_groups_are_sharded_and_no_rows_divided(name: str) -> None:
    result = run(TRAIN.format(collate=FUNCTIONS[name]))
    text = result.after.decode()
    assert "for x in accelerator.shard(group):" in text
    assert "Accelerator(mixed_devices=True)" in text
    assert "model, optimizer = accelerator.prepare(model, optimizer)" in text
    (note,) = (n.message for n in result.notes if n.rule == "batch_size")
    assert "learning rate stays right" not in note


def test_gradients_that_are_summed_over_the_groups_of_a_batch() -> None:
    text = TRAIN.format(collate=FUNCTIONS["strides"]).replace("        optimizer.", "    optimizer.")
    text = text.replace("    optimizer.zero_grad()\n", "", 1)
    after = run(text).after.decode()
    assert "split_batches" not in after
    assert "shard(" not in after
