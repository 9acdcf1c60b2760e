"""Gradients accumulated by hand stay, and a note offers the accelerator's way where it would mean the same."""

from __future__ import annotations

import pytest

from accelify.codemod.result import Status
from tests.codemod.pairs import run

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(loader):
    loss = nn.functional.mse_loss(model(x), y) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


def offers(text: str) -> list[str]:
    result = run(text)
    assert result.status is Status.MIGRATED, result.notes
    lines = result.after.decode().splitlines()
    return [lines[note.line - 1].strip() for note in result.notes if note.rule == "accumulation"]


def test_the_condition_is_pointed_out() -> None:
    assert offers(SCRIPT) == ["if (i + 1) % 4 == 0:"]


def test_a_count_from_one_is_understood() -> None:
    assert offers(SCRIPT.replace("(loader):", "(loader, 1):").replace("(i + 1)", "i")) == ["if i % 4 == 0:"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" / 4", ""),
        (" / 4", " / 2"),
        ("(i + 1) % 4", "i % 4"),
        ("== 0:", "== 1:"),
        ("        optimizer.zero_grad()\n", "    optimizer.zero_grad()\n"),
    ],
)
def test_nothing_is_offered_where_it_would_mean_something_else(old: str, new: str) -> None:
    assert offers(SCRIPT.replace(old, new)) == []
