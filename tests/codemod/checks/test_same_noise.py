"""Noise that is the same in all processes."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.same_noise import NAME
from tests.codemod.checks.checking import ACCELERATE, DDP, leaves, reports

SEEDED = DDP + "torch.manual_seed(0)\nnet = DDP(net)\nfor x in loader:\n"
PREPARED = (
    "from accelerate.utils import set_seed\n" + ACCELERATE + "set_seed(1)\nnet, o = accelerator.prepare(net, o)\n"
    "for x in loader:\n"
)


def test_one_seed_for_all() -> None:
    reports(NAME, SEEDED + "    noise = torch.randn_like(x)  # <- here\n    net(x + noise).backward()\n")
    reports(NAME, PREPARED + "    t = torch.randint(0, 9, (4,))  # <- here\n    accelerator.backward(net(x, t))\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.manual_seed(0)", "torch.manual_seed(rank)"),
        ("torch.manual_seed(0)", "torch.manual_seed(0 + dist.get_rank())"),
        ("torch.manual_seed(0)", "seed = 1 + rank\ntorch.manual_seed(seed)"),
        ("torch.manual_seed(0)", "pass"),
        ("net = DDP(net)", "pass"),
        ("randn_like(x)", "randn_like(x, generator=own)"),
        ("torch.randn_like(x)", "torch.zeros_like(x)"),
    ],
)
def test_what_is_left_alone(old: str, new: str) -> None:
    text = SEEDED + "    noise = torch.randn_like(x)\n    net(x + noise).backward()\n"
    assert old in text
    leaves(NAME, text.replace(old, new))


def test_draws_outside_the_loop_must_agree() -> None:
    leaves(
        NAME,
        DDP + "torch.manual_seed(0)\nw = torch.randn(3)\nnet = DDP(net)\nfor x in loader:\n    net(x).backward()\n",
    )


def test_a_seed_for_each_device() -> None:
    text = PREPARED.replace("set_seed(1)", "set_seed(1, device_specific=True)")
    leaves(NAME, text + "    t = torch.randint(0, 9, (4,))\n    accelerator.backward(net(x, t))\n")
