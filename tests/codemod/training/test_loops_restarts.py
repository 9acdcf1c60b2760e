"""Facts about loops that begin a training anew in each round: over folds, seeds or settings."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.loops import Anew, Loops
from tests.codemod.facts import MARK, Facts

IMPORTS = "import torch\nfrom torch import nn\n"


def begins(text: str) -> bool:
    facts = Facts(IMPORTS + text)
    (loop,) = (n for n in facts.marked if isinstance(n, ast.For))
    loops = Loops(facts.program, facts.roles, facts.tracer)
    anew = Anew(facts.program, facts.roles, lambda node, outer: outer in loops.stack(node))
    stepped = [c.func.value for c in facts.program.calls if isinstance(c.func, ast.Attribute) and c.func.attr == "step"]
    return anew.begins(loop, stepped)


MAKE = "m = nn.Linear(1, 1)\no = torch.optim.SGD(m.parameters())\n"


def test_each_round_makes_its_own() -> None:
    assert begins(
        f"for fold in folds:  {MARK}\n    m = nn.Linear(1, 1)\n    o = torch.optim.SGD(m.parameters())\n    o.step()\n"
    )


def test_through_functions_and_classes() -> None:
    text = "def build():\n    m = nn.Linear(1, 1)\n    return m, torch.optim.SGD(m.parameters())\n"
    assert begins(f"{text}for fold in folds:  {MARK}\n    m, o = build()\n    o.step()\n")
    net = "class Net(nn.Module): pass\n"
    assert begins(
        f"{net}for f in folds:  {MARK}\n    m = Net()\n    o = torch.optim.SGD(m.parameters())\n    o.step()\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        f"{MAKE}for x in rows:  {MARK}\n    o.step()\n",
        f"m = nn.Linear(1, 1)\nfor f in folds:  {MARK}\n    o = torch.optim.SGD(m.parameters())\n    o.step()\n",
        f"{MAKE}for f in folds:  {MARK}\n    m = nn.Linear(1, 1)\n    o.step()\n",
        f"def f(o):\n    for x in rows:  {MARK}\n        o.step()\n",
        f"for f in folds:  {MARK}\n    unknown.step()\n",
    ],
)
def test_what_was_there_before_is_trained_on(text: str) -> None:
    assert not begins(text)
