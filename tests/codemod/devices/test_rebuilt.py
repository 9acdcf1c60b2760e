"""Facts about containers that a script builds anew only to move what is in them."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.devices.rebuilt import is_only_indexed, is_unpacked, rebuilt
from tests.codemod.facts import Facts


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("batch = tuple(t.to(d) for t in batch)\n", "tuple"),
        ("batch = [t.to(d) for t in batch]\n", "list"),
        ("x, y = (t.to(d) for t in batch)\n", None),
        ("x, y = map(lambda t: t.to(d), batch)\n", None),
    ],
)
def test_containers_of_moved_items(text: str, kind: str | None) -> None:
    facts = Facts(text)
    found = rebuilt(facts.program, facts.call("t.to(d)"))
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize(
    "text", ["x = [t.to(d) + 1 for t in b]\n", "x = [t.to(d) for t in b if t]\n", "x = t.to(d)\n", "f(*[u, t.to(d)])\n"]
)
def test_containers_that_do_more(text: str) -> None:
    facts = Facts(text)
    assert rebuilt(facts.program, facts.call("t.to(d)")) is None


def test_what_is_done_with_them() -> None:
    facts = Facts("x, y = [1, 2]\nz = [3]\na = f()\nuse(a[0])\nb = f()\nisinstance(b, list)\n")
    assert is_unpacked(facts.program, facts["[1, 2]"])
    assert not is_unpacked(facts.program, facts["[3]"])
    first, second = facts.expression("a"), facts.expression("b")
    assert isinstance(first, ast.Name)
    assert isinstance(second, ast.Name)
    assert is_only_indexed(facts.program, first)
    assert not is_only_indexed(facts.program, second)
