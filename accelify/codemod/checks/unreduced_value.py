"""A value of one process's shard that is taken for the value of all data.

    for x, y in val_loader:                          for x, y in val_loader:
        correct += (model(x).argmax(1) == y).sum()       correct += (model(x).argmax(1) == y).sum()
    if correct > best:                     ->        dist.all_reduce(correct)
        torch.save(model.state_dict(), "best.pt")    if correct > best:
                                                         torch.save(model.state_dict(), "best.pt")

Why: each process goes over its own shard, so that a sum, a list or a meter of the loop is that of 1/N of the data. What
is printed, logged or saved from it is wrong by that. What is decided by it the processes decide each for itself: one
stops early while the others wait for it, learning rates drift apart, and the best model is that of one shard.
Left alone: what may be reduced or gathered on the way, values that are shown while their loop still runs, and averages
of the training loss that are only shown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import MAIN, OTHER, Processes
from accelify.codemod.checks.rank_values import RankValues
from accelify.codemod.checks.training import Trained
from accelify.codemod.libraries import table
from accelify.codemod.metrics.ranks.labels import Mark, Origin
from accelify.codemod.metrics.reports import updated_text
from accelify.codemod.metrics.sinks import Sink, Way
from accelify.codemod.metrics.updates import Updating, addition, updating
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Instance

NAME = "unreduced_value"
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_WAYS = (Way.DECIDED, Way.SAVED, Way.SHOWN)  # the worst first


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each running value of a shard that leaves its loop as it is, where the worst is made of it."""
    trained = processes.once(Trained)
    if not processes.is_distributed or not (trained.wraps or trained.prepares):
        return
    values = processes.once(RankValues)
    by_value: dict[tuple[str, Scope], list[tuple[Sink, Origin]]] = {}
    ways = _WAYS if any(_evaluates(values, loop) for loop in values.loops) else (Way.DECIDED,)
    for sink, origin in values.leaving(lambda s: s.way in ways and (s.way is not Way.DECIDED or _orders(s))):
        is_taken = _is_taken_for_all(values, sink, origin) and values.is_computed_from(sink, origin)
        if is_taken and not values.may_be_reduced(sink, origin):
            text = updated_text(values.ranks.chains, origin.node)
            by_value.setdefault((text, processes.frame(origin.node)), []).append((sink, origin))
    worst = {text: min(found, key=lambda each: _WAYS.index(each[0].way)) for (text, _), found in by_value.items()}
    for node in dict.fromkeys(sink.node for sink, _ in worst.values()):
        here = {text: each for text, each in worst.items() if each[0].node is node}
        yield Finding(NAME, node, _message(processes, here))


def _is_taken_for_all(values: RankValues, sink: Sink, origin: Origin) -> bool:
    """Whether a sum, list or meter of a shard leaves after its loop, and not only to show how the training goes."""
    loop = values.ranks.running.loop_of(origin.node)
    if origin.mark is not Mark.RUNNING or not origin.differs or loop is None:
        return False
    program, processes = values.program, values.processes
    if not program.inside(origin.node, loop) or not _gathers_own(values, origin.node):
        return False
    if program.inside(sink.node, loop) or not processes.is_run(sink.node):
        return False
    if not any(processes.runs(sink.node, world) for world in (MAIN, OTHER)):
        return False
    if values.ranks.running.loop_that_runs(program.frame(sink.node)) is not None:
        return False
    return sink.way is Way.DECIDED or _evaluates(values, loop)


def _evaluates(values: RankValues, loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    return isinstance(loop, (ast.For, ast.AsyncFor)) and not values.loaders.trains(loop)


def _gathers_own(values: RankValues, node: ast.AST) -> bool:
    """Whether an update adds, collects or counts what comes from the batches of a shard: `total += loss`."""
    chains, ranks = values.ranks.chains, values.ranks
    added = addition(chains, node)
    if added is not None:
        return any(map(ranks.is_own, added.parts))
    if isinstance(node, ast.Call):
        given = [*node.args, *(k.value for k in node.keywords)]
        rows = chains.kinds.called(node) or ()
        is_known = updating(chains, node) is Updating.COLLECTS and any("self" in row.mutates for row in rows)
        return (is_known or _is_meter(values, node)) and any(map(ranks.is_own, given))
    return updating(chains, node) is Updating.COLLECTS


def _is_meter(values: RankValues, call: ast.Call) -> bool:
    """Whether a call puts something into a metric, or an object of the project's own that is no model."""
    if not isinstance(call.func, ast.Attribute):
        return False
    held, kinds = values.program.values(call.func.value), values.processes.kinds.of(call.func.value)
    is_own = bool(held) and all(isinstance(v, Instance) for v in held) and not values.is_alike(call.func.value)
    return is_own or any(table.is_kind(kind, "metric") for kind in kinds)


def _orders(sink: Sink) -> bool:
    """Whether a decision is by the size of a value: `loss < best`, `scheduler.step(loss)`."""
    test = getattr(sink.end or sink.node, "test", None)
    if test is None:
        return isinstance(sink.end or sink.node, ast.Call)
    return any(isinstance(op, _ORDERS) for n in ast.walk(test) if isinstance(n, ast.Compare) for op in n.ops)


def _message(processes: Processes, here: dict[str, tuple[Sink, Origin]]) -> str:
    sink, origin = next(iter(here.values()))
    line, path = processes.program.line(origin.node), processes.program.path(origin.node)
    where = f"line {line}" if path == processes.program.path(sink.node) else f"{path}:{line}"
    values = f"{', '.join(f'`{text}`' for text in here)} ({where})"
    verb, them = ("is", "it") if len(here) == 1 else ("are", "them")
    done = {Way.SHOWN: "shown", Way.SAVED: "saved"}.get(sink.way, "compared")
    return f"{values} {verb} of this process's shard alone, and {done} here: reduce {them} after the loop"
