"""Facts about passes over all data in an order that was drawn before."""

from __future__ import annotations

import pytest

from accelify.codemod.result import Status
from accelify.codemod.training.loops.loops import Loops
from accelify.codemod.training.randomness.passes import Passes
from tests.codemod.facts import Facts
from tests.codemod.pairs import run

HEAD = """\
import random
import torch
import numpy as np
from torch import nn
data = torch.randn(100, 5)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = "loss = model(x).mean(); optimizer.zero_grad(); loss.backward(); optimizer.step()"
NEXT = f"""
for epoch in range(3):
    it = batches(10)
    for step in range(10):
        x = next(it)
        {STEP}
"""
PASSES = {
    "seeded": """\
def batches(size):
    order = list(range(100)); random.seed(230); random.shuffle(order)
    for i in range(100 // size):
        yield data[order[i * size:(i + 1) * size]]
""",
    "unseeded": """\
def batches(size):
    order = torch.randperm(100)
    for start in range(0, 100, size):
        yield data[order[start:start + size]]
""",
    "in_a_function": """\
def drawn(n):
    return np.random.permutation(n)
def batches(size):
    order = drawn(len(data))
    rows = [data[i] for i in order]
    for i in range(0, 100, size):
        yield torch.stack(rows[i:i + size])
""",
    "in_reverse": """\
def batches(size):
    order = list(range(100)); np.random.shuffle(order)
    while order:
        yield data[[order.pop() for _ in range(size)] + order[:0]]
""",
}
WHILE = f"""
for epoch in range(3):
    order = np.random.permutation(100)
    start = 0
    while start < 100:
        x = data[order[start:start + 10]]
        {STEP}
        start += 10
"""
DRAWN = {
    "endless": """\
def batches(size):
    while True:
        order = torch.randperm(100)
        for i in range(0, 100, size):
            yield data[order[i:i + size]]
""",
    "in_each_step": """\
def batches(size):
    for _ in range(10):
        order = np.random.permutation(100)
        yield data[order[:size]]
""",
    "from_a_subset": """\
def batches(size):
    some = np.random.permutation(100)[:50]
    for _ in range(10):
        yield data[np.random.choice(some, size)]
""",
}


def kinds(text: str) -> list[str]:
    return [data.kind for data in Facts(HEAD + text).training.data]


@pytest.mark.parametrize("generator", PASSES.values(), ids=PASSES)
def test_one_pass_that_a_generator_gives(generator: str) -> None:
    assert kinds(generator + NEXT) == ["pass"]


def test_one_pass_in_slices() -> None:
    assert kinds(WHILE) == ["pass"]


@pytest.mark.parametrize("generator", DRAWN.values(), ids=DRAWN)
def test_what_is_drawn_again_and_again(generator: str) -> None:
    assert kinds(generator + NEXT) == ["random"]


def test_the_generators_that_a_loop_asks() -> None:
    facts = Facts(HEAD + PASSES["seeded"] + NEXT)
    around = Loops(facts.program, facts.roles, facts.tracer)
    passes = Passes(facts.program, around.nesting.stack, around.iterables.owners)
    loops = [loop for listed in facts.training.loops.values() for loop in listed]
    assert [generator.name for _, generator in passes.generators(loops)] == ["batches"]


def test_a_pass_that_is_asked_for_is_declined_at_its_line_and_one_that_is_gone_over_is_sharded() -> None:
    declined = run(HEAD + PASSES["seeded"] + NEXT)
    assert declined.status is Status.DECLINED
    assert [(n.rule, n.line) for n in declined.notes] == [("data", 16)]
    looped = run(f"{HEAD}{PASSES['seeded']}for epoch in range(3):\n    for x in batches(10):\n        {STEP}\n")
    assert "for x in accelerator.shard(batches(10)):" in looped.after.decode()
    assert "seed_by_rank" not in looped.after.decode()
