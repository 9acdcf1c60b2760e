"""Facts about which calls of a function get as far as a place in it."""

from __future__ import annotations

import pytest

from accelify.codemod.semantics.call_conditions import Ways
from tests.codemod.facts import Facts


def to(body: str) -> set[str]:
    """What the parameters must be for a function to get to `here()`."""
    facts = Facts(f"def f(a, b):\n    {body}\n")
    return {w.text for w in Ways(facts.program, facts.tracer).to(facts["here()"])}


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("here()", set()),
        ("if a: here()", {"a"}),
        ("if not a: here()", {"not a"}),
        ("if a and b is not None: here()", {"a", "b is not None"}),
        ("if a or b: here()", set()),
        ("if a == 'x': pass\n    else: here()", {'a != "x"'}),
        ("if a: return 1\n    here()", {"not a"}),
        ("if a: return 1\n    else: b\n    here()", set()),
        ("if c: here()", set()),  # which is no parameter
        ("a = 1\n    if a: here()", set()),  # which is no longer what was given
        ("if g(a): here()", set()),
    ],
)
def test_what_parameters_must_be(body: str, wanted: set[str]) -> None:
    assert to(body) == wanted


def test_through_calls() -> None:
    facts = Facts("def f(a):\n    if a: here()\ndef g(c):\n    f(c)\nf(True)\nf(False)\nf(x)\n")
    ways = Ways(facts.program, facts.tracer)
    wanted = ways.to(facts["here()"])
    function = facts.scope("f")
    assert ways.through(facts.call("f(True)"), function, wanted) == frozenset()
    assert ways.through(facts.call("f(False)"), function, wanted) is None
    assert ways.through(facts.call("f(x)"), function, wanted) == frozenset()
    handed = ways.through(facts.call("f(c)"), function, wanted)
    assert handed is not None
    assert {w.text for w in handed} == {"c"}


def test_when_a_function_does_it_at_all() -> None:
    facts = Facts("def f(a):\n    if a: here()\nf(True)\nf(False)\n")
    ways = Ways(facts.program, facts.tracer)
    assert ways.only_if(facts.scope("f"), {ways.to(facts["here()"])}) == "a"
    assert ways.only_if(facts.scope("f"), {frozenset()}) is None
