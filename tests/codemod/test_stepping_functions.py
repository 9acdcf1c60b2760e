"""Whether a backward pass is training, by the functions that take the step after it."""

from __future__ import annotations

import pytest

from tests.codemod.facts import Facts

MODEL = """\
import torch
from torch import nn
class Pair:
    def __init__(self):
        self.net = nn.Linear(4, 4)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
"""
BACKWARD = "    def backward(self, x):\n        self.net(x).mean().backward()\n"
STEP = "        self.optimizer.step()\n"


@pytest.mark.parametrize(
    "methods",
    [
        f"{BACKWARD}    def train_on(self, x):\n        self.backward(x)\n{STEP}",
        f"{BACKWARD}    def both(self, x):\n        self.backward(x)\n    def train_on(self, x):\n"
        f"        self.both(x)\n{STEP}",
        f"    def train_on(self, x):\n        backward(self.net(x))\n{STEP}def backward(y):\n    y.mean().backward()\n",
    ],
)
def test_a_method_that_computes_gradients_for_another_to_step_by(methods: str) -> None:
    script = Facts(f"{MODEL}{methods}").verdict.script
    assert script is not None
    assert len(script.training.backwards) == 1


@pytest.mark.parametrize(
    "methods",
    [BACKWARD, f"{BACKWARD}    def train_on(self, x):\n        print(x)\n{STEP}"],
)
def test_gradients_that_nothing_here_steps_by(methods: str) -> None:
    assert Facts(f"{MODEL}{methods}").verdict.script is None
