"""Whose size is asked for? `len(x)`, `x.size(0)`, `x.shape[-1]`"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from accelify.codemod.libraries import methods, names


class Size(NamedTuple):
    """One number of rows or columns."""

    of: ast.expr
    dimension: int


def measured(node: ast.AST) -> ast.expr | None:
    """`x` of `len(x)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.keywords:
        return None
    return node.args[0] if names.is_length(node.func.id) and len(node.args) == 1 else None


def measured_in(node: ast.AST) -> Iterator[ast.expr]:
    """`x` of each `len(x)` in an expression or a block of code."""
    return (of for n in ast.walk(node) if (of := measured(n)) is not None)


def shaped(node: ast.AST) -> ast.expr | None:
    """`x` of `x.shape` and of `x.size()`."""
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Attribute) or node.args or node.keywords:
            return None
        return node.func.value if methods.is_size(node.func.attr) else None
    return node.value if isinstance(node, ast.Attribute) and methods.is_about(node.attr) else None


def size(node: ast.AST) -> Size | None:
    """What `len(x)`, `x.size(1)`, `x.size()[1]` and `x.shape[1]` ask for."""
    if (rows := measured(node)) is not None:
        return Size(rows, 0)
    if isinstance(node, ast.Subscript):
        of, place = shaped(node.value), node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and methods.is_size(node.func.attr):
        given = [*node.args, *(k.value for k in node.keywords)]
        of, place = node.func.value, given[0] if len(given) == 1 else node
    else:
        return None
    dimension = _number(place)
    return Size(of, dimension) if of is not None and dimension is not None else None


def _number(node: ast.expr) -> int | None:
    is_negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    number = node.operand if isinstance(node, ast.UnaryOp) else node
    if not isinstance(number, ast.Constant) or not isinstance(number.value, int):
        return None
    return -number.value if is_negative else number.value
