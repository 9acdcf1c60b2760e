"""What functions give their callers, and what decides in them which code is run."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.ranks.functions import Functions
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import STEP, training

CHOSEN = """\
def kept(value, limit):
    if {test}:
        return 0
    {otherwise}
"""


@pytest.mark.parametrize(
    ("test", "otherwise", "is_own"),
    [
        ("value > limit", "return 1", True),  # which of two numbers it is depends on the batch
        ("limit > 3", "return 1", False),
        ("limit > 3", "return value", True),
    ],
)
def test_what_a_function_gives(test: str, otherwise: str, is_own: bool) -> None:
    facts = training(
        before=CHOSEN.format(test=test, otherwise=otherwise), step=f"{STEP}print(kept(loss.item(), epoch))\n"
    )
    ranks = facts.script.metrics.ranks
    assert isinstance(ranks, Functions)
    node = facts["kept(loss.item(), epoch)"]
    assert isinstance(node, ast.expr)
    assert ranks.is_own(node) is is_own


METERED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
class Meter:
    def __init__(self):
        self.sum = self.count = 0
    def update(self, value, n):
        self.sum += value * n
        self.count += n
    def put(self, value, n):
        self.update(value, n)
data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
class Trainer:
    def __init__(self):
        self.loader, self.held_out = DataLoader(data, batch_size=4), DataLoader(data, batch_size=4)
        self.model = nn.Linear(8, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def start(self):
        return torch.zeros(self.rows, 8)
    def train(self):
        losses = Meter()
        for x, y in self.loader:
            self.rows = len(x)
            loss = nn.functional.mse_loss(self.model(x + self.start()), y)
            losses.{method}(loss.item(), {n})
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            {batch}
        return losses.sum / losses.count
    def validate(self):
        losses = Meter()
        for x, y in self.held_out:
            self.rows = len(x)
            loss = nn.functional.mse_loss(self.model(x + self.start()), y)
            losses.{method}(loss.item(), {n})
        return losses.sum / losses.count
trainer = Trainer()
for epoch in range(2):
    print(trainer.train(), trainer.validate())
"""


@pytest.mark.parametrize(
    ("slots", "is_noted"),
    [
        ({}, False),
        ({"method": "put"}, False),
        ({"n": "self.rows"}, False),
        ({"batch": "print(losses.sum)"}, True),
    ],
)
def test_a_meter_of_all_data_where_a_number_of_rows_was_kept_in_training(slots: dict[str, str], is_noted: bool) -> None:
    text = METERED.format(**{"method": "update", "n": "len(x)", "batch": "pass"} | slots)
    found = [r for r in Facts(text).script.metrics.reports if ast.unparse(r.node).endswith(".sum")]
    assert bool(found) is is_noted


ORDERED = """\
import numpy as np
def batches(rows, size, shuffle=False):
    order = list(range(len(rows)))
    {order}
    for i in range(0, len(rows), size):
        yield [rows[j] for j in order[i:i + size]]
def score(rows):
    total = 0.0
    for part in {batches}:
        total += torch.stack(part).sum().item()
    return total
"""
SHUFFLED = "if shuffle: np.random.shuffle(order)"


@pytest.mark.parametrize(
    ("order", "batches", "is_own"),
    [
        (SHUFFLED, "batches(rows, 2)", False),
        (SHUFFLED, "batches(rows, 2, shuffle=False)", False),
        ("order = np.random.permutation(len(rows)) if shuffle else order", "batches(rows, 2)", False),
        (SHUFFLED, "batches(rows, 2, True)", True),
        (SHUFFLED, "batches(rows, 2, shuffle=len(rows) > 2)", True),
        ("np.random.shuffle(order)", "batches(rows, 2)", True),
    ],
)
def test_what_a_call_leaves_out_draws_nothing(order: str, batches: str, is_own: bool) -> None:
    before = ORDERED.format(order=order, batches=batches)
    facts = training(before=before, step=f"{STEP}print(score([torch.ones(2), torch.zeros(2)]))\n")
    node = facts["score([torch.ones(2), torch.zeros(2)])"]
    assert isinstance(node, ast.expr)
    assert facts.script.metrics.ranks.is_own(node) is is_own
