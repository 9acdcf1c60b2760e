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
from collections.abc import Iterator
from dataclasses import dataclass

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import MAIN, OTHER, Processes
from accelify.codemod.checks.waiting import Waiting
from accelify.codemod.semantics.conditions import World
from accelify.codemod.semantics.scopes import Scope

NAME = "unreached_collective"


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each call that one kind of process comes to and the other does not."""
    waiting = Waiting(processes)
    by_frame: dict[Scope, list[_Alone]] = {}
    for call in sorted(filter(waiting.may_wait, processes.program.calls), key=processes.program.position):
        world = next((w for w in (MAIN, OTHER) if _runs_alone(processes, call, w)), None)
        found = waiting.of(call) if world is not None else None
        if world is not None and found is not None:
            by_frame.setdefault(processes.frame(call), []).append(_Alone(call, world, *found))
    for alone in by_frame.values():
        for one in alone:
            if not any(other.name == one.name and other.world is not one.world for other in alone):
                yield Finding(NAME, one.call, _message(processes, one))


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
