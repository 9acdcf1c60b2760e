"""Places of a variable's container that are known by their literal keys: `logs["loss"]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.libraries import methods, table
from accelify.codemod.semantics.program import LOOPS, Program


def variable_of(place: str) -> str:
    """The variable that a list or a meter is, or that holds it."""
    return place.partition("[")[0]


def holder_of(place: ast.expr | None) -> ast.Name | ast.Attribute | None:
    """The variable or attribute that a list is, or that holds it at a literal key; None for other places."""
    if isinstance(place, ast.Subscript):
        is_key = isinstance(place.slice, ast.Constant) and isinstance(place.slice.value, (str, int))
        place = place.value if is_key else None
    return place if isinstance(place, (ast.Name, ast.Attribute)) else None


def made_at(program: Program, holder: ast.expr | None, place: str) -> ast.expr | None:
    """What a variable is made with, or its dict at a literal key: `AverageMeter()` at `meters["loss"]`."""
    if place == variable_of(place):
        return holder
    if isinstance(holder, ast.DictComp):
        return holder.value
    if isinstance(holder, ast.Call) and len(holder.args) == 1 and not holder.keywords:
        is_made_on_demand = any(table.kind_made_by(n) == "defaultdict" for n in program.called(holder))
        return ast.Call(holder.args[0], [], []) if is_made_on_demand else None
    key = place.partition("[")[2][:-1]
    pairs = zip(holder.keys, holder.values, strict=True) if isinstance(holder, ast.Dict) else ()
    listed = [v for k, v in pairs if k is not None and ast.unparse(k) == key]
    return listed[0] if len(listed) == 1 else None


def reads_at(program: Program, read: ast.expr, place: str) -> Iterator[ast.expr]:
    """The reads of a place where its holder is read: `logs["loss"]`, `mean(v)` of all `logs.items()`; or all of it."""
    parent = program.parent(read)
    if place == variable_of(place):
        yield read
    elif isinstance(parent, ast.Subscript) and parent.value is read and holder_of(parent) is read:
        yield from [parent] if ast.unparse(parent) == place else []
    else:
        yield from _elements(program, parent) or [read]


def _elements(program: Program, asked: ast.AST | None) -> list[ast.expr]:
    """The reads of a dict's values in a loop or a comprehension over `logs.items()` or `logs.values()`."""
    call = program.parent(asked) if isinstance(asked, ast.Attribute) else None
    over = program.parent(call) if isinstance(call, ast.Call) and call.func is asked else None
    if not isinstance(over, (ast.comprehension, *LOOPS)) or isinstance(over, ast.While) or over.iter is not call:
        return []
    given = methods.passes(asked.attr) if isinstance(asked, ast.Attribute) else None
    target = over.target.elts[-1] if given == "items" and isinstance(over.target, ast.Tuple) else over.target
    around = program.parent(over) if isinstance(over, ast.comprehension) else over
    owner = program.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
    if given not in ("items", "values") or owner is None or not isinstance(target, ast.Name):
        return []
    return [r for r in program.reads_of(owner, target.id) if around is not None and program.inside(r, around)]
