"""Facts about code that may set any variable of a module."""

from __future__ import annotations

import pytest

from accelify.codemod.semantics.effects.set_by_text import setters
from tests.codemod.facts import Facts


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("exec(open('a.py').read())\n", True),
        ("for name in names: globals()[name] = True\n", True),
        ("globals().update(given)\n", True),
        ("vars = globals()['a']\n", False),
        ("print(globals())\n", False),
        ("def f(): exec('a = 1')\n", False),
    ],
)
def test_what_may_set_any_variable(text: str, is_one: bool) -> None:
    facts = Facts(text)
    assert bool(setters(facts.program)) is is_one
