"""The places that may have bound a variable last, from a read backwards through the blocks of its function."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.reaching.last_bindings import LastBindings
from tests.codemod.facts import Facts


@pytest.mark.parametrize(
    ("text", "branch", "values"),
    [
        ("x = 1\nif a:\n    x = 2\nprint(x)", None, ["2", "1"]),
        ("x = 1\nif a:\n    x = 2\nprint(x)", "body", ["2"]),
        ("x = 1\nif a:\n    x = 2\nprint(x)", "orelse", ["1"]),
        ("if a:\n    x = 1\nelse:\n    x = 2\nprint(x)", None, ["1", "2"]),
        ("x = 1\nfor i in b:\n    print(x)\n    x = 2", None, ["2", "1"]),
        ("try:\n    x = 1\nexcept OSError:\n    x = 2\nprint(x)", None, ["1", "2"]),
    ],
)
def test_what_may_have_been_bound_last(text: str, branch: str | None, values: list[str]) -> None:
    facts = Facts(text)
    bindings = LastBindings(facts.program, lambda test: getattr(test, branch) if branch else None)
    read = facts.call("print(x)").args[0]
    found, is_certain = bindings.reaching(read, "x", facts.program.frame(read))
    assert [ast.unparse(facts.program.assigned(n)[0] or n) for n in found] == values
    assert is_certain
