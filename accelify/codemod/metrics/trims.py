"""Which rows does a training loop count, and where can those that were added to even out an epoch be left out?"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass

from accelify.codemod.metrics.row_metrics import Rowwise
from accelify.codemod.metrics.summands import Summand
from accelify.codemod.metrics.updates import added_in
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import names_written_in

_LOSSES = ("item", "data", "detach")
_MEANS = ("mean", "average", "nanmean", "std", "var", "median")


@dataclass(frozen=True)
class Trim:
    """Before `first`, a statement that adds up, `names` keep only the rows that count.

    mean: the assignment of a mean, as of a loss, that is added for each row: it is taken again without the others.
    holds_means: whether a mean is added that was taken with them.
    """

    first: ast.stmt
    names: tuple[str, ...]
    mean: ast.Assign | None = None
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
    products = [
        n for s in adding for n in ast.walk(_added(s)) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult)
    ]
    factors = [side for n in products for side in (n.left, n.right)]
    means = [f for f in factors if not isinstance(f, (ast.Constant, ast.BinOp)) and not summand.is_of_rows(f)]
    taken = {_root(side) for side in means}
    mean = _taken_again(program, loop, taken.pop() or "", first, counted) if len(taken) == 1 else None
    return Trim(first, tuple(dict.fromkeys(names)), mean, bool(means) and mean is None)


def _taken_again(
    program: Program, loop: ast.For | ast.AsyncFor, name: str, first: ast.stmt, counted: set[ast.AST]
) -> ast.Assign | None:
    """`loss = criterion(output, target)`, if that can be said again of fewer rows, and nothing else needs it then."""
    frame, block = program.frame(loop), program.block(first)
    writes = [w for w in frame.writes.get(name, ()) if program.inside(w, loop)]
    made = program.statement(writes[0]) if len(writes) == 1 else None
    if not isinstance(made, ast.Assign) or made not in block or not isinstance(made.value, ast.Call):
        return None
    call = made.value
    if not isinstance(made.targets[0], ast.Name) or not Rowwise(program, program.once(Tracer), loop).is_call(call):
        return None
    given = [a.id for a in call.args if isinstance(a, ast.Name)]
    if call.keywords or len(given) != len(call.args) or len(given) != 2:
        return None
    between = block[block.index(made) + 1 : block.index(first)]
    if names_written_in(*between) & {name, *given} or _is_written(between):
        return None
    reads = [r for r in frame.reads.get(name, ()) if r not in counted and r.lineno >= first.lineno]
    return None if reads else made


def _is_written(statements: list[ast.stmt]) -> bool:
    """Whether something is changed in place by a method, as `x.add_(1)` does."""
    calls = [n.func for s in statements for n in ast.walk(s) if isinstance(n, ast.Call)]
    return any(isinstance(f, ast.Attribute) and f.attr.endswith("_") for f in calls)


def _root(node: ast.expr) -> str | None:
    """The variable of `loss.item()`, `float(loss)`, `loss.data[0]`."""
    while not isinstance(node, ast.Name):
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, ast.Call) and node.args:
            node = node.args[0]
        else:
            return None
    return node.id


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
