"""A metric over gathered batches that counts some samples twice.

    predictions = accelerator.gather(predictions)    ->    predictions = accelerator.gather_for_metrics(predictions)

Why: prepared loaders complete the last round with samples from the start, so that all processes take as many steps.
`gather` returns these too, and they are counted twice; `gather_for_metrics` drops them.
Left alone: training loops; losses, sums and means, which have no rows; functions that cut the result to the length of
the data themselves; loaders with `drop_last`, and accelerators with `even_batches=False`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import Processes
from accelify.codemod.checks.rank_values import RankValues, last
from accelify.codemod.checks.training import Trained
from accelify.codemod.edits.values import Edit, Replace
from accelify.codemod.libraries import table, vocabulary
from accelify.codemod.metrics.rows.trims import Summand
from accelify.codemod.semantics.scopes import method_of_call
from accelify.codemod.semantics.values import Made

NAME = "gathered_padding"
_MESSAGE = (
    "`gather` also returns the samples that were repeated to fill the last step: use `gather_for_metrics`, which "
    "drops them"
)


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each batch that is gathered for a metric, in a loop that does not train."""
    calls = [c for c in processes.program.calls if _gathers(processes, c)]
    if not calls or any(vocabulary.may_leave_ends_uneven(parsed.text) for parsed in processes.program.files):
        return
    for call in sorted(calls, key=processes.program.position):
        around = [n for n in processes.program.loops_round(call) if isinstance(n, ast.For)][:1]
        kept = (loop for loop in around if _is_of_rows(processes, loop, call) and _is_kept(processes, loop, call))
        if any(_is_padded(processes, loop) for loop in kept):
            yield Finding(NAME, call, _MESSAGE, _fix(processes, call))


def _gathers(processes: Processes, call: ast.Call) -> bool:
    """`accelerator.gather(x)`, `accelerate.utils.gather(x)`."""
    if not call.args:
        return False
    named = processes.program.called(call)
    if named:
        return all(name.startswith("accelerate.") and name.endswith(".gather") for name in named)
    is_method = method_of_call(call) == "gather"
    return is_method and processes.is_accelerator(call.func.value)  # type: ignore[attr-defined]  # the method's owner


def _is_padded(processes: Processes, loop: ast.For) -> bool:
    """Whether a loop evaluates, and its function neither cuts what it made to a length nor drops what is left over."""
    if loop not in processes.once(RankValues).loops:
        return False
    around = [n for n in [loop, *processes.program.loops_round(loop)] if isinstance(n, ast.For)]
    owners = processes.once(RankValues).loaders.iterables.owners(loop.iter)
    made = (v.node for owner in owners for v in processes.once(Trained).before_prepare(owner) if isinstance(v, Made))
    drops = any(k.arg in (None, "drop_last") for call in made for k in getattr(call, "keywords", ()))
    return not drops and not any(map(_trains, around)) and not _cuts(processes.frame(loop).node)


def _trains(loop: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "backward" for n in ast.walk(loop))


def _cuts(function: ast.AST) -> bool:
    """Whether a function cuts something to a length, or counts what it has seen."""
    return any(
        isinstance(n, ast.Slice) and n.upper is not None and not isinstance(n.upper, ast.Constant)
        for n in ast.walk(function)
    )


def _is_of_rows(processes: Processes, loop: ast.For, call: ast.Call) -> bool:
    """Whether what is gathered may have a row for each sample; a loss, a mean or a sum has none."""
    given = call.args[0]
    parts = given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given]
    summand = Summand(processes.program, loop)
    return all(summand.is_of_rows(p) is None and not vocabulary.is_name_of_a_loss(last(p)) for p in parts)


def _is_kept(processes: Processes, loop: ast.For, call: ast.Call) -> bool:
    """Whether what is gathered goes into a metric, a list or a sum."""
    statement = processes.program.statement(call)
    if not isinstance(statement, ast.Assign):
        return _keeps(processes, statement)
    bound = {n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    inside = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.stmt)]
    keeping = [n for n in inside if n is not statement and _keeps(processes, n)]
    return any(isinstance(n, ast.Name) and n.id in bound for each in keeping for n in ast.walk(each))


def _keeps(processes: Processes, statement: ast.stmt) -> bool:
    """`total += x`, `rows.append(x)`, `rows.extend(x)`, `metric.add_batch(predictions=x)`."""
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, ast.Add)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    rows = processes.rows(call)
    is_added = call.func.attr.startswith("add") and table.member("metric", call.func.attr) is not None
    return is_added or (bool(rows) and all("self" in row.mutates for row in rows))


def _fix(processes: Processes, call: ast.Call) -> tuple[Edit, ...]:
    if not isinstance(call.func, ast.Attribute) or not processes.is_accelerator(call.func.value):
        return ()

    def for_metrics(node: cst.CSTNode) -> cst.BaseExpression:
        assert isinstance(node, cst.Attribute)
        return node.with_changes(attr=cst.Name("gather_for_metrics"))

    return (Replace(call.func, for_metrics, keeps=(call.func.value,)),)
