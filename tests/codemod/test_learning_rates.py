"""A step that sets its own learning rate draws data of its own, if the rate is the same in every process."""

from __future__ import annotations

import pytest

from tests.codemod.pairs import run

SCRIPT = """\
import math

import torch
from torch import nn

warm, most = 5, 50
data = torch.randn(100, 4)


class Options:
    decay = 0.5


def rate(step, lowest=0.0):
    if step < warm:
        return 0.1 * (step + 1) / warm
    share = (step - warm) / (most - warm)
    return max(lowest, 0.1 * (1 + math.cos(math.pi * share)))


def batch():
    x = data[torch.randint(len(data), (8,))]
    return x, x.sum(1, keepdim=True)


model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
options = Options()
step, seen = 0, 0
while True:
    x, y = batch()
    optimizer.zero_grad()
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
    {rounds}
    for group in optimizer.param_groups:
        {sets}
    step += 1
    if step > most:
        break
"""


def seeds(sets: str, rounds: str = "pass") -> bool:
    text = SCRIPT.format(sets=sets, rounds=rounds)
    return "accelerator.seed_by_rank()" in run(text).after.decode()


@pytest.mark.parametrize(
    "sets",
    [
        'group["lr"] = rate(step)',
        'group["lr"] = rate(step, lowest=options.decay / most)',
        'group["lr"] *= options.decay ** (step // 10)',
        'group["lr"] = 0.1 if step < len(data) else 0.01',
        'if step == int(0.5 * most): group["lr"] *= 0.1',
    ],
)
def test_a_rate_that_counts_steps_is_the_same_everywhere(sets: str) -> None:
    assert seeds(sets)


def test_rounds_that_are_counted_are_as_many_everywhere() -> None:
    assert seeds('group["lr"] = rate(seen)', "for part in range(4): seen += 1")


@pytest.mark.parametrize(
    ("sets", "rounds"),
    [
        ('group["lr"] = rate(loss.item())', "pass"),
        ('if loss < 1: group["lr"] = 0.01', "pass"),
        ('group["lr"] = 0.1 / len(x)', "pass"),
        ('group["lr"] = 0.1 * x.shape[0]', "pass"),
        ('group["lr"] = rate(seen)', "seen += int(loss < 1)"),
        ('group["lr"] = rate(seen)', "if y.mean() > 0: seen = step"),
        ('group["lr"] = rate(seen)', "for part in range(4):\n        if y[part] > 0: break\n        seen += 1"),
        ('group["lr"] = rate(seen)', "for part in y: seen += 1"),
        ('group["lr"] = float(torch.rand(1))', "pass"),
    ],
)
def test_a_rate_of_the_data_keeps_them_the_same_everywhere(sets: str, rounds: str) -> None:
    assert not seeds(sets, rounds)


@pytest.mark.parametrize(
    ("sets", "is_alike"),
    [
        ('group["lr"] = 0.1 * len(x) / float(x.sum())', True),
        ('group["lr"] *= float(loss)', True),
        ('group["lr"] *= 0.99', False),
    ],
)
def test_what_ranks_draw_alike_is_not_said_to_be_their_own(sets: str, is_alike: bool) -> None:
    rounds = "total += loss.item()\n    print(total)\n    if total > 9: break"
    text = SCRIPT.format(sets=sets, rounds=rounds).replace("step, seen =", "total = 0.0\nstep, seen =")
    said = [note.message for note in run(text).notes]
    assert any("every process has the same data here" in message for message in said) is is_alike
    own = ("this process's shard", "own random draws", "one process's own data")
    assert any(words in message for message in said for words in own) is not is_alike
