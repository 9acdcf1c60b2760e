"""Statements without their moves: `tuple(t.to(device) for t in batch)`, `x, y = x, y.to(device)`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import libcst as cst

from accelify.codemod.edits.values import Replace
from accelify.codemod.libraries import names, table
from accelify.codemod.semantics.program import Program


@dataclass(frozen=True)
class Rebuilt:
    """A container built from the items of another; `kind` is `list`, `tuple`, or None for an iterator."""

    node: ast.expr
    items: ast.expr
    kind: str | None


def rebuilt(program: Program, move: ast.Call) -> Rebuilt | None:
    """The container that a move stands in, if all that building it does is to move the items."""
    assert isinstance(move.func, ast.Attribute)
    item = move.func.value
    parent = program.parent(move)
    node: ast.expr
    if isinstance(parent, (ast.ListComp, ast.GeneratorExp)) and parent.elt is move and len(parent.generators) == 1:
        generator = parent.generators[0]
        if generator.ifs or generator.is_async or ast.unparse(generator.target) != ast.unparse(item):
            return None
        node, items = parent, generator.iter
    elif isinstance(parent, ast.Lambda) and parent.body is move:
        call = program.parent(parent)
        if not isinstance(call, ast.Call) or "map" not in program.called(call) or len(call.args) != 2:
            return None
        if [a.arg for a in parent.args.args] != [ast.unparse(item)]:
            return None
        node, items = call, call.args[1]
    else:
        return None
    kind = "list" if isinstance(node, ast.ListComp) else None
    outer = program.parent(node)
    if isinstance(outer, ast.Call) and outer.args == [node] and not outer.keywords:
        called = {n for n in program.called(outer) if names.is_copy(n) and table.kind_made_by(n) == n}
        if called:
            return Rebuilt(outer, items, min(called))
    return Rebuilt(node, items, kind)


def is_unpacked(program: Program, node: ast.expr) -> bool:
    """Whether a container is only there to be taken apart: `a, b = ...`."""
    parent = program.parent(node)
    return (
        isinstance(parent, ast.Assign)
        and parent.value is node
        and all(isinstance(t, (ast.Tuple, ast.List)) for t in parent.targets)
    )


def is_only_indexed(program: Program, name: ast.Name) -> bool:
    """Whether a variable is nowhere asked what kind of container it holds."""
    owner = program.scope(name).owner(name.id)
    if owner is None:
        return False
    reads = [n for s in owner.walk() if s.owner(name.id) is owner for n in s.reads.get(name.id, ())]
    return all(_is_indexing(program, read) for read in reads)


def _is_indexing(program: Program, read: ast.Name) -> bool:
    parent = program.parent(read)
    if isinstance(parent, ast.Subscript):
        return parent.value is read and not isinstance(parent.slice, ast.Slice)
    if isinstance(parent, ast.Call):
        return any(map(names.goes_over, program.called(parent)))
    return isinstance(parent, (ast.Starred, ast.For, ast.comprehension)) or is_unpacked(program, read)


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
