"""Optimizers that are stepped beside the accelerator."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.not_prepared import NAME
from tests.codemod.checks.checking import ACCELERATE, leaves, reports

TEXT = (
    ACCELERATE
    + """\
optimizer = torch.optim.SGD(net.parameters()){mark}
net, loader = accelerator.prepare(net, loader)
for x in loader:
    accelerator.backward(net(x))
    optimizer.step()
"""
)
PLAIN = TEXT.replace("{mark}", "")


def test_it_takes_steps() -> None:
    reports(NAME, TEXT.replace("{mark}", "  # <- here"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("net, loader = accelerator.prepare(net, loader)", "net, optimizer = accelerator.prepare(net, optimizer)"),
        ("net, loader = accelerator.prepare(net, loader)", "optimizer = accelerator.prepare(optimizer)"),
        ("accelerator.prepare(net, loader)", "accelerator.prepare(*everything)"),
        ("    optimizer.step()\n", ""),
        ("net, loader = accelerator.prepare(net, loader)\n", ""),
    ],
)
def test_what_is_left_alone(old: str, new: str) -> None:
    assert old in PLAIN
    leaves(NAME, PLAIN.replace(old, new))
