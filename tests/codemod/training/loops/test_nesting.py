"""The loops round a place, through functions and closures."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.loops.nesting import Nesting
from tests.codemod.facts import Facts
from tests.codemod.training.loops.described import kinds


def test_loops_through_functions_and_closures() -> None:
    text = """\
        import torch
        def step(x):
            loss = f(x)
            loss.backward()
        def train(rows):
            for row in rows:
                step(row)
        for epoch in range(3):
            train(data)
        def closure():
            g().backward()
        optimizer = torch.optim.LBFGS(p)
        for other in things:
            optimizer.step(closure)
    """
    facts = Facts(text)
    found = [[ast.unparse(n.target) for n in loops] for loops in facts.training.loops.values()]  # type: ignore[union-attr]
    assert found == [["row", "epoch"], ["other"]]


SHARED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
rows = load()
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters())
loader = DataLoader(rows)
def update(loss, rounds=1):
    for _ in range(rounds):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{}
for epoch in range(3):
    for x, y in loader:
        update(model(x))
    {}
"""


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "for _ in range(9):\n        update(model(torch.randn(2)))", ["loaders", "random"]),
        ("while busy():\n    update(model(torch.randn(2)))", "pass", ["loaders", "random"]),
        ("", "for i in range(0, len(rows), 4):\n        update(model(rows[i:i + 4]))", ["loaders", "sequence"]),
        ("", "for _ in range(9):\n        update(model(rows))", ["loaders", "full"]),
        ("", "for x, y in DataLoader(rows):\n        update(model(x))", ["loaders", "loaders"]),
        ("def one(x):\n    update(model(x))", "for x, y in loader:\n        one(x)", ["loaders", "loaders"]),
        ("update(model(rows))", "print(epoch)", ["loaders"]),
    ],
)
def test_a_backward_pass_that_several_loops_share(before: str, after: str, expected: list[str]) -> None:
    assert kinds(Facts(SHARED.format(before, after))) == expected


def test_the_loops_of_several_callers_are_nested_each_for_itself() -> None:
    text = "def f():\n    for a in x:\n        g()\nfor b in y: f()\nfor c in z:\n    for d in c: f()\n"
    facts = Facts(text)
    nesting = Nesting(facts.program, facts.roles, facts.tracer)
    nests = nesting.nests(nesting.stack(facts.call("g()")))
    assert sorted([ast.unparse(loop.target) for loop in nest] for nest in nests) == [["a", "b"], ["a", "d", "c"]]  # type: ignore[union-attr]
