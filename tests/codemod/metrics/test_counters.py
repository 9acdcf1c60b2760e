"""Facts about what comes out the same in every process, because it is calculated from counters."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.counters import Counted
from tests.codemod.facts import MARK
from tests.codemod.training_scripts import STEP, training


@pytest.mark.parametrize(
    ("statement", "alike"),
    [
        ("step = 3", True),
        ("step = epoch * 10", True),
        ("step += 1", True),
        ("step = limit", True),
        ("step = loss.item()", False),
        ("step = x.size(0)", False),
        ("step = unknown()", False),
    ],
)
def test_what_is_set_alike(statement: str, alike: bool) -> None:
    facts = training(before="limit, step = 5, 0\n", step=f"{STEP}{statement}  {MARK}\n")
    node = facts.here
    assert isinstance(node, (ast.Assign, ast.AugAssign))
    loops = {loop for found in facts.training.loops.values() for loop in found}
    assert Counted(facts.program, facts.tracer, loops).is_set_alike(node) is alike


@pytest.mark.parametrize(("test", "alike"), [("epoch > 1", True), ("loss.item() > 1", False)])
def test_under_a_condition(test: str, alike: bool) -> None:
    facts = training(before="step = 0\n", step=f"{STEP}if {test}:\n    step = 1  {MARK}\n")
    node = facts.here
    assert isinstance(node, ast.Assign)
    loops = {loop for found in facts.training.loops.values() for loop in found}
    assert Counted(facts.program, facts.tracer, loops).is_set_alike(node) is alike
