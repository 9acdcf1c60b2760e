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


@pytest.mark.parametrize(
    "count", ["half = int(x.size(0) / 2)", "size = len(x)\n    half = size // 2\n    part = size / 2"]
)
@pytest.mark.parametrize("steps", ["if (i + 1) % 2 == 0:", "if (i + 1) % 2 == 0 and True:"])
def test_batches_that_are_collected_for_one_pass_add_up_no_gradients(count: str, steps: str) -> None:
    text = (
        SCRIPT[: SCRIPT.index("for i,")]
        + f"""\
xs, ys = [], []
for i, (x, y) in enumerate(loader):
    {count}
    xs.append(x[:half])
    ys.append(y[:half])
    {steps}
        loss = nn.functional.mse_loss(model(torch.cat(xs)), torch.cat(ys))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        xs, ys = [], []
"""
    )
    assert offers(text) == []


@pytest.mark.parametrize("divided", ["len(x) / 4", "loss.item() / 4", "len(y) / 4"])
def test_a_number_that_is_divided_is_no_loss(divided: str) -> None:
    assert offers(SCRIPT.replace(" / 4\n", f"\n    part = {divided}\n")) == []
