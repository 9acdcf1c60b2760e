"""The work of a rewrite grows with the size of the script, not with its square."""

from __future__ import annotations

import cProfile
from collections import Counter
from types import CodeType

from accelify.codemod.options import Options
from accelify.codemod.result import Status
from accelify.codemod.rewrite import rewrite_source

_SMALL, _LARGE = 2, 8  # parts of the script
_MOST = 0.06  # of all calls: some questions are asked of pairs, and cost little
_HEAD = """\
import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
_PART = """

class Net{i}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Linear(4, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        x = torch.relu(self.layers(x)) + torch.zeros(4).to(x.device)
        return self.head(x)


class Trainer{i}:
    def __init__(self, lr):
        self.model = Net{i}().to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.history = []

    def step(self, x, y):
        loss = ((self.model(x) - y) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.history.append(loss.item())
        return loss.item()

    def save(self, folder):
        if not os.path.exists(folder):
            os.makedirs(folder)
        with open(os.path.join(folder, "log.txt"), "a") as file:
            file.write(str(self.history[-1]))
        torch.save(self.model.state_dict(), os.path.join(folder, "model.pt"))


def train{i}(lr, epochs=3):
    trainer = Trainer{i}(lr)
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    best = float("inf")
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            total += trainer.step(x, y)
        print(epoch, total / len(loader))
        if total < best:
            best = total
            trainer.save("run{i}")
        elif epoch > 1:
            break
    return best
"""


def _calls(parts: int) -> Counter[tuple[str, int, str]]:
    """How often a rewrite of a script of some parts calls each function of the codemod."""
    script = _HEAD + "".join(_PART.format(i=i) for i in range(parts))
    script += "\n\n" + "".join(f"print(train{i}(0.1))\n" for i in range(parts))
    profile = cProfile.Profile()
    result = profile.runcall(rewrite_source, "train.py", script.encode(), Options())
    assert result.status is Status.MIGRATED
    found: Counter[tuple[str, int, str]] = Counter()
    for entry in profile.getstats():
        if isinstance(entry.code, CodeType) and "codemod" in entry.code.co_filename:
            found[entry.code.co_filename, entry.code.co_firstlineno, entry.code.co_name] += entry.callcount
    return found


def test_the_work_of_a_rewrite_grows_with_the_script_and_not_with_its_square() -> None:
    small, large = _calls(_SMALL), _calls(_LARGE)
    most = 1.5 * _LARGE / _SMALL
    grown = {key: calls for key, calls in large.most_common() if calls > most * max(small[key], 1)}
    assert sum(grown.values()) < _MOST * large.total(), f"ask these once: {list(grown)[:5]}"
