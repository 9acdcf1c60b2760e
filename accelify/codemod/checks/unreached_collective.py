"""A collective that some processes never come to: the others wait for them forever.

    if dist.get_rank() == 0:                     loss = loss.detach()
        dist.all_reduce(loss)         ->         dist.all_reduce(loss)
        print(loss)                              if dist.get_rank() == 0:
                                                     print(loss)

Why: a collective or a barrier returns once every process of its group has called it. Under a condition on the rank, or
behind a `return` or `continue` of some ranks, it never does, and the run hangs until its timeout.
Left alone: what each branch calls alike, such as the pairs of barriers by which one process goes first; what has a
`group` of its own; sends and receives; conditions that are about more than the rank.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import MAIN, OTHER, Processes
from accelify.codemod.libraries.row import Trait
from accelify.codemod.semantics.conditions import World
from accelify.codemod.semantics.scopes import Scope

NAME = "unreached_collective"
_DEEPEST = 5


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each call that one kind of process comes to and the other does not."""
    by_frame: dict[Scope, list[tuple[ast.Call, str, ast.Call]]] = {}
    for call in sorted(processes.program.calls, key=processes.program.position):
        what = waits_for_all(processes, call)
        if what is not None:
            by_frame.setdefault(processes.frame(call), []).append((call, *what))
    for called in by_frame.values():
        yield from _in_one_function(processes, called)


def _in_one_function(processes: Processes, called: list[tuple[ast.Call, str, ast.Call]]) -> Iterator[Finding]:
    alone = {world: [(c, n, at) for c, n, at in called if _runs_alone(processes, c, world)] for world in (MAIN, OTHER)}
    for world, other in ((MAIN, OTHER), (OTHER, MAIN)):
        answered = Counter(name for _, name, _ in alone[other])
        for call, name, at in alone[world]:
            if not answered[name]:
                yield Finding(NAME, call, _message(processes, call, name, at, world))


def _runs_alone(processes: Processes, call: ast.Call, world: World) -> bool:
    """Whether in its function one kind of process comes to a call, and the other does not."""
    other = OTHER if world is MAIN else MAIN
    if processes.is_dead(call, world) or not processes.is_dead(call, other):
        return False
    return processes.runs(call, world) and processes.enters(call, other)


def waits_for_all(processes: Processes, call: ast.Call) -> tuple[str, ast.Call] | None:
    """The collective that a call surely is, or comes to, and its own call."""
    return _waits(processes, call, ())


def _waits(processes: Processes, call: ast.Call, calls: tuple[ast.Call, ...]) -> tuple[str, ast.Call] | None:
    if any(row.has(Trait.TOGETHER) for row in processes.rows(call)):
        if any(k.arg in ("group", "process_set") for k in call.keywords):
            return None
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
        return name, call
    callees = processes.program.flow.callees.get(call, ())
    if len(callees) != 1 or len(calls) >= _DEEPEST:
        return None
    (function,) = callees
    if function.generates or not isinstance(function.node, (ast.FunctionDef, ast.Lambda)):
        return None
    for inner in sorted(processes.program.calls_in(function), key=processes.program.position):
        if inner in calls or not _is_sure(processes, inner, (*calls, call)):
            continue
        found = _waits(processes, inner, (*calls, call))
        if found is not None:
            return found
    return None


def _is_sure(processes: Processes, call: ast.Call, calls: tuple[ast.Call, ...]) -> bool:
    """Whether a function that several processes run surely comes to a call, whichever they are."""
    flow = processes.program.control_flow(call)
    if flow.is_conditional(call):
        return False
    decided = {
        test: {processes.conditions.truth(test, world, calls) for world in (MAIN, OTHER)}
        for test in processes.tests_before(call)
    }
    if any(len(said) > 1 or None in said for said in decided.values()):
        return False
    return not any(processes.is_dead(call, world, calls) for world in (MAIN, OTHER))


def _message(processes: Processes, call: ast.Call, name: str, at: ast.Call, world: World) -> str:
    who = "the main process alone comes" if world is MAIN else "the main process does not come"
    if at is call:
        return f"{who} to `{name}`, which waits for all processes: the run hangs"
    where = f"{processes.program.path(at)}:{processes.program.line(at)}"
    line = f"line {processes.program.line(at)}"
    there = line if processes.program.path(at) == processes.program.path(call) else where
    return f"{who} to `{ast.unparse(call.func)}`, which calls `{name}` ({there}) and so waits for all: the run hangs"
