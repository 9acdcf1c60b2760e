"""Values are told apart by what they are, and not by who asks."""

from __future__ import annotations

import ast

from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import (
    NOTHING,
    Argument,
    Constant,
    Element,
    External,
    FunctionValue,
    Instance,
    Made,
    Member,
    Parameters,
)

SCOPE = Scope("function", ast.Pass(), None, "main.py", "f")
OTHER = Scope("function", ast.Pass(), None, "main.py", "f")


def test_equal_values_are_one() -> None:
    assert {External("torch.zeros"), External("torch.zeros")} == {External("torch.zeros")}
    assert Element(Instance(SCOPE)) == Element(Instance(SCOPE))
    assert Member(Argument(SCOPE, "x"), "y") == Member(Argument(SCOPE, "x"), "y")


def test_scopes_and_nodes_are_told_apart_by_identity() -> None:
    call, same = ast.parse("f()", mode="eval").body, ast.parse("f()", mode="eval").body
    assert Made(call, "f") != Made(same, "f")
    assert Instance(SCOPE) != Instance(OTHER)
    assert Argument(SCOPE, "x") != Argument(OTHER, "x")


def test_kinds_are_told_apart() -> None:
    assert External("x") != Constant("x")
    assert Element(External("x")) != Parameters(External("x"))
    assert FunctionValue(SCOPE) != FunctionValue(SCOPE, Instance(OTHER))


def test_the_root_of_a_member() -> None:
    root = Argument(SCOPE, "args")
    assert Member(Member(root, "model"), "[0]").root == root
    assert Member(root, "model").root == root


def test_nothing_is_empty() -> None:
    assert not NOTHING
