"""Facts about after which statement processes may draw random numbers of their own."""

from __future__ import annotations

import ast

from accelify.codemod.preparing.seeds import Seeds
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import STEP


def after(build: str) -> str:
    step = STEP.replace("\n", "\n    ")
    text = f"""\
import torch
from torch import nn
def make():
    net = nn.Linear(4, 1)
    return net
{build}
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters())
for _ in range(9):
    x = y = torch.randn(2)
    {step}
"""
    facts = Facts(text)
    found = facts.script.seeds
    assert isinstance(found, Seeds)
    return ast.unparse(found.after(facts.statement("net = nn.Linear"))).partition("\n")[0]


def test_a_function_that_builds_once() -> None:
    assert after("a = make()") == "net = nn.Linear(4, 1)"


def test_a_function_that_builds_several() -> None:
    assert after("a = make()\nb = make()") == "b = make()"
    assert after("for k in range(3):\n    a = make()") == "for k in range(3):"
    assert after("a = [make() for k in range(3)]") == "a = [make() for k in range(3)]"


def test_a_function_that_nothing_calls() -> None:
    assert after("a = 1") == "net = nn.Linear(4, 1)"
