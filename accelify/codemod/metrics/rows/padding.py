"""Does a number follow the length to which the rows of a rank's own batch are padded?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.row_groups import collate_functions

_LOOPS = (ast.For, ast.AsyncFor)
_DEPTH = 3  # variables and functions that a length is followed through
_BATCH_FIRST = 1  # its place among the parameters of `pad_sequence`


def follows_padding(metrics: Metrics, count: ast.expr) -> bool:
    """Whether `range(x.size(1))` may yield more on another rank, as a function of the script's own pads each batch."""
    inner = metrics.measured.chains.tracer.inside(count)
    return any(_is_padded(metrics, base, dimension) for base, dimension in _asked(metrics, inner, _DEPTH))


def _asked(metrics: Metrics, count: ast.expr, depth: int) -> Iterator[tuple[ast.expr, int | None]]:
    """The sizes by which `range(...)` counts: each with what is asked for it, and the dimension; none for a maximum."""
    program = metrics.measured.program
    is_range = isinstance(count, ast.Call) and ast.unparse(count.func) == "range"
    for node in ast.walk(count) if is_range or depth < _DEPTH else ():
        if (size := sizes.size(node)) is not None:
            yield size
        elif isinstance(node, ast.Call):
            if ast.unparse(node.func) == "max" and len(node.args) == 1:
                yield node.args[0], None
            elif isinstance(node.func, ast.Attribute) and node.func.attr == "max" and not node.args:
                yield node.func.value, None
        elif isinstance(node, ast.Name):
            for definition in metrics.measured.chains.definitions(node) if depth else ():
                value, path = program.assigned(definition.node)
                if value is not None and path and (base := sizes.shaped(value)) is not None:
                    yield base, path[0]
                elif value is not None and not path:
                    yield from _asked(metrics, value, depth - 1)


def _is_padded(metrics: Metrics, base: ast.expr, dimension: int | None) -> bool:
    """Whether the batches that a tensor comes from are padded in this dimension, where it is laid out as they are."""
    measured = metrics.measured
    loops = {o.node for o in metrics.ranks.of(base).of(Mark.BATCH) if isinstance(o.node, _LOOPS)}
    functions = (
        f for loop in loops for held in measured.yielding(loop) for f in collate_functions(measured.program, held)
    )
    layouts = {layout for f in functions for layout in _layouts(measured.program, f, _DEPTH)}
    return bool(layouts) if dimension is None else (dimension != 0) in layouts


def _layouts(program: Program, function: Scope, depth: int) -> Iterator[bool]:
    """Whether rows come first, for each `pad_sequence` of a function; and of one that looks for the longest row."""
    for call in (n for n in ast.walk(function.node) if isinstance(n, ast.Call)):
        if any(name.rsplit(".", 1)[-1] == "pad_sequence" for name in program.called(call)):
            given = {k.arg: k.value for k in call.keywords}
            first = call.args[_BATCH_FIRST] if len(call.args) > _BATCH_FIRST else given.get("batch_first")
            yield isinstance(first, ast.Constant) and first.value is True
        elif ast.unparse(call.func) == "max" and any(sizes.measured_in(function.node)):
            yield True
        for callee in program.flow.callees.get(call, ()) if depth else ():
            yield from _layouts(program, callee, depth - 1)
