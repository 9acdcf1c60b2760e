"""Can what is computed of a batch be computed of no rows, too?

The rows that were added to even out an epoch may be all that a process has of a batch; nothing is left of it then.
"""

from __future__ import annotations

import ast

from accelify.codemod.libraries.row import Role, Row, Rows, Trait
from accelify.codemod.semantics.effects.kinds import Kinds, tells_about
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope

_DEPTH = 3
_OF_NO_ROWS = (Rows.EACH, Rows.SUM, Rows.COUNT, Rows.CONCATENATES, Rows.SELECTS, Rows.SHUFFLES)
_GIVE_NO_VALUES = (None, "context", "iterator")


def takes_no_rows(program: Program, node: ast.AST, depth: int = _DEPTH) -> bool:
    """Whether a statement or an expression surely comes to something of tensors without rows."""
    return all(_part_does(program, part, depth) for part in ast.walk(node))


def _part_does(program: Program, node: ast.AST, depth: int) -> bool:
    if isinstance(node, ast.Call):
        return _call_does(program, node, depth)
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod)):
        return isinstance(node.right if isinstance(node, ast.BinOp) else node.value, ast.Constant)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.ctx, ast.Load):
        is_of_result = isinstance(node.value, ast.Call)  # `x.max(1)[1]`
        return is_of_result or isinstance(node.slice.value, str) or tells_about(node.value)
    return True


def _call_does(program: Program, call: ast.Call, depth: int) -> bool:
    callees = program.flow.callees.get(call)
    if callees:
        return depth > 0 and all(_function_does(program, callee, depth - 1) for callee in callees)
    rows = program.once(Kinds).called(call)
    return bool(rows) and all(_row_does(program, row, call) for row in rows or ())


def _function_does(program: Program, function: Scope, depth: int) -> bool:
    return bool(function.body) and all(takes_no_rows(program, s, depth) for s in function.body)


def _row_does(program: Program, row: Row, call: ast.Call) -> bool:
    if row.role is Role.LOSS:
        return any(k.arg == "reduction" and isinstance(k.value, ast.Constant) for k in call.keywords)
    if row.has(Trait.SAME_VALUES) and len(call.args) > 1:  # `x.view(x.size(0), -1)`
        return not any(ast.unparse(a) == "-1" for a in call.args)
    if row.rows in (Rows.ALONG, Rows.EXTREME):
        return _names_a_dimension(program, call)
    return (
        row.rows in _OF_NO_ROWS
        or row.has(Trait.SCALAR)
        or row.has(Trait.SAME_VALUES)
        or (row.rows is None and row.returns in _GIVE_NO_VALUES)
    )


def _names_a_dimension(program: Program, call: ast.Call) -> bool:
    """Whether it goes along another dimension than that of the rows, or compares several values."""
    is_method = isinstance(call.func, ast.Attribute) and not program.once(Kinds).name_of(call.func)
    given = [*call.args[0 if is_method else 1 :], *(k.value for k in call.keywords)]
    return bool(given) and not (isinstance(given[0], ast.Constant) and given[0].value == 0)
