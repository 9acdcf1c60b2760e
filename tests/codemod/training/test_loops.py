"""Which backward passes train, in which loops, and what they learn from."""

from __future__ import annotations

import dataclasses

import pytest

from accelify.codemod.training.loops import Loops, Training
from tests.codemod.facts import Facts, texts

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = "model(x).sum().backward(); optimizer.step()"


def data(loop: str) -> list[tuple[str, list[str]]]:
    """What a script with some lines after its head learns from: the kind, and what is gone over."""
    return [(d.kind, texts(d.sources)) for d in Facts(HEAD + loop).training.data]


def test_training_is_frozen() -> None:
    training = Facts(HEAD + f"for x in DataLoader(d):\n    {STEP}").training
    with pytest.raises(dataclasses.FrozenInstanceError):
        training.steps = ()  # type: ignore[misc]
    assert isinstance(training, Training)


def test_loops_round_a_backward_pass_are_found_through_calls() -> None:
    facts = Facts(
        HEAD + f"def step(x):\n    {STEP}\nfor epoch in range(2):\n    for x in DataLoader(d):\n        step(x)"
    )
    (loops,) = facts.training.loops.values()
    assert [ast_loop.lineno for ast_loop in loops] == [9, 8]
    assert {frame.name for frame in facts.training.frames} >= {"step"}


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        (f"for x in DataLoader(d):\n    {STEP}", [("loaders", ["DataLoader(d)"])]),
        (
            f"batches = iter(DataLoader(d))\nfor i in range(9):\n    x = next(batches)\n    {STEP}",
            [("loaders", ["batches"])],
        ),
        (f"x = torch.ones(4)\nfor i in range(9):\n    {STEP}", [("full", [])]),
        (f"for i in range(9):\n    x = torch.randn(2, 4)\n    {STEP}", [("random", [])]),
    ],
)
def test_what_a_loop_learns_from(loop: str, expected: list[tuple[str, list[str]]]) -> None:
    assert data(loop) == expected


@pytest.mark.parametrize(
    ("body", "loaders"),
    [
        ("    loader = DataLoader(d)\n    for b in loader:\n        yield b", ["loader"]),
        ("    while True:\n        yield from DataLoader(d)", ["DataLoader(d)"]),
        ("    for i in range(9):\n        yield i", []),
    ],
)
def test_loaders_that_a_generator_yields_from(body: str, loaders: list[str]) -> None:
    facts = Facts(f"{HEAD}def feed():\n{body}\nbatches = feed()\nnext(batches)")
    loops = Loops(facts.program, facts.roles, facts.tracer)
    (generator,) = loops.generators(facts.expression("batches#2"))
    assert texts(loops.yielded_from(generator.scope)) == loaders
