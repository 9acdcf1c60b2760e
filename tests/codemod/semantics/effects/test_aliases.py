"""Facts about which variables change with an object that an expression gives."""

from __future__ import annotations

import pytest

from accelify.codemod.semantics.effects.aliases import Aliases, Run
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.effects.summary import Place
from tests.codemod.facts import Facts

BEFORE = "a, b = load(), [load()]\nc = a\nclass A:\n    def f(self, x):\n        x.append(1)\no = A()\no.rows = a\n"


def changed(expression: str) -> set[str]:
    facts = Facts(f"{BEFORE}use({expression})\n")
    found = Aliases(facts.program, Kinds(facts.program)).within(facts.call("use(").args[0], ("*",))
    return {place.name for place in found}


@pytest.mark.parametrize(
    ("expression", "names"), [("a", {"a"}), ("b[0]", {"b"}), ("o.rows", {"o"}), ("[1, 2]", set()), ("'x'", set())]
)
def test_what_changes_with_it(expression: str, names: set[str]) -> None:
    assert names <= changed(expression)
    if not names:
        assert changed(expression) == set()


def test_what_a_call_gives_a_parameter_changes() -> None:
    facts = Facts(f"{BEFORE}o.f(a)\n")
    function = facts.scope("A.f")
    aliases = Aliases(facts.program, Kinds(facts.program))
    given = aliases.given(Run(function, facts.call("o.f(a)")), Place(function, "x", ("*",)))
    assert {place.name for place in given} == {"a"}


def test_a_new_object_s_own_is_nobody_else_s() -> None:
    facts = Facts("class A:\n    def __init__(self): self.x = 1\nA()\n")
    function = facts.scope("A.__init__")
    run = Run(function, facts.call("A()"), makes=True)
    place = Place(function, "self", (".x", "*"))
    assert Aliases(facts.program, Kinds(facts.program)).given(run, place) == frozenset()


@pytest.mark.parametrize(
    ("body", "is_changed"),
    [
        ("x[0] = 1", True),
        ("x = x.clone(); x[0] = 1", False),
        ("x = list(x); x.append(1)", False),
        ("x = x.view(4); x[0] = 1", True),
        ("x = x.t() if x[0] else x; x += 1", True),
        ("if x[0]: x = x.clone()\n    x.add_(1)", True),
        ("x = x.clone()\n    while x[0]: x = x.view(4)\n    x.add_(1)", False),
    ],
)
def test_a_parameter_with_another_value_is_not_what_was_passed(body: str, is_changed: bool) -> None:
    facts = Facts(f"import torch\ndef f(x):\n    {body}\n    return x\nf(torch.zeros(4))\n")
    summary = facts.program.once(Effects).of_function(facts.scope("f"))
    assert any(place.name == "x" and place.path for place in summary.writes) is is_changed


BOX = """
class Box:
    def __init__(self, rows): self.rows = rows
    def set(self):
        for row in self.rows: row.a = 1
def f(x):
    {}
    x.set()
f([])
"""


@pytest.mark.parametrize(
    "given", ["x = Box(x)", "x = Box([*x, 1])", "if x: x = Box(x)\n    else: x = Box([])", "y = x; x = Box(y)"]
)
def test_a_parameter_with_another_value_changes_with_it(given: str) -> None:
    facts = Facts(BOX.format(given))
    effects = facts.program.once(Effects)
    assert {p.name for p in effects.of_call(facts.call("x.set()")).writes} == {"x"}
    assert effects.of_function(facts.scope("f")).writes == frozenset()
