"""A collective that some processes never come to: the others wait for them forever.

    if dist.get_rank() == 0:                     loss = loss.detach()
        dist.all_reduce(loss)         ->         dist.all_reduce(loss)
        print(loss)                              if dist.get_rank() == 0:
                                                     print(loss)

Why: a collective or a barrier returns once every process of its group has called it. Under a condition on the rank, or
on a process's own batch, or behind a `return` or `continue` of some ranks, it never does, and the run hangs until its
timeout.
Left alone: what each branch calls alike, such as the pairs of barriers by which one process goes first; what has a
`group` of its own; sends and receives; conditions that are about more than the rank.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import MAIN, OTHER, Processes
from accelify.codemod.checks.rank_values import RankValues
from accelify.codemod.checks.training import Trained
from accelify.codemod.checks.waiting import Waiting
from accelify.codemod.semantics.conditions import World
from accelify.codemod.semantics.scopes import Scope

NAME = "unreached_collective"
_OWN = (
    "a process gets to `{}` or not by a batch of its own, and those that do wait for the others: decide from a value "
    "that is reduced across processes"
)


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each call that one kind of process comes to and the other does not."""
    waiting = processes.once(Waiting)
    by_frame: dict[Scope, list[_Alone]] = {}
    for call in sorted(filter(waiting.may_wait, processes.program.calls), key=processes.program.position):
        world = next((w for w in (MAIN, OTHER) if _runs_alone(processes, call, w)), None)
        found = waiting.of(call) if world is not None else None
        if world is not None and found is not None:
            by_frame.setdefault(processes.frame(call), []).append(_Alone(call, world, *found))
    yield from _decided_alone(processes, waiting)
    for alone in by_frame.values():
        for one in alone:
            if not any(other.name == one.name and other.world is not one.world for other in alone):
                yield Finding(NAME, one.call, _message(processes, one))


def _decided_alone(processes: Processes, waiting: Waiting) -> Iterator[Finding]:
    """A finding for each collective that a process comes to, or not, by its own batch."""
    trained = processes.once(Trained)
    if not processes.is_distributed or not (trained.wraps or trained.prepares):
        return
    values = processes.once(RankValues)
    for call in sorted(filter(waiting.may_wait, processes.program.calls), key=processes.program.position):
        found = waiting.of(call) if values.loops and processes.is_run(call) else None
        tests = [t for t in processes.tests_before(call) if found is not None and values.is_of_last_batch(t)]
        if found is not None and any(not _is_called_otherwise(processes, call, test) for test in tests):
            yield Finding(NAME, call, _OWN.format(found[0]))


def _is_called_otherwise(processes: Processes, call: ast.Call, test: ast.expr) -> bool:
    """Whether the other branch calls the same."""
    branch = processes.program.parent(test)
    sides = [branch.body, branch.orelse] if isinstance(branch, ast.If) else []
    texts = [{ast.unparse(n.func) for s in side for n in ast.walk(s) if isinstance(n, ast.Call)} for side in sides]
    return bool(texts) and all(ast.unparse(call.func) in each for each in texts)


@dataclass(frozen=True, slots=True)
class _Alone:
    """A call that one kind of process alone comes to; `name` and `at` are the collective that it is, or leads to."""

    call: ast.Call
    world: World
    name: str
    at: ast.Call


def _runs_alone(processes: Processes, call: ast.Call, world: World) -> bool:
    """Whether in its function one kind of process comes to a call, and the other does not."""
    other = OTHER if world is MAIN else MAIN
    if processes.is_dead(call, world) or not processes.is_dead(call, other):
        return False
    return processes.runs(call, world) and processes.enters(call, other)


def _message(processes: Processes, one: _Alone) -> str:
    call, name, at = one.call, one.name, one.at
    who = "only the main process gets" if one.world is MAIN else "the main process does not get"
    if at is call:
        return f"{who} to `{name}`, which waits for all processes: the run hangs"
    where = f"{processes.program.path(at)}:{processes.program.line(at)}"
    line = f"line {processes.program.line(at)}"
    there = line if processes.program.path(at) == processes.program.path(call) else where
    return (
        f"{who} to `{ast.unparse(call.func)}`, which calls `{name}` ({there}) and waits for all processes: the run "
        "hangs"
    )
