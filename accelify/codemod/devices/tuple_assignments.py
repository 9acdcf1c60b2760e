"""Assignments of several values at once, of which some no longer change anything: `x, y = x, y.to(device)`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial

import libcst as cst

from accelify.codemod.edits.values import Replace


def without_idle(statement: ast.stmt, is_idle: Callable[[ast.expr, ast.expr], bool]) -> Replace | None:
    """The edit that leaves out the idle pairs of targets and values, where others remain."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(target.elts) != len(value.elts):
        return None
    kept = [k for k, pair in enumerate(zip(target.elts, value.elts, strict=True)) if not is_idle(*pair)]
    if not kept or len(kept) == len(target.elts):
        return None
    keeps = [node for k in kept for node in (target.elts[k], value.elts[k])]
    return Replace(statement, partial(_only, kept=tuple(kept)), keeps=tuple(keeps))


def _only(assign: cst.CSTNode, kept: tuple[int, ...]) -> cst.Assign:
    assert isinstance(assign, cst.Assign)
    target = assign.targets[0]
    return assign.with_changes(
        targets=[target.with_changes(target=_those(target.target, kept))], value=_those(assign.value, kept)
    )


def _those(node: cst.BaseExpression, kept: tuple[int, ...]) -> cst.BaseExpression:
    assert isinstance(node, cst.Tuple)
    elements = [node.elements[k] for k in kept]
    if len(elements) == 1:
        return elements[0].value
    elements[-1] = elements[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return node.with_changes(elements=elements)
