"""Gathered batches in which samples are counted twice."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.gathered_padding import NAME
from tests.codemod.checks.checking import ACCELERATE, fixed, leaves, reports

TEXT = (
    ACCELERATE
    + """\
loader = accelerator.prepare(loader)
for x, y in loader:
    metric.add_batch(predictions=accelerator.gather(net(x)), references=y){mark}
print(metric.compute())
"""
)
PLAIN = TEXT.replace("{mark}", "")


def test_a_gathered_batch() -> None:
    reports(NAME, TEXT.replace("{mark}", "  # <- here"))
    text = "for x in loader:\n    p = accelerator.gather(net(x))  # <- here\n    metric.add_batch(predictions=p)\n"
    reports(NAME, ACCELERATE + text)


def test_the_padding_is_dropped() -> None:
    assert "predictions=accelerator.gather_for_metrics(net(x))" in fixed(PLAIN)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("accelerator.gather(", "accelerator.gather_for_metrics("),
        ("    metric.add_batch", "    net(x).backward()\n    metric.add_batch"),
        ("print(metric.compute())", "print(metric.compute()[: len(data)])"),
        (
            "metric.add_batch(predictions=accelerator.gather(net(x)), references=y)",
            "losses = accelerator.gather(net(x))",
        ),
        ("for x, y in loader:", "if x:"),
        ("accelerator.gather(", "torch.gather("),
    ],
)
def test_what_is_left_alone(old: str, new: str) -> None:
    assert old in PLAIN
    leaves(NAME, PLAIN.replace(old, new))
