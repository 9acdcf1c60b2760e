"""Facts about assignments of several values at once, of which some no longer change anything."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.devices.rebuilt import without_idle
from tests.codemod.facts import Facts


def same(target: ast.expr, value: ast.expr) -> bool:
    return ast.unparse(target) == ast.unparse(value)


@pytest.mark.parametrize(
    ("text", "some_go"),
    [
        ("x, y = x, y.to(d)", True),
        ("x, y = x, y", False),
        ("x, y = a, b", False),
        ("x = x", False),
        ("x, y = f()", False),
    ],
)
def test_idle_pairs_go_where_others_remain(text: str, some_go: bool) -> None:
    facts = Facts(text)
    assert (without_idle(facts.files[0].tree.body[0], same) is not None) is some_go
