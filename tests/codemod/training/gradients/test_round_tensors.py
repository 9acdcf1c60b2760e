"""Which tensors a round of a loop over data makes for itself."""

from __future__ import annotations

import ast
from textwrap import indent

import pytest

from accelify.codemod.training.gradients.round_tensors import RoundTensors, owners_of_gradients
from tests.codemod.metrics.facts import script_of

ATTACK = """\
import torch
from torch import nn
from torch.autograd import Variable
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
shared = torch.zeros(2, 4, requires_grad=True)

def noise(x):
    return torch.randn_like(x)

def given():
    return shared

def attack(model, x, other):
    global kept
{attack}
    model(x).sum().backward()
    return x + {name}.grad

for i, (x,) in enumerate(loader):
    if i == 0:
        first = torch.zeros_like(x)
    other = x.clone()
    x = attack(model, x, {other})
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("attack", "name", "other", "holds"),
    [
        ("d = torch.zeros_like(x, requires_grad=True)", "d", "x", True),
        ("d = 0.1 * torch.randn(x.shape).to(x.device)\nd = Variable(d.data, requires_grad=True)", "d", "x", True),
        ("d = noise(x)", "d", "x", True),
        ("d = noise(x)\nfor _ in range(3):\n    d.requires_grad_()\n    d = d.grad / d.norm()", "d", "x", True),
        ("d = x.detach() if len(x) else noise(x)", "d", "x", True),
        ("x.requires_grad = True", "x", "x", True),
        ("pass", "other", "other", True),
        ("d = shared", "d", "x", False),
        ("d = Variable(shared.data, requires_grad=True)", "d", "x", False),
        ("d = shared[: len(x)].detach()", "d", "x", False),
        ("d = given()", "d", "x", False),
        ("d = noise(x) if len(x) else shared", "d", "x", False),
        ("kept = noise(x)", "kept", "x", False),
        ("model.noise = noise(x)", "model.noise", "x", False),
        ("d = model.weight", "d", "x", False),
        ("pass", "other", "shared", False),
        ("pass", "other", "first", False),  # the first round's, which all have
    ],
)
def test_tensors_of_a_round(attack: str, name: str, other: str, holds: bool) -> None:
    script = script_of(ATTACK.format(attack=indent(attack, "    "), name=name, other=other))
    tensors = RoundTensors(script.program, script.roles, script.tracer, script.training.rounds)
    (result,) = (
        n
        for n in script.program.flow.parsed_of["train.py"].parents
        if isinstance(n, ast.Return) and f"{name}.grad" in ast.unparse(n)
    )
    assert [tensors.holds(owner) for owner in owners_of_gradients(result)] == [holds]
