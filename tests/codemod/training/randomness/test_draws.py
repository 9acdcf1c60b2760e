"""Facts about what draws random numbers or asks a simulation."""

from __future__ import annotations

import pytest

from accelify.codemod.training.randomness.draws import asks_environment, draws, function_draws
from tests.codemod.facts import Facts

IMPORTS = """\
from torchvision import transforms as T
import random, torch, gym, remote
import numpy as np
from torch import nn
env = gym.make('x')
games, held = [gym.make('x') for _ in range(2)], {'x': gym.make('x')}
optimizers = [torch.optim.SGD([torch.zeros(3)], 0.1)]
"""


@pytest.mark.parametrize(
    ("call", "is_drawn"),
    [
        ("torch.randn(3)", True),
        ("np.random.rand()", True),
        ("random.random()", True),
        ("buffer.sample(3)", True),
        ("remote.buffer.sample_batch(3)", True),
        ("torch.empty(3).uniform_()", True),
        ("np.random.default_rng(0).normal()", True),
        ("env.step(1)", True),
        ("torch.zeros(3)", False),
        ("nn.Linear(3, 3)", False),
        ("nn.functional.dropout(x, training=model.training)", False),
        ("np.random.seed(3)", False),
        ("optimizer.step()", False),
        ("remote.optimizer.step()", False),
        ("env.close()", False),
        ("T.RandomCrop(8)(x)", True),
        ("T.Compose([T.RandomCrop(8), T.ToTensor()])(x)", True),
        ("T.Compose(parts)(x)", True),
        ("T.ToTensor()(x)", False),
        ("T.v2.Resize(8)(x)", False),
        ("T.Compose([T.Resize(8), T.ToTensor()])(x)", False),
    ],
)
def test_what_draws_at_random(call: str, is_drawn: bool) -> None:
    facts = Facts(f"{IMPORTS}{call}\n")
    assert draws(facts.program, facts.call(call)) is is_drawn


@pytest.mark.parametrize(
    ("call", "is_asked"),
    [
        ("env.reset()", True),
        ("remote.make().train_envs.step(1)", True),
        ("gym.vector.make('x').reset()", True),
        ("games[0].reset()", True),
        ("held['x'].step(1)", True),
        ("optimizers[0].step()", False),
        ("optimizer.step()", False),
        ("env.close()", False),
    ],
)
def test_environments(call: str, is_asked: bool) -> None:
    facts = Facts(f"{IMPORTS}{call}\n")
    assert asks_environment(facts.program, facts.call(call)) is is_asked


def test_functions_that_draw() -> None:
    text = "def f():\n    return g()\ndef g():\n    return torch.randn(1)\ndef h():\n    return h()\nf()\nh()\n"
    facts = Facts(IMPORTS + text)
    assert function_draws(facts.program, facts.scope("f"))
    assert not function_draws(facts.program, facts.scope("h"))
