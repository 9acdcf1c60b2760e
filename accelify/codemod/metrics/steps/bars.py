"""Which progress bars have a total for all processes, and count the batches or samples of one?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import names
from accelify.codemod.metrics.facts import Loop, Metrics
from accelify.codemod.metrics.steps.lengths import counts_all
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.values import Made


def overstated_bars(metrics: Metrics) -> Iterator[ast.expr]:
    """The `total=len(data) // batch_size` of the bars of loops that are sharded, which count batches."""
    yield from (total for total, counts_samples in _bars(metrics) if not counts_samples)


def overstated_samples(metrics: Metrics) -> Iterator[ast.expr]:
    """The `total=len(data)` of the bars of loops that are sharded, which count samples: `bar.update(len(x))`."""
    yield from (total for total, counts_samples in _bars(metrics) if counts_samples)


def _bars(metrics: Metrics) -> Iterator[tuple[ast.expr, bool]]:
    """The totals of bars that are for all processes, and whether a bar advances by more than one item at a time."""
    program = metrics.measured.program
    for loop in dict.fromkeys([*metrics.shared_loops, *metrics.evaluations]):
        updates = _updates(metrics, loop)
        heads = [a.items for a in program.ancestors(loop) if isinstance(a, (ast.With, ast.AsyncWith))]
        places = (loop.iter, *(item.context_expr for items in heads for item in items), *updates)
        for call in dict.fromkeys(n for place in places for n in walk(place) if isinstance(n, ast.Call)):
            total = next((k.value for k in call.keywords if k.arg == "total"), None)
            if total is None or not _is_bar(metrics, call) or _is_length(metrics, total, loop):
                continue
            if counts_all(metrics, total):
                yield total, any(not isinstance(n, ast.Constant) for n in updates.get(call, ()))


def _updates(metrics: Metrics, loop: Loop) -> dict[ast.Call, list[ast.expr]]:
    """The bars that a loop updates, each with what it adds: `n` of `bar.update(n)`."""
    found: dict[ast.Call, list[ast.expr]] = {}
    for call in (n for statement in loop.body for n in walk(statement) if isinstance(n, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "update":
            for value in metrics.measured.program.values(call.func.value):
                if isinstance(value, Made) and isinstance(value.node, ast.Call) and _is_bar(metrics, value.node):
                    found.setdefault(value.node, []).extend([*call.args, *(k.value for k in call.keywords)])
    return found


def _is_bar(metrics: Metrics, call: ast.Call) -> bool:
    return any(names.iteration(name) == "same" for name in metrics.measured.program.called(call))


def _is_length(metrics: Metrics, total: ast.expr, loop: ast.AST) -> bool:
    """Whether a number is the length of the very loader that a loop iterates over."""
    counted = sizes.measured(total)
    over = loop.iter if isinstance(loop, (ast.For, ast.AsyncFor)) else None
    is_it = counted is not None and over is not None and ast.unparse(counted) in map(ast.unparse, walk(over))
    return is_it and not metrics.measured.prepared.is_sharded_sequence(loop)
