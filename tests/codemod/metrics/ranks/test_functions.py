"""What functions give their callers, and what decides in them which code is run."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.ranks.functions import Functions
from tests.codemod.training_scripts import STEP, training

CHOSEN = """\
def kept(value, limit):
    if {test}:
        return 0
    {otherwise}
"""


@pytest.mark.parametrize(
    ("test", "otherwise", "is_own"),
    [
        ("value > limit", "return 1", True),  # which of two numbers it is depends on the batch
        ("limit > 3", "return 1", False),
        ("limit > 3", "return value", True),
    ],
)
def test_what_a_function_gives(test: str, otherwise: str, is_own: bool) -> None:
    facts = training(
        before=CHOSEN.format(test=test, otherwise=otherwise), step=f"{STEP}print(kept(loss.item(), epoch))\n"
    )
    ranks = facts.script.metrics.ranks
    assert isinstance(ranks, Functions)
    node = facts["kept(loss.item(), epoch)"]
    assert isinstance(node, ast.expr)
    assert ranks.is_own(node) is is_own
