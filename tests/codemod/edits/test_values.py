"""Facts about edits: what they are at, and what goes."""

from __future__ import annotations

import ast

from accelify.codemod.edits.values import Change, Plan, Remove, Unwrap, Wrap, no_facts
from accelify.codemod.result import Tier
from tests.codemod.facts import Facts, texts

CHOICE = "if a:\n    b\nelif c:\n    d\nelse:\n    e\n"


def choice(is_body: bool, depth: int = 0) -> list[str]:
    """What goes where one branch of the condition stays."""
    node = Facts(CHOICE)["if a"]
    assert isinstance(node, ast.If)
    return texts(n for n in Unwrap(node, is_body, depth).gone)


def test_what_goes_with_a_condition() -> None:
    assert choice(True) == ["a", "if c:\n    d\nelse:\n    e"]
    assert choice(False) == ["a", "b"]
    assert choice(True, depth=1) == ["a", "b", "c", "e"]
    assert choice(False, depth=1) == ["a", "b", "c", "d"]


def test_what_goes_with_a_with() -> None:
    node = Facts("with a(b):\n    c\n")["with a"]
    assert isinstance(node, ast.With)
    assert texts(part.context_expr for part in Unwrap(node, is_body=True).gone if isinstance(part, ast.withitem)) == [
        "a(b)"
    ]


def test_a_block_is_at_its_first_statement() -> None:
    facts = Facts("a()\nb()\n")
    first, second = facts.files[0].tree.body
    assert Wrap((first, second), "if x:").node is first


def test_a_plan_s_changes_by_file() -> None:
    statement = ast.parse("x").body[0]
    one, other = (Change("unused", path, 1, "why", (Remove(statement),)) for path in ("a.py", "b.py"))
    plan = Plan([one, other])
    assert plan.of("a.py") == [one]
    assert plan.of("c.py") == []
    assert one.tier is Tier.SAFE
    assert no_facts("a.py", 1) == ()
