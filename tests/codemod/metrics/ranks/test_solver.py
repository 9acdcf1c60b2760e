"""Facts that need each other are worked out until none of them grows; each part of the work has a module."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.ranks.expressions import is_self
from accelify.codemod.metrics.ranks.solver import Solver
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import STEP, training

EVEN_AND_ODD = """\
def even(n, x):
    return x if n == 0 else odd(n - 1, x)
def odd(n, x):
    return 0 if n == 0 else even(n - 1, x)
"""


@pytest.mark.parametrize(
    ("read", "is_own"), [("even(9, loss.item())", True), ("odd(9, loss.item())", True), ("even(9, 3)", False)]
)
def test_functions_that_call_each_other(read: str, is_own: bool) -> None:
    facts = training(before=EVEN_AND_ODD, step=f"{STEP}print({read})\n")
    ranks = facts.script.metrics.ranks
    assert isinstance(ranks, Solver)
    node = facts[read]
    assert isinstance(node, ast.expr)
    assert ranks.is_own(node) is is_own


@pytest.mark.parametrize(("name", "found"), [("self", True), ("other", False)])
def test_the_object_of_a_method(name: str, found: bool) -> None:
    facts = Facts(f"class A:\n    def run(self, other):\n        {name}  # <- here\n")
    assert isinstance(facts.here, ast.expr)
    assert is_self(facts.program, facts.here) is found
