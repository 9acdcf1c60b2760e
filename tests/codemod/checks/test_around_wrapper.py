"""Losses that were computed past the wrapper."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.around_wrapper import NAME
from tests.codemod.checks.checking import ACCELERATE, DDP, leaves, reports

WRAPPED = DDP + "net = torch.nn.Linear(1, 1)\nmodel = DDP(net)\nfor x in loader:\n"


def test_past_the_wrapper() -> None:
    reports(NAME, WRAPPED + "    loss = model.module(x)  # <- here\n    loss.backward()\n")
    reports(NAME, WRAPPED + "    out = model.module.loss(x)  # <- here\n    loss = out.sum()\n    loss.backward()\n")


@pytest.mark.parametrize(
    "text",
    [
        "    loss = model(x)\n    loss.backward()\n",
        "    loss = model.module(x)\n    print(loss)\n",
        "    y = model.module.target(x)\n    loss = criterion(model(x), y)\n    loss.backward()\n",
        "    loss = net(x)\n    loss.backward()\n",
        "    loss = other.module(x)\n    loss.backward()\n",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    leaves(NAME, WRAPPED + text)


def test_accelerate_wraps_too() -> None:
    text = (
        ACCELERATE
        + "net, loader = accelerator.prepare(torch.nn.Linear(3, 3), loader)\ninner = accelerator.unwrap_model(net)\n"
    )
    reports(NAME, text + "for x in loader:\n    loss = inner(x).sum()  # <- here\n    accelerator.backward(loss)\n")
    leaves(NAME, text + "for x in loader:\n    loss = net(x).sum()\n    accelerator.backward(loss)\ninner(x)\n")
    leaves(NAME, text.replace("accelerate import", "accelify.runtime import") + "accelerator.backward(inner(x))\n")
