"""Which data does a loop that is sharded pick by the number of its batch? `target = labels[i]`"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.metrics.facts import Measured, Metrics
from accelify.codemod.metrics.sums import bound_in
from accelify.codemod.preparing.tensors import Tensors
from accelify.codemod.semantics.scopes import names_in


def picked_by_number(metrics: Metrics) -> Iterator[tuple[str, ast.Subscript]]:
    """The number, and what is picked by it for the model or the loss, of data that the loop does not yield."""
    for loop in metrics.shared_loops:
        counter = _counter(metrics.measured, loop)
        for node in ast.walk(loop) if counter is not None else ():
            if (
                counter is not None
                and isinstance(node, ast.Subscript)
                and isinstance(node.ctx, ast.Load)
                and counter in names_in(node.slice)
                and not names_in(node.value) & bound_in(loop)
                and _is_trained_on(metrics.measured, node, loop)
            ):
                yield counter, node


def _counter(measured: Measured, loop: ast.For | ast.AsyncFor) -> str | None:
    """`i` of `for i, batch in enumerate(loader)`."""
    numbered = [n for n in ast.walk(loop.iter) if isinstance(n, ast.Call) and "enumerate" in measured.program.called(n)]
    first = loop.target.elts[0] if numbered and isinstance(loop.target, ast.Tuple) else None
    return first.id if isinstance(first, ast.Name) else None


def _computes(measured: Measured, call: ast.Call) -> bool:
    """Whether a call runs a prepared model, or compares what it makes with something."""
    tensors = Tensors(measured.program, measured.roles, measured.prepared)
    return tensors.is_model_call(call) or tensors.is_loss(call)


def _is_trained_on(measured: Measured, picked: ast.Subscript, loop: ast.For | ast.AsyncFor) -> bool:
    """Whether the model or the loss gets something, as it is or under a name that it is given."""
    statement = measured.program.statement(picked)
    named = names_in(*statement.targets) if isinstance(statement, ast.Assign) else set()
    computed = (n for n in ast.walk(loop) if isinstance(n, ast.Call) and _computes(measured, n))
    given = [a for call in computed for a in [*call.args, *(k.value for k in call.keywords)]]
    return any(measured.program.inside(picked, a) or names_in(a) & named for a in given)
