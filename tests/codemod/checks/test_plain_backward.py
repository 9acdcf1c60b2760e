"""Backward passes beside the accelerator."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.plain_backward import NAME
from tests.codemod.checks.checking import ACCELERATE, fixed, leaves, reports

TRAIN = ACCELERATE + "net, loader = accelerator.prepare(net, loader)\nfor x in loader:\n    loss = net(x)\n"


def test_plain_backward() -> None:
    reports(NAME, TRAIN + "    loss.backward()  # <- here\n")
    reports(NAME, TRAIN + "    (loss / 2).backward()  # <- here\n")


def test_in_a_method_that_accumulates() -> None:
    text = "class T:\n    def step(self, x):\n        with self.accelerator.accumulate(net):\n"
    reports(NAME, text + "            loss = net(x)\n            loss.backward()  # <- here\n")


def test_it_goes_through_the_accelerator() -> None:
    assert fixed(TRAIN + "    loss.backward()\n").endswith("    accelerator.backward(loss)\n")
    assert fixed(TRAIN + "    (a + b).backward()\n").endswith("    accelerator.backward(a + b)\n")


@pytest.mark.parametrize(
    "text",
    [
        "    accelerator.backward(loss)\n",
        "    if accelerator is not None:\n        accelerator.backward(loss)\n    else:\n        loss.backward()\n",
        "    scaler.scale(loss).backward()\n",
        "    self.backward()\n",
        "    loss.backward(gradient)\n",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    leaves(NAME, TRAIN + text)


def test_a_script_without_an_accelerator() -> None:
    leaves(NAME, "import torch\nfor x in loader:\n    loss = net(x)\n    loss.backward()\n")
    leaves(NAME, "import accelerate\ndef f(loss):\n    loss.backward()\n")
