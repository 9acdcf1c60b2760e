"""Which definitions arrive where something is read, by the functions that a call is known to run."""

from __future__ import annotations

import ast

from accelify.codemod.semantics.reaching.solver import Solver
from accelify.codemod.semantics.scopes import Scope
from tests.codemod.semantics.reaching.sources import Named

TEXT = """
def f():
    global x
    x = 2
def g():
    pass
x = 1
{call}()
print(x)
"""


def lines(call: str) -> set[int]:
    source = Named(TEXT.format(call=call))

    def runs(node: ast.Call | None) -> frozenset[Scope]:
        called = ast.unparse(node.func) if node is not None else ""
        return frozenset(scope for scope in source.names.bindings.root.walk() if scope.name == called)

    solver = Solver(source.flow, source.names, source.collected(), runs)
    return {definition.node.lineno for definition in solver.reaching(source.expression("x#3"))}  # type: ignore[attr-defined]


def test_a_call_brings_what_the_called_function_makes() -> None:
    assert lines("f") == {4, 7}


def test_a_call_of_another_function_brings_nothing() -> None:
    assert lines("g") == {7}
