"""How is what a batch adds to a sum computed again, of fewer of the batch's rows?

loss = criterion(output, target)        ->  criterion, output, target
loss = ((output - target) ** 2).sum()   ->  lambda output, target: ((output - target) ** 2).sum(), output, target
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from accelify.codemod.libraries import methods, names, vocabulary
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import names_written_in
from accelify.codemod.semantics.values import Instance, Made


@dataclass(frozen=True, slots=True)
class Recomputation:
    """The variable of a loss, the function that gives it, and what that is given: `y`, `reduction='sum'`."""

    name: str
    function: str
    given: tuple[str, ...]
    reads: frozenset[str]


def recomputation_of(
    program: Program,
    loop: ast.AST,
    name: str,
    at: ast.stmt,
    is_of_batch: Callable[[ast.expr], bool],
) -> Recomputation | None:
    """How a variable of the loop is computed again at a statement; None where that may come out differently.

    is_of_batch: whether an expression is one number for the batch, whose parts are computed again then, too.
    """
    block, frame = program.block(at), program.frame(loop)
    made: dict[str, ast.Assign] = {}

    def expanded(node: ast.expr) -> ast.expr:
        return _Expansion(lambda n: value.value if (value := assigned(n)) and is_of_batch(value.value) else None)(node)

    def assigned(variable: str) -> ast.Assign | None:
        writes = [w for w in frame.writes.get(variable, ()) if program.inside(w, loop)]
        found = program.statement(writes[0]) if len(writes) == 1 else None
        is_plain = isinstance(found, ast.Assign) and len(found.targets) == 1 and isinstance(found.targets[0], ast.Name)
        if not is_plain or found not in block[: block.index(at)]:
            return None
        assert isinstance(found, ast.Assign)
        made[variable] = found
        return found

    first = assigned(name)
    if first is None:
        return None
    value = expanded(first.value)
    parts = [assign.value for assign in made.values() if assign is first or is_of_batch(assign.value)]
    rows = [n for n in _read(value) if any(program.inside(w, loop) for w in frame.writes.get(n, ()))]
    between = block[min(block.index(m) for m in made.values() if m.value in parts) : block.index(at)]
    between = [s for s in between if not (isinstance(s, ast.Assign) and s.value in parts)]
    if not rows or names_written_in(*between) & {name, *rows} or _changes(between, {*rows}):
        return None
    if not all(_is_only_of(program, part, {*rows, *made}) and not _picks_rows(program, part) for part in parts):
        return None
    return _said(name, value, rows)


class _Expansion(ast.NodeTransformer):
    """Put what variables are given in their place."""

    def __init__(self, value_of: Callable[[str], ast.expr | None], depth: int = 3) -> None:
        self.value_of = value_of
        self.depth = depth

    def __call__(self, node: ast.expr) -> ast.expr:
        found = self.visit(copy.deepcopy(node))
        assert isinstance(found, ast.expr)
        return found

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.value_of(node.id) if self.depth else None
        return node if value is None else _Expansion(self.value_of, self.depth - 1)(value)


def _said(name: str, value: ast.expr, rows: list[str]) -> Recomputation:
    """A call of a function with the rows as it stands, anything else as a function of them."""
    reads = frozenset({name, *_read(value)})
    if isinstance(value, ast.Call) and {*rows}.isdisjoint(_read(value.func)):
        given = (*map(ast.unparse, value.args), *map(ast.unparse, value.keywords))
        return Recomputation(name, ast.unparse(value.func), given, reads)
    return Recomputation(name, f"lambda {', '.join(rows)}: {ast.unparse(value)}", tuple(rows), reads)


def _is_only_of(program: Program, value: ast.expr, own: set[str]) -> bool:
    """Whether an expression gives the same again for the same variables, and runs no model."""
    reads = [n for n in ast.walk(value) if isinstance(n, ast.Name) and n.id not in own]
    called = [n.func for n in ast.walk(value) if isinstance(n, ast.Call)]
    is_made = any(isinstance(v, Made | Instance) for n in reads if n not in called for v in program.values(n))
    return not is_made and not any(_runs_model(program, f) for f in called) and program.once(Effects).is_pure(value)


def _picks_rows(program: Program, value: ast.expr) -> bool:
    """Whether rows are taken by their numbers, which may be those of rows that are left out: `y[order]`."""
    called = (c for n in ast.walk(value) if isinstance(n, ast.Call) for c in program.flow.callees.get(n, ()))
    nodes = [n for part in (value, *(c.node for c in called)) for n in ast.walk(part)]
    keys = [n.slice for n in nodes if isinstance(n, ast.Subscript)]
    selects = any(isinstance(n, ast.Attribute) and methods.selects_rows(n.attr) for n in nodes)
    turns = any(isinstance(n, ast.Call) and _goes_along_rows(n) for n in nodes)
    return selects or turns or any(isinstance(n, ast.Name) for key in keys for n in ast.walk(key))


def _goes_along_rows(call: ast.Call) -> bool:
    """`y.flip(0)`"""
    is_along = isinstance(call.func, ast.Attribute) and methods.goes_along(call.func.attr)
    return is_along and any(isinstance(n, ast.Constant) and n.value == 0 for a in call.args for n in ast.walk(a))


def _runs_model(program: Program, function: ast.expr) -> bool:
    """Whether a module is called that is no loss."""
    return any(
        (isinstance(v, Made) and not (v.name is not None and names.is_loss(v.name)))
        or (isinstance(v, Instance) and not vocabulary.is_name_of_a_loss(ast.unparse(function)))
        for v in program.values(function)
    )


def _read(value: ast.AST) -> dict[str, None]:
    """The variables in an expression, in the order of the text, but for those that it binds itself."""
    found = {n.id: None for n in ast.walk(value) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    bound = {n.id for n in ast.walk(value) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    bound |= {n.arg for n in ast.walk(value) if isinstance(n, ast.arg)}
    return {n: None for n in found if n not in bound}


def _changes(statements: list[ast.stmt], changed: set[str]) -> bool:
    """Whether something may be changed in place: `x.add_(1)`, `x[0] = 1`."""
    return any(not changed.isdisjoint(_read(place)) for s in statements for n in ast.walk(s) for place in _places(n))


def _places(node: ast.AST) -> Iterator[ast.AST]:
    is_stored = isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load)
    called = node.func if isinstance(node, ast.Call) else None
    if is_stored or (isinstance(called, ast.Attribute) and methods.changes_in_place(called.attr)):
        yield node
