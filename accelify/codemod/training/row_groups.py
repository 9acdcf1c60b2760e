"""Which loaders cut the rows of each batch into groups of another size, in a collate function of the script's own?

What is cut so must not be divided between processes before: a part of the rows makes fewer groups, or none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.libraries import names
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, names_in
from accelify.codemod.semantics.values import FunctionValue, Instance, Made, Value

_COLLATE_FN = 6  # its place among the parameters of `DataLoader`
_STRIDE = 3  # arguments of `range`
_CUTS = (ast.Mod, ast.FloorDiv)


def regroups(program: Program, loader: Value) -> bool:
    """Whether the collate function of a loader cuts its rows by a size of its own."""
    return any(map(_cuts, collate_functions(program, loader)))


def collate_functions(program: Program, loader: Value) -> Iterator[Scope]:
    """The functions of the project that make batches of rows for one of torch's loaders."""
    call = loader.node if isinstance(loader, Made) else None
    if not isinstance(loader, Made) or not isinstance(call, ast.Call) or not names.is_torch_loader(loader.name):
        return
    given = {k.arg: k.value for k in call.keywords}
    if len(call.args) > _COLLATE_FN:
        given["collate_fn"] = call.args[_COLLATE_FN]
    for value in program.values(given["collate_fn"]) if "collate_fn" in given else ():
        if isinstance(value, FunctionValue):
            yield value.scope
        elif isinstance(value, Instance) and (method := program.flow.method(value.cls, "__call__")) is not None:
            yield method


def _cuts(function: Scope) -> bool:
    """Whether a function divides the number of its rows, or iterates over them in strides."""
    given = function.parameters[int(function.is_method and not function.is_static) :]
    if not given:
        return False
    nodes = list(ast.walk(function.node))
    rows, counts = _derived({given[0].arg}, [n for n in nodes if isinstance(n, ast.Assign)])
    return any(_is_cut(node, rows, counts) for node in nodes)


def _derived(rows: set[str], assignments: list[ast.Assign]) -> tuple[set[str], set[str]]:
    """The names of the rows, and those of what is worked out from how many they are."""
    counts: set[str] = set()
    for _ in assignments:
        before = len(rows) + len(counts)
        for each in assignments:
            bound = {t.id for t in each.targets if isinstance(t, ast.Name)}
            if _is_same(each.value, rows):
                rows |= bound
            elif _is_counted(each.value, rows, counts):
                counts |= bound - rows
        if len(rows) + len(counts) == before:
            break
    return rows, counts


def _is_same(node: ast.expr, rows: set[str]) -> bool:
    """`rows`, `sorted(rows, key=len)`"""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and names.is_copy(node.func.id) and node.args:
        node = node.args[0]
    return isinstance(node, ast.Name) and node.id in rows


def _is_counted(node: ast.expr, rows: set[str], counts: set[str]) -> bool:
    """Whether a value is worked out from the number of rows: `len(rows)`, `np.arange(n)`, `n - n % 16`."""
    return bool(names_in(node) & counts) or any(_is_same(each, rows) for each in sizes.measured_in(node))


def _is_cut(node: ast.AST, rows: set[str], counts: set[str]) -> bool:
    """`n % size`, `n // size`, `range(0, n, size)`, `rows[start:end]`"""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, _CUTS) and _is_counted(node.left, rows, counts)
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Slice) and _is_same(node.value, rows)
    is_stride = isinstance(node, ast.Call) and ast.unparse(node.func) == "range" and len(node.args) == _STRIDE
    return isinstance(node, ast.Call) and is_stride and _is_counted(node.args[1], rows, counts)
