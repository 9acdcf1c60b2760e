"""Facts about conditions that choose what a variable is given."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.reaching.branch_values import choice_of, either_way
from accelify.codemod.semantics.scopes import Assignment, assignment
from tests.codemod.facts import Facts


def first(text: str) -> tuple[Facts, Assignment]:
    facts = Facts(text)
    given = assignment(facts.statement("d: int = 1" if "d: int = 1" in text else "d = 1"))
    assert given is not None
    return facts, given


@pytest.mark.parametrize(
    ("text", "is_choice"),
    [
        ("if a:\n    d = 1\nelse:\n    d = 2\n", True),
        ("if a:\n    d = 1\nelif b:\n    d = 2\nelse:\n    d = 3\n", True),
        ("if a:\n    d: int = 1\nelse:\n    d = 2\n", True),
        ("if a:\n    d = 1\n", False),
        ("if a:\n    d = 1\nelse:\n    e = 2\n", False),
        ("if a:\n    d = 1\n    f()\nelse:\n    d = 2\n", False),
        ("if f():\n    d = 1\nelse:\n    d = 2\n", False),
        ("d = 1\n", False),
    ],
)
def test_a_condition_that_only_chooses(text: str, is_choice: bool) -> None:
    facts, statement = first(text)
    assert (choice_of(Effects(facts.program), statement) is not None) is is_choice


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("if a:\n    d = 1\n    f()\nelse:\n    g()\n    d = 2\n", ["d = 1", "d = 2"]),
        ("if a:\n    d: int = 1\n    f()\nelse:\n    d = 2\n", ["d: int = 1", "d = 2"]),
        ("if a:\n    d = 1\n    d = 3\nelse:\n    d = 2\n", None),
        ("if a:\n    g(d)\n    d = 1\nelse:\n    d = 2\n", None),
        ("if d:\n    d = 1\nelse:\n    d = 2\n", None),
        ("if a:\n    d = 1\n", None),
        ("if b:\n    pass\nelif a:\n    d = 1\nelse:\n    d = 2\n", None),
    ],
)
def test_one_assignment_in_each_branch(text: str, found: list[str] | None) -> None:
    facts, statement = first(text)
    got = either_way(Effects(facts.program), statement)
    assert (got and [ast.unparse(a.node) for a in got[1]]) == found
