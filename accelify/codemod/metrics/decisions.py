"""What do the processes decide each by itself, that they must decide alike: whether to take a step, and when to end?"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accelify.codemod.script import Script


def decided_apart(script: Script) -> Iterator[ast.If | ast.While]:
    """The conditions of steps that one process may take and another not."""
    seen: set[ast.AST] = set()
    for backward, loops in script.training.loops.items():
        for k, loop in enumerate(loops):
            measured = _measured(loop)
            for node in ast.walk(loop):
                if not isinstance(node, (ast.If, ast.While)) or node in seen or not _decides(node, backward, loops):
                    continue
                is_between = any(
                    (s in loops[:k] or script.program.inside(s, loop)) and not script.program.inside(node, s)
                    for s in script.metrics.shared_loops
                )
                # Between the epochs, what is reduced is everyone's.
                if script.metrics.ranks.is_own(node.test) or (
                    not is_between and _looks_own(script, node.test, measured)
                ):
                    seen.add(node)
                    yield node


def _looks_own(script: Script, test: ast.expr, measured: set[str]) -> bool:
    """Whether a condition reads a batch, or what a loop measures."""
    read = [n for n in ast.walk(test) if isinstance(n, (ast.Name, ast.Attribute))]
    of_batch = any(script.roles.is_part_of_a_batch(n) for n in read if isinstance(n, ast.Name))
    return of_batch or bool(set(map(ast.unparse, read)) & measured) or _asks_a_tensor(test)


def _decides(node: ast.If | ast.While, backward: ast.Call, loops: Sequence[ast.AST]) -> bool:
    """Whether a condition holds a backward pass, or leaves the loop or the round."""
    if isinstance(node, ast.While):
        return node in loops and not _goes_on_while_there_is_more(node)
    inside = [n for branch in (node.body, node.orelse) for s in branch for n in ast.walk(s)]
    return backward in inside or any(isinstance(n, (ast.Break, ast.Continue, ast.Raise)) for n in inside)


def _goes_on_while_there_is_more(loop: ast.While) -> bool:
    """`while batch is not None`, which all processes leave after as many rounds."""
    test = loop.test
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) and len(test.ops) == 1


def _measured(loop: ast.AST) -> set[str]:
    """The variables that get their value from a call or from tensors in a loop; counters are none of them."""
    found: set[str] = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign) and any(map(_tells_something, ast.walk(node.value))):
            found.update(_stored(*node.targets))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and is_measured(node.value):
            found.add(node.target.id)
    return found


def _tells_something(node: ast.AST) -> bool:
    """Whether a node is a call, but for those that only count: `epoch * len(loader) + i`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) not in ("len", "int", "float", "min", "max", "range")


def _stored(*targets: ast.expr) -> Iterator[str]:
    """The names and attributes that are given a value: `self.loss`, `x`."""
    for node in (n for target in targets for n in ast.walk(target)):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            yield ast.unparse(node)
        elif isinstance(node, ast.Subscript):
            yield ast.unparse(node.value)


def _asks_a_tensor(test: ast.expr) -> bool:
    asked = ("item", "isnan", "isinf", "any", "all")
    calls = [n.func for n in ast.walk(test) if isinstance(n, ast.Call)]
    return any(isinstance(f, ast.Attribute) and f.attr in asked for f in calls)


def is_measured(value: ast.expr) -> bool:
    """Whether a summand is read from tensors."""
    return any(
        (
            isinstance(n, ast.Call)
            and isinstance(n.func, ast.Attribute)
            and n.func.attr in ("item", "sum", "size", "detach", "cpu")
        )
        or (isinstance(n, ast.Attribute) and n.attr in ("data", "shape"))
        for n in ast.walk(value)
    )
