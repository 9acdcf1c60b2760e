"""A metric over gathered batches that counts some samples twice.

    predictions = accelerator.gather(predictions)    ->    predictions = accelerator.gather_for_metrics(predictions)

Why: prepared loaders complete the last round with samples from the start, so that all processes take as many steps.
`gather` returns these too, and they are counted twice; `gather_for_metrics` drops them.
Left alone: training loops; functions that cut the result to the length of the data themselves.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import Processes
from accelify.codemod.edits.values import Edit, Replace
from accelify.codemod.libraries import table

NAME = "gathered_padding"
_MESSAGE = (
    "`gather` also returns the samples that were repeated to fill the last step: use `gather_for_metrics`, which "
    "drops them"
)


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each batch that is gathered for a metric, in a loop that does not train."""
    for call in sorted(processes.program.calls, key=processes.program.position):
        if _gathers(processes, call) and _is_of_a_batch(processes, call):
            yield Finding(NAME, call, _MESSAGE, (_fix(call),))


def _gathers(processes: Processes, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "gather" or not call.args:
        return False
    return processes.is_accelerator(call.func.value)


def _is_of_a_batch(processes: Processes, call: ast.Call) -> bool:
    around = [n for n in processes.program.loops_round(call) if isinstance(n, ast.For)]
    function = processes.frame(call).node
    if not around or any(map(_trains, around)) or _cuts(function):
        return False
    return _feeds_metric(processes, call)


def _trains(loop: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "backward" for n in ast.walk(loop))


def _cuts(function: ast.AST) -> bool:
    """Whether a function cuts something to a length, or counts what it has seen."""
    return any(
        isinstance(n, ast.Slice) and n.upper is not None and not isinstance(n.upper, ast.Constant)
        for n in ast.walk(function)
    )


def _feeds_metric(processes: Processes, call: ast.Call) -> bool:
    """Whether what is gathered is given to a metric: `metric.add_batch(predictions=..., references=...)`."""
    statement = processes.program.statement(call)
    if isinstance(statement, ast.Assign):
        bound = {n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        loop = next(n for n in processes.program.loops_round(call) if isinstance(n, ast.For))
        adds = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Call) and _adds(n)]
        return any(isinstance(n, ast.Name) and n.id in bound for add in adds for n in ast.walk(add))
    return any(isinstance(a, ast.Call) and _adds(a) for a in processes.program.ancestors(call))


def _adds(call: ast.Call) -> bool:
    """Whether a call gives a metric a batch."""
    attribute = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return attribute.startswith("add") and table.member("metric", attribute) is not None


def _fix(call: ast.Call) -> Edit:
    def for_metrics(node: cst.CSTNode) -> cst.BaseExpression:
        assert isinstance(node, cst.Attribute)
        return node.with_changes(attr=cst.Name("gather_for_metrics"))

    assert isinstance(call.func, ast.Attribute)
    return Replace(call.func, for_metrics, keeps=(call.func.value,))
