"""What a run passes on its way to a node: by one walk, whatever the question is."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.visits.ways import Gate, Ways
from tests.codemod.facts import Facts


def asked(text: str) -> set[str]:
    """What decides whether and how often `here()` is run, in its own function."""
    facts = Facts(text)
    gates = facts.program.once(Ways).of(facts.call("here()"))
    return {ast.unparse(n) for g in gates for n in (*(c.test for c in g.choices), *(loop.iter for loop in g.loops))}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("if a:\n    here()", {"a"}),
        ("if here():\n    f()", set()),
        ("x = b and here()", {"b"}),
        ("x = [here() for i in items if c]", {"items", "c"}),
        ("x = [i for i in here() if c]", set()),
        ("x = [j for i in rows for j in here()]", {"rows"}),
        ("for i in items:\n    here()", {"items"}),
        ("for i in here():\n    f()", set()),
        ("for i in items:\n    f()\nelse:\n    here()", set()),
        ("for i in items:\n    if d:\n        break\n    here()", {"items", "d"}),
        ("while e:\n    here()", {"e"}),
        ("def f():\n    if a:\n        return\n    here()\nf()", {"a"}),
        ("def f():\n    here()\n    if a:\n        return\nf()", set()),
        ("def f():\n    for i in items:\n        here()\n        if a:\n            return\nf()", {"items", "a"}),
    ],
)
def test_what_decides_about_a_node(text: str, found: set[str]) -> None:
    assert asked(text) == found


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("here()", True),
        ("def f():\n    here()\nf()", True),
        ("def f():\n    here()\nif own:\n    f()", False),
        ("def f():\n    here()\ndef g():\n    f()\nwhile own:\n    g()", False),
        ("class A:\n    here()", True),
        ("g = lambda: here()", False),
        ("try:\n    here()\nexcept E:\n    pass", False),
        ("try:\n    f()\nexcept E:\n    here()", False),
        ("try:\n    here()\nfinally:\n    f()", True),
    ],
)
def test_ways_through_calls(text: str, is_met: bool) -> None:
    def is_open(gate: Gate) -> bool:
        return not gate.may_fail and not any(ast.unparse(c.test) == "own" for c in gate.choices)

    facts = Facts(text)
    assert facts.program.once(Ways).are_open(facts.call("here()"), is_open) is is_met
