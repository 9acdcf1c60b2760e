"""Facts about which bindings may have given a name the value that is read."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.reaching import reaching
from tests.codemod.facts import Facts


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a = 1\na = 2\nuse(a)\n", [2]),
        ("a = 1\nif p:\n    a = 2\nuse(a)\n", [1, 3]),
        ("if p:\n    a = 1\nelse:\n    a = 2\nuse(a)\n", [2, 4]),
        ("a = 1\nuse(a)\na = 2\n", [1]),
        ("a = 1\na = f(a)\nuse(a)\n", [2]),
        ("a = 1\nfor a in b:\n    use(a)\n", [2]),
        ("def f(a):\n    if p:\n        a = 2\n    use(a)\n", [1, 3]),
    ],
)
def test_bindings_that_reach_a_read(text: str, lines: list[int]) -> None:
    facts = Facts(text)
    read = facts.call("use(a)").args[0]
    assert isinstance(read, ast.Name)
    owner = facts.program.scope(read).owner("a")
    assert owner is not None
    found = reaching(facts.program, read, facts.tracer.writes(owner, "a"))
    assert sorted(facts.program.line(w) for w in found) == lines
