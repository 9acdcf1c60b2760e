"""How many rounds has a loop, and are these more than the batches that a process has of a shard?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import names
from accelify.codemod.metrics.facts import Loop, Metrics
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.steps.lengths import counts_all, given_values
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Constant, Instance, Made, Value, View

_DEPTH = 3  # samplers inside samplers


def overlong_rounds(metrics: Metrics) -> Iterator[ast.expr]:
    """How many rounds take the next batch of a shard each, where that is worked out from no prepared loader."""
    asking = [d for d in metrics.measured.training.data if d.kind == "loaders" and d.loop is not None]
    for loop in dict.fromkeys([*metrics.shared_loops, *(d.loop for d in asking if d.loop is not None)]):
        if (count := rounds_of(metrics, loop)) is not None and is_overlong(metrics, loop, count):
            yield count


def is_overlong(metrics: Metrics, loop: Loop | ast.While, count: ast.expr) -> bool:
    """Whether a loop with a number of rounds asks for more batches than a process has of a shard."""
    if metrics.ranks.of(count).of(Mark.STEPS):
        return False
    called = metrics.measured.program.run_through([n for n in walk(loop) if isinstance(n, ast.Call)])
    bodies = (loop, *sorted((f.node for f in called), key=metrics.measured.program.position))
    asked = dict.fromkeys(n for body in bodies for n in walk(body))
    return any(_runs_out(metrics, n, loop, called, counts_all(metrics, count)) for n in asked)


def rounds_of(metrics: Metrics, loop: Loop | ast.While) -> ast.expr | None:
    """`n` of `for i in range(n)` and of `while i < n`, where `i` counts the rounds."""
    if isinstance(loop, ast.While):
        test = loop.test
        counted = (
            [metrics.ranks.of(s).of(Mark.STEPS) for s in (test.left, *test.comparators)]
            if isinstance(test, ast.Compare)
            else []
        )
        return (
            test.comparators[0]
            if isinstance(test, ast.Compare) and counted and counted[0] and len(counted) == 2
            else None
        )
    counters = [*dict.fromkeys(heads(metrics, loop.iter))]
    call = counters[0] if len(counters) == 1 else None
    if not isinstance(call, ast.Call) or not is_range(metrics, call) or not call.args:
        return None
    return call.args[min(1, len(call.args) - 1)]


def heads(metrics: Metrics, node: ast.expr, seen: frozenset[str] = frozenset()) -> Iterator[ast.expr]:
    """What a loop may go over, whatever names it and shows its progress: `range(n)` of `bar = tqdm(range(n))`."""
    inner = metrics.measured.tracer.inside(node)
    values = [inner.body, inner.orelse] if isinstance(inner, ast.IfExp) else given_values(metrics, inner)
    name = inner.id if isinstance(inner, ast.Name) else ""
    if not values:
        yield inner
    elif name not in seen:
        yield from (head for value in values for head in heads(metrics, value, seen | {name} - {""}))


def is_range(metrics: Metrics, call: ast.Call) -> bool:
    return any(map(names.is_range, metrics.measured.program.called(call)))


def _runs_out(metrics: Metrics, node: ast.AST, loop: ast.stmt, called: Collection[Scope], is_worked_out: bool) -> bool:
    """Whether `next(batches)` iterates over a loader once: nothing catches its end, and no round begins anew.

    is_worked_out: whether a script works out how many there are, so that they have an end, whatever samples them.
    """
    program = metrics.measured.program
    iterator = program.iterator(node)
    has_default = isinstance(node, ast.Call) and len(node.args) > 1
    if (
        iterator is None
        or has_default
        or any(isinstance(a, ast.Try) for n in (node, loop) for a in program.ancestors(n))
    ):
        return False
    held = [v for v in program.values(iterator) if not isinstance(v, Constant)]
    begun = [v.node for v in held if isinstance(v, View) and _begins(metrics, v.node, is_worked_out)]
    is_anew = (program.inside(n, loop) or program.frame(n) in called for n in begun)
    return len(begun) == len(held) > 0 and not any(is_anew)


def _begins(metrics: Metrics, value: ast.AST | None, is_worked_out: bool) -> bool:
    """`iter(loader)`"""
    program = metrics.measured.program
    begun = program.begun(value)
    loaders = [v for v in program.values(begun) if begun is not None and metrics.measured.roles.is_loader(v)]
    return bool(loaders) and (is_worked_out or all(_has_end(metrics, v) for v in loaders))


def _has_end(metrics: Metrics, loader: Value) -> bool:
    """Whether a data set that can be indexed, or a sampler that ends, says how many batches a loader has."""
    call = loader.node if isinstance(loader, Made) else None
    if not isinstance(call, ast.Call) or not call.args:
        return False
    samplers = [k.value for k in call.keywords if (k.arg or "sampler").endswith("sampler")]
    if not all(_ends(metrics, sampler) for sampler in samplers):
        return False
    data = metrics.measured.program.values(call.args[0])
    return not any(_iterates(metrics, value) for value in data)


def _iterates(metrics: Metrics, value: Value) -> bool:
    """Whether this is an object of the project's own that says itself what it yields."""
    return isinstance(value, Instance) and metrics.measured.program.flow.method(value.cls, "__iter__") is not None


def _ends(metrics: Metrics, sampler: ast.expr, depth: int = _DEPTH) -> bool:
    """Whether a sampler is known to end: a library's, or one of the project's that only goes over others."""
    held = [v for v in metrics.measured.program.values(sampler) if not isinstance(v, Constant)]
    is_counted = isinstance(sampler, ast.Call) and is_range(metrics, sampler)
    return is_counted or (bool(held) and all(_is_finite(metrics, value, depth) for value in held))


def _is_finite(metrics: Metrics, sampler: Value, depth: int) -> bool:
    if isinstance(sampler, Instance):
        method = metrics.measured.program.flow.method(sampler.cls, "__iter__")
        nodes = [*walk(method.node)] if method is not None else []
        given = [n.iter for n in nodes if isinstance(n, (ast.For, ast.comprehension))]
        if not given or any(isinstance(n, ast.While) for n in nodes):
            return False
    else:
        call = sampler.node if isinstance(sampler, Made) and names.is_sampler(sampler.name) else None
        if not isinstance(call, ast.Call):
            return False
        given = [n for n in (*call.args, *(k.value for k in call.keywords)) if _is_sampler(metrics, n)]
    return depth > 0 and all(_ends(metrics, n, depth - 1) for n in given)


def _is_sampler(metrics: Metrics, node: ast.expr) -> bool:
    held = metrics.measured.program.values(node)
    return any((isinstance(v, Made) and names.is_sampler(v.name)) or _iterates(metrics, v) for v in held)
