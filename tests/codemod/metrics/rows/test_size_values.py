"""Which values have nothing of a batch but its sizes: source text in, facts out."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.rows.size_values import SizeValues
from tests.codemod.facts import Facts
from tests.codemod.pairs import run

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import rows
def table(shape): return torch.arange(shape[1])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.place, self.shape, self.last = nn.Linear(4, 4), 0, None, torch.zeros(4)
    def forward(self, x):
        out = self.fc(x) * self.last * self.place
        {kept}
        return out
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(rows, 4):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("kept", "is_of_sizes"),
    [
        ("self.place = (self.place + len(x)) % 32", True),
        ("self.place = (self.place + x.shape[0]) % self.last.numel()", True),
        ("n = x.size(0); self.place = (self.place + n) % 32", True),
        ("self.shape = x.shape", True),
        ("self.last = torch.arange(x.shape[1], device=x.device)", True),
        ("shape = x.shape; self.last = table(shape)", True),
        ("self.place = 0.9 * self.place + 0.1 * x.size(1)", False),  # which goes on from batch to batch
        ("self.place = (self.place + x.argmax()) % 32", False),
        ("self.last = x.mean(0)", False),
        ("self.last = torch.randn(x.shape)", False),
        ("last = x.mean(0); self.last = last * len(x)", False),
    ],
)
def test_what_is_of_sizes(kept: str, is_of_sizes: bool) -> None:
    script = Facts(SCRIPT.format(kept=kept)).script
    nodes = [n for parsed in script.program.files for n in parsed.nodes if isinstance(n, ast.Assign)]
    target, value = next((n.targets[0], n.value) for n in nodes if ast.unparse(n) == kept.split("; ")[-1])
    assert SizeValues(script.metrics.ranks).is_set(target, value) is is_of_sizes


@pytest.mark.parametrize(
    ("kept", "noted"),
    [
        ("self.place = (self.place + len(x)) % 32", False),
        ("if x.shape != self.shape: self.shape, self.last = x.shape, table(x.shape)", False),
        (
            "if x.shape == self.shape: return out\n        self.shape = x.shape\n        self.last = table(x.shape)",
            False,
        ),
        ("self.last = x.mean(0)", True),
        ("self.last = 0.9 * self.last + 0.1 * x.mean(0).detach()", True),
    ],
)
def test_a_memo_by_size_is_no_state(kept: str, noted: bool) -> None:
    found = [n.message for n in run(SCRIPT.format(kept=kept)).notes]
    about = ("is carried from", "later steps use", "later losses are computed with")
    assert any(said in message for message in found for said in about) is noted
