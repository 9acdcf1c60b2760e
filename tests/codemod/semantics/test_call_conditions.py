"""Facts about which calls of a function get as far as a place in it."""

from __future__ import annotations

import pytest

from accelify.codemod.semantics.call_conditions import Ways
from tests.codemod.facts import Facts


def to(body: str) -> set[str]:
    """What the parameters must be for a function to get to `here()`."""
    facts = Facts(f"def f(a, b):\n    {body}\nf(0, None)\nf(None, 0)\nf('x', None)\n")
    ways = Ways(facts.program, facts.tracer)
    found = ways.only_if(facts.scope("f"), {ways.begin(facts["here()"])})
    return set(found.split(" and ")) if found else set()


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
    facts = Facts(
        "def f(a):\n    if a: here()\ndef g(c):\n    f(c)\ndef h():\n    y = 0\n    f(y)\n"
        "f(True)\nf(False)\nf(x)\ng(True)\ng(False)\n"
    )
    ways = Ways(facts.program, facts.tracer)
    way = ways.begin(facts["here()"])
    assert ways.through(facts.call("f(True)"), way) == ()
    assert ways.through(facts.call("f(False)"), way) is None
    assert ways.through(facts.call("f(y)"), way) is None
    assert ways.through(facts.call("f(x)"), way) == ()
    handed = ways.through(facts.call("f(c)"), way)
    assert handed
    assert ways.through(facts.call("g(True)"), handed) == ()
    assert ways.through(facts.call("g(False)"), handed) is None
    assert ways.only_if(facts.scope("g"), {handed}) == "c"


MAKER = """\
def make(a, b=None):
    def f(x):
        if a:
            here()
    return f
"""


@pytest.mark.parametrize(
    ("made", "call", "comes"),
    [
        ("f = make(True)", "f(1)", True),
        ("f = make(False)", "f(1)", False),
        ("f = make(a=0, b=1)", "f(1)", False),
        ("", "make(False)(1)", False),
        ("", "make(True)(1)", True),
        ("g = f = make(None)", "g(1)", False),
        ("f = make(unknown)", "f(1)", True),
        ("f = make(True) if unknown else make(False)", "f(1)", True),
    ],
)
def test_what_the_call_says_that_made_an_inner_function(made: str, call: str, comes: bool) -> None:
    facts = Facts(f"{MAKER}make(True)(0)\nmake(False)(0)\n{made}\n{call}\n")
    ways = Ways(facts.program, facts.tracer)
    way = ways.begin(facts["here()"])
    assert way
    assert (ways.through(facts.call(call), way) is not None) is comes
    assert ways.only_if(facts.scope("make.f"), {way}) is None


def test_what_no_call_asks_for_may_be_asked_for_later() -> None:
    facts = Facts("def f(a):\n    if a: here()\nf(False)\n")
    ways = Ways(facts.program, facts.tracer)
    assert ways.through(facts.call("f(False)"), ways.begin(facts["here()"])) == ()


def test_when_a_function_does_it_at_all() -> None:
    facts = Facts("def f(a):\n    if a: here()\nf(True)\nf(False)\n")
    ways = Ways(facts.program, facts.tracer)
    assert ways.only_if(facts.scope("f"), {ways.begin(facts["here()"])}) == "a"
    assert ways.only_if(facts.scope("f"), {()}) is None


@pytest.mark.parametrize(
    ("body", "call", "fails"),
    [
        ("here()\n    a.step()", "f(None)", True),
        ("a.zero()\n    if b: here()", "f(b=2, a=None)", True),
        ("if b:\n        a.zero()\n    here()", "f(None)", False),
        ("here()\n    use(a)", "f(None)", False),
        ("here()\n    a.step()", "f(1)", False),
        ("here()\n    a.step()", "f(c)", False),
        ("a = make()\n    here()\n    a.step()", "f(None)", False),
    ],
)
def test_calls_that_give_none_to_what_must_be_there(body: str, call: str, fails: bool) -> None:
    facts = Facts(f"def f(a, b=1):\n    {body}\n{call}\n")
    assert Ways(facts.program, facts.tracer).fails(facts.call(call), facts["here()"]) is fails
