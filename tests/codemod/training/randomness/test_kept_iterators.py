"""Facts about draws that decide what is trained while an iterator of a prepared loader is kept."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.randomness.kept_iterators import KeptIterators
from tests.codemod.facts import Facts
from tests.codemod.pairs import run

CLIENTS = """\
import random
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset
class Client:
    def __init__(self):
        self.data = DataLoader(TensorDataset(torch.randn(40, 4), torch.randn(40, 2)), batch_size=5)
        self.model = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        {kept}
    def batch(self):
        {batch}
    def train(self):
        for _ in range(3):
            x, y = self.batch()
            self.optimizer.zero_grad()
            torch.nn.functional.mse_loss(self.model(x), y).backward()
            self.optimizer.step()
clients = [Client() for _ in range(4)]
rng = np.random.default_rng(0)
def select(n):
    return clients if n == 4 else np.random.choice(clients, n)
for turn in range(4):
    {turn}
"""
KEPT = "self.batches = iter(self.data)"
NEXT = "return next(self.batches)"
AGAIN = f"try:\n            {NEXT}\n        except StopIteration:\n            {KEPT}\n            {NEXT}"
ENDS = f"try:\n            {NEXT}\n        except StopIteration:\n            return None, None"
FOR = "for k in np.random.choice(4, 2): clients[k].train()"


def clients(turn: str, kept: str = KEPT, batch: str = AGAIN) -> str:
    return CLIENTS.format(turn=turn, kept=kept, batch=batch)


def drawn(text: str) -> list[str]:
    script = Facts(text).script
    ranks = script.metrics.ranks
    found = KeptIterators(script.program, ranks.shards.is_loader, ranks.draws.is_in_a_round, script.seeds.trains)
    return [ast.unparse(each.call) for each in found.draws()]


@pytest.mark.parametrize(
    ("turn", "wanted"),
    [
        (FOR, ["np.random.choice(4, 2)"]),
        ("for client in select(2): client.train()", ["np.random.choice(clients, n)"]),
        ("clients[torch.randint(4, (1,)).item()].train()", ["torch.randint(4, (1,))"]),
        ("if random.random() < 0.5: clients[0].train()", ["random.random()"]),
        ("for k in rng.choice(4, 2): clients[k].train()", []),
        ("for client in clients: client.train()\n    print(np.random.rand(4))", []),
    ],
)
def test_draws_that_decide_what_is_trained(turn: str, wanted: list[str]) -> None:
    assert drawn(clients(turn)) == wanted


@pytest.mark.parametrize(
    ("kept", "batch", "is_open"),
    [
        (KEPT, NEXT, True),
        ("self.kept = [None]\n        self.kept[0] = iter(self.data)", "return next(self.kept[0])", True),
        (KEPT, ENDS, False),
        ("pass", "return next(iter(self.data))", False),
    ],
)
def test_iterators_that_are_kept(kept: str, batch: str, is_open: bool) -> None:
    assert drawn(clients(FOR, kept, batch)) == ["np.random.choice(4, 2)"] * is_open


def test_a_draw_before_the_first_batch() -> None:
    turn = "pass\nchosen = np.random.choice(4, 2)\nfor k in chosen: clients[k].train()"
    assert not drawn(clients(turn))


@pytest.mark.parametrize(("kept", "batch"), [(KEPT, AGAIN), ("pass", "return next(iter(self.data))")])
def test_the_note_at_the_draw(kept: str, batch: str) -> None:
    result = run(clients(FOR, kept, batch))
    lines = (result.after or b"").decode().split("\n")
    said = [lines[n.line - 1].strip() for n in result.notes if "`self.batches` is kept (line" in n.message]
    assert said == [FOR] * (kept == KEPT)
