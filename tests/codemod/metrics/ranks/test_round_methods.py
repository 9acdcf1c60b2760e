"""Which methods of its own object do the rounds of a loop run?"""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.ranks.round_methods import RoundMethods
from tests.codemod.facts import Facts

TRAINER = """\
import torch
from torch.utils.data import DataLoader

class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(rows, batch_size=2)

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).mean()
        loss.backward()
        self.optimizer.step()
        self.add(loss)

    def add(self, loss):
        self.total += loss.item()

    def train(self):
        self.total = 0.0
        for x in self.loader:
            self.step(x)
        print(self.total)

trainer = Trainer()
trainer.train()
"""


@pytest.mark.parametrize(("after", "names"), [("", ["step", "add"]), ("trainer.add(torch.ones(1))", ["step"])])
def test_the_methods_that_a_loop_alone_runs(after: str, names: list[str]) -> None:
    facts = Facts(TRAINER + after)
    metrics, loop = facts.script.metrics, facts["for x in self.loader"]
    methods = RoundMethods(metrics.measured.chains, metrics.ranks.rounds)
    assert [m.name for m in methods.of(loop)] == names
