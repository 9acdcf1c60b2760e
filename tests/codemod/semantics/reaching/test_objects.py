"""Which variables may have an object that is changed."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.reaching.objects import Objects
from tests.codemod.semantics.reaching.sources import Named


def touched(text: str, changed: str) -> list[str]:
    source = Named(text)
    objects = Objects(source.names)
    for node in ast.walk(source.tree):
        objects.connect(node)
    return sorted(variable.name for variable in objects.touched(source.expression(changed)))


@pytest.mark.parametrize(
    ("text", "changed", "names"),
    [
        ("a = []\nb = a\nb.append(1)\n", "b.append", ["a", "append", "b"]),
        ("a = []\nb = {'k': a}\nc = {'l': b}\na[0]\n", "a#2", ["a", "b", "c"]),
        ("b = {'k': a, 'l': d}\nb['k'][0]\n", "b['k'][0]", ["a", "b"]),
        ("a = b if c else d\na\n", "a#2", ["a", "b", "d"]),
        ("a = f(b)\na\n", "a#2", ["a"]),
    ],
)
def test_a_change_is_one_of_all_that_hold_the_object(text: str, changed: str, names: list[str]) -> None:
    bound = "".join(f"{name} = {name}0\n" for name in "abcd" if not text.startswith(f"{name} = "))
    assert touched(bound + text, changed) == names
