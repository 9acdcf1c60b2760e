"""What values are to training."""

from __future__ import annotations

import pytest

from accelify.codemod.training.roles import Roles
from tests.codemod.facts import Facts

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
class Net(nn.Module): ...
class Tape(torch.optim.Optimizer): ...
"""


@pytest.mark.parametrize(
    ("code", "role"),
    [
        ("Net()", "module"),
        ("nn.Linear(4, 1)", "module"),
        ("torch.optim.SGD(p, 0.1)", "optimizer"),
        ("Tape(p)", "optimizer"),
        ("DataLoader(d)", "loader"),
        ("torch.optim.lr_scheduler.StepLR(o, 1)", "scheduler"),
        ("nn.MSELoss()", "loss"),
        ("torch.device('cuda')", "device"),
        ("'cuda:0'", "device"),
        ("open(path)", ""),
    ],
)
def test_what_is_built(code: str, role: str) -> None:
    facts = Facts(f"{HEAD}made = {code}")
    roles = Roles(facts.program)
    values = facts.program.values(facts.expression(code))
    for name in ("optimizer", "loader", "scheduler", "loss", "device"):
        assert any(map(getattr(roles, f"is_{name}"), values)) == (name == role), name
    if role == "module":
        assert all(map(roles.is_module, values))


def test_what_is_given_to_an_optimizer_is_a_model() -> None:
    facts = Facts("import torch\nnet = build()\ntorch.optim.SGD(net.parameters(), 0.1)")
    assert any(map(facts.roles.is_model, facts.program.values(facts.expression("net#2"))))


@pytest.mark.parametrize("part", ["x", "y", "b"])
def test_parts_of_a_batch(part: str) -> None:
    facts = Facts(
        f"{HEAD}for x, y in DataLoader(d):\n    print(x, y)\nfor b in DataLoader(d):\n    print(b)\nprint(HEAD)"
    )
    assert facts.roles.is_part_of_a_batch(facts.expression(f"{part}#2"))
    assert not facts.roles.is_part_of_a_batch(facts.expression("HEAD"))


def test_a_generator_has_no_length() -> None:
    facts = Facts("def feed():\n    yield 1\nfor x in feed(): ...\nfor y in [1]: ...")
    assert facts.roles.has_no_length(facts.expression("feed()"))
    assert not facts.roles.has_no_length(facts.expression("[1]"))
