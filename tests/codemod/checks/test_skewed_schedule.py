"""Schedules whose length is read on the wrong side of `prepare`."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.skewed_schedule import NAME
from tests.codemod.checks.checking import ACCELERATE, leaves, reports

TEXT = (
    "from transformers import get_scheduler\n"
    + ACCELERATE
    + """\
net, loader = accelerator.prepare(net, loader)
steps = len(loader) * 3
scheduler = get_scheduler("linear", optimizer, num_warmup_steps=0, num_training_steps=steps){mark}
scheduler = accelerator.prepare(scheduler)
"""
)
PLAIN = TEXT.replace("{mark}", "")


def test_a_length_after_prepare() -> None:
    reports(NAME, TEXT.replace("{mark}", "  # <- here"))
    reports(NAME, TEXT.replace("{mark}", "  # <- here").replace("=steps)", "=len(loader) * 3)"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("steps = len(loader) * 3", "steps = len(loader) * 3 * accelerator.num_processes"),
        ("scheduler = accelerator.prepare(scheduler)\n", ""),
        ("steps = len(loader) * 3", "steps = args.steps"),
        ("steps = len(loader)", "steps = len(data)"),
        ("Accelerator()", "Accelerator(split_batches=True)"),
        ("net, loader = accelerator.prepare(net, loader)", "net = accelerator.prepare(net)"),
    ],
)
def test_what_is_left_alone(old: str, new: str) -> None:
    assert old in PLAIN
    leaves(NAME, PLAIN.replace(old, new))
