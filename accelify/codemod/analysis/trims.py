"""Which rows does a training loop count, and where can those that were added to even out an epoch be left out?"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass

from accelify.codemod.analysis.program import Program
from accelify.codemod.analysis.summands import Summand
from accelify.codemod.analysis.sums import added_in

_LOSSES = ("item", "data", "detach")
_MEANS = ("mean", "average", "nanmean", "std", "var", "median")


@dataclass(frozen=True)
class Trim:
    """Before `first`, a statement that adds up, `names` keep only the rows that count.

    holds_means: whether a mean is added for each row, which was taken before the others were left out.
    """

    first: ast.stmt
    names: tuple[str, ...]
    holds_means: bool = False


def trim_of(
    program: Program, loop: ast.For | ast.AsyncFor, sums: Collection[str], updates: Collection[ast.Call] = ()
) -> Trim | None:
    """What to trim so that sums over rows are of each row once; None where that would change what else there is.

    updates: those of meters, which are then of each row once, too.
    """
    summand = Summand(program, loop)
    every = [s for name, listed in added_in(loop).items() if name in sums for s in listed]
    adding = [s for s in every if summand.is_of_rows(_added(s)) is not False]
    if not adding or not all(any(_has_rows(program, n) for n in ast.walk(_added(s))) for s in adding):
        return None
    first = min(adding, key=lambda s: s.lineno)
    updates = [u for u in updates if u.lineno > first.lineno]
    if any(_averages(program, n) for s in (*adding, *updates) for n in ast.walk(s)):
        return None  # a process may have no row that counts, and of none there is no mean
    block = program.block(first)
    bound = _bound_before(loop, first)
    names = [n.id for s in adding for n in ast.walk(_added(s)) if isinstance(n, ast.Name) and _has_rows(program, n)]
    if any(s not in block for s in adding) or not bound.issuperset(names):
        return None
    # What else is done with these names from there on would be done with fewer rows.
    counted = {n for s in (*adding, *updates) for n in ast.walk(s)}
    frame = program.frame(loop)
    for name in set(names):
        reads = [r for r in frame.reads.get(name, ()) if r not in counted]
        if any(program.inside(r, loop) and r.lineno >= first.lineno for r in reads):
            return None
        if any(inner.owner(name) is frame and inner.reads.get(name) for inner in frame.walk() if inner is not frame):
            return None
    holds_means = any(
        isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult) and False in map(summand.is_of_rows, (n.left, n.right))
        for s in adding
        for n in ast.walk(_added(s))
        if not any(isinstance(side, ast.Constant) for side in (getattr(n, "left", None), getattr(n, "right", None)))
    )
    return Trim(first, tuple(dict.fromkeys(names)), holds_means)


def _added(statement: ast.AugAssign | ast.Assign) -> ast.expr:
    if isinstance(statement, ast.AugAssign):
        return statement.value
    value = statement.value
    target = statement.targets[0]
    if isinstance(value, ast.BinOp) and isinstance(target, ast.Name):
        is_left = isinstance(value.left, ast.Name) and value.left.id == target.id
        return value.right if is_left else value.left
    return value


def _has_rows(program: Program, node: ast.AST) -> bool:
    """Whether a name in a summand holds the rows of a batch: not a loss, a function or a module."""
    if not isinstance(node, ast.Name) or program.externals(node):
        return False
    parent = program.parent(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        return False
    if isinstance(parent, ast.Attribute):
        return not (parent.attr in _LOSSES and not _is_compared(program, parent))
    return isinstance(parent, (ast.Call, ast.Compare))


def _averages(program: Program, node: ast.AST) -> bool:
    """Whether a part of a summand is a mean over rows, or divides by how many there are."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _MEANS:
        return _holds_rows(program, node)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _holds_rows(program, node.right)


def _holds_rows(program: Program, node: ast.AST) -> bool:
    return any(_has_rows(program, n) for n in ast.walk(node))


def _is_compared(program: Program, node: ast.AST) -> bool:
    """Whether a part of a tensor takes part in a comparison, or is handed to a call."""
    parent = program.parent(node)
    if isinstance(parent, ast.Attribute):
        return _is_compared(program, parent)
    if isinstance(parent, ast.Call) and parent.func is node:
        return isinstance(node, ast.Attribute) and node.attr not in _LOSSES
    return isinstance(parent, (ast.Compare, ast.Call))


def _bound_before(loop: ast.For | ast.AsyncFor, statement: ast.stmt) -> set[str]:
    """The names that a round binds before a statement."""
    return {
        n.id
        for part in [loop.target, *loop.body]
        for n in ast.walk(part)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.lineno < statement.lineno
    }
