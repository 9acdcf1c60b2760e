"""Which bars, schedules and rounds are told how many steps one process would take, where each takes a share?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from accelify.codemod.libraries import names
from accelify.codemod.semantics.values import Made

if TYPE_CHECKING:
    from accelify.codemod.script import Script

DEPTH = 3  # Units: functions between a loop and what it calls in the end


def overstated_bars(script: Script) -> Iterator[ast.expr]:
    """The `total=len(data) // batch_size` of the bars round loops that are dealt out."""
    for loop in dict.fromkeys([*script.metrics.shared_loops, *script.metrics.evaluations]):
        heads = [a.items for a in script.program.ancestors(loop) if isinstance(a, (ast.With, ast.AsyncWith))]
        for place in (loop.iter, *(item.context_expr for items in heads for item in items)):
            for call in (n for n in ast.walk(place) if isinstance(n, ast.Call)):
                total = next((k.value for k in call.keywords if k.arg == "total"), None)
                is_bar = any(names.iteration(name) == "same" for name in script.program.called(call))
                if total is not None and is_bar and _counts_all(script, total):
                    yield total


def overlong_schedules(script: Script) -> Iterator[ast.expr]:
    """The `total_steps=len(data) // batch_size` of schedulers that step in loops that are dealt out."""
    for given, is_by_batch in _told(script):
        if any(is_by_batch) and _has_length(script, given) and _counts_all(script, given):
            yield given


def shrunken_schedules(script: Script) -> Iterator[ast.expr]:
    """The `T_max=len(loader)` of schedulers that step once an epoch: in one process the loader is N times as long."""
    for given, is_by_batch in _told(script):
        if not any(is_by_batch) and _has_length(script, given) and not _counts_all(script, given):
            yield given


def _told(script: Script) -> Iterator[tuple[ast.expr, list[bool]]]:
    """What a scheduler is told beside its optimizer, and of each of its steps, whether it is in a loop dealt out."""
    steps: dict[ast.Call, list[bool]] = {}
    for step in script.program.calls:
        if isinstance(step.func, ast.Attribute) and step.func.attr == "step":
            is_by_batch = _is_in_a_share(script, step, DEPTH)
            for value in script.program.values(step.func.value):
                if isinstance(value, Made) and script.roles.is_scheduler(value) and isinstance(value.node, ast.Call):
                    steps.setdefault(value.node, []).append(is_by_batch)
    for call, shares in steps.items():
        yield from ((given, shares) for given in [*call.args[1:], *(k.value for k in call.keywords)])


def _is_in_a_share(script: Script, call: ast.AST, depth: int) -> bool:
    """Whether a loop that is dealt out makes a call, itself or by functions that it calls."""
    if any(script.program.inside(call, loop) for loop in script.metrics.shared_loops):
        return True
    callers = script.program.flow.callers.get(script.program.frame(call), ()) if depth else ()
    return any(_is_in_a_share(script, caller, depth - 1) for caller in callers)


def overlong_rounds(script: Script) -> Iterator[ast.expr]:
    """The `len(data) // batch_size` of `for step in range(...)`, each of which takes the next batch of a share."""
    for loop in script.metrics.shared_loops:
        call = loop.iter if isinstance(loop, ast.For) else None
        if not isinstance(call, ast.Call) or "range" not in script.program.called(call) or not call.args:
            continue
        count = call.args[min(1, len(call.args) - 1)]
        taken = (n for n in ast.walk(loop) if isinstance(n, ast.Call) and "next" in script.program.called(n))
        if _counts_all(script, count) and any(_runs_out(script, n, loop) for n in taken):
            yield count


def _runs_out(script: Script, taken: ast.Call, loop: ast.stmt) -> bool:
    """Whether `next(batches)` goes over a loader once: nothing catches its end, and no round begins anew."""
    if len(taken.args) != 1 or any(isinstance(a, ast.Try) for a in script.program.ancestors(taken)):
        return False
    begun = [b for chain in script.tracer.chains(taken.args[0]) for b in chain if _begins(script, b.value)]
    return bool(begun) and not any(b.statement and script.program.inside(b.statement, loop) for b in begun)


def _begins(script: Script, value: ast.expr | None) -> bool:
    """`iter(loader)`"""
    if not isinstance(value, ast.Call) or "iter" not in script.program.called(value) or not value.args:
        return False
    return any(script.roles.is_loader(v) for v in script.program.values(value.args[0]))


def _has_length(script: Script, number: ast.expr) -> bool:
    """Whether a number is worked out from the length of something."""
    nodes = [n for part in (number, *_given(script, number)) for n in ast.walk(part)]
    return any(isinstance(n, ast.Call) and ast.unparse(n.func) == "len" for n in nodes)


def _counts_all(script: Script, total: ast.expr) -> bool:
    """Whether a number is worked out from something else than the length of a prepared loader."""
    nodes = [n for part in (total, *_given(script, total)) for n in ast.walk(part)]
    counts = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func) == "len" and n.args]
    is_worked_out = bool(counts) or any(isinstance(n, ast.BinOp) for n in nodes)
    return is_worked_out and not any(script.prepared.is_loader(c.args[0]) for c in counts)


def _given(script: Script, node: ast.expr) -> list[ast.expr]:
    """What a variable is given."""
    owner = script.program.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
    writes = script.tracer.writes(owner, node.id) if owner is not None and isinstance(node, ast.Name) else []
    values = [script.tracer.assigned(w) for w in writes if isinstance(w, ast.Name)]
    return [value for value in values if value is not None]
