"""The nodes of a loop's body."""

from __future__ import annotations

import ast

from accelify.codemod.training.loops.bodies import nodes_in
from tests.codemod.facts import Facts


def test_the_nodes_of_a_loop() -> None:
    loop = Facts("for x in y:\n    f(x)\nelse:\n    g()\n")["for x"]
    assert isinstance(loop, ast.For)
    assert {n.id for n in nodes_in(loop) if isinstance(n, ast.Name)} == {"f", "x"}
