"""What stands in a loop's body, and what its variables are calculated from."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from accelify.codemod.files.nodes import walk
from accelify.codemod.semantics.scopes import names_in

Loop = ast.For | ast.AsyncFor | ast.While
CALCULATES = (
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Name, ast.Constant, ast.Call, ast.Load),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)


def nodes_in(loop: Loop) -> Iterator[ast.AST]:
    """All nodes of a loop's body."""
    for statement in loop.body:
        yield from walk(statement)


def assigned_in(loop: Loop) -> Sequence[tuple[str, ast.expr]]:
    """The variables that get one value in a loop, in order."""
    plain = (n for n in nodes_in(loop) if isinstance(n, ast.Assign) and len(n.targets) == 1)
    return [(n.targets[0].id, n.value) for n in plain if isinstance(n.targets[0], ast.Name)]


def calculated(numbers: set[str], loop: Loop) -> set[str]:
    """Numbers, and the variables that a loop calculates from them."""
    found = set(numbers)
    for name, value in [*assigned_in(loop)] * 2:
        if names_in(value) & found and all(isinstance(n, CALCULATES) for n in walk(value)):
            found.add(name)
    return found


def with_derived(names: Iterable[str], nodes: Sequence[ast.AST]) -> set[str]:
    """Names, and those that are calculated from them."""
    found = set(names)
    for _ in range(2):
        for node in nodes:
            if (
                isinstance(node, ast.Assign)
                and len(node.targets) == 1
                and isinstance(node.targets[0], ast.Name)
                and not isinstance(node.value, ast.Call)
                and names_in(node.value) & found
            ):
                found.add(node.targets[0].id)
    return found
