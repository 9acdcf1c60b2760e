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
from accelify.codemod.libraries.row import Trait
from accelify.codemod.semantics.conditions import World
from accelify.codemod.semantics.scopes import Scope

NAME = "unreached_collective"
_DEEPEST = 5


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


class Waiting:
    """Which calls surely come to a collective?"""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.program = processes.program
        self._direct = {c for c in self.program.calls if self._is_collective(c)}
        self._functions = self._leading()

    def _is_collective(self, call: ast.Call) -> bool:
        has_group = any(k.arg in ("group", "process_set") for k in call.keywords)
        return not has_group and any(row.has(Trait.TOGETHER) for row in self.processes.rows(call))

    def _leading(self) -> set[Scope]:
        """The functions that may come to a collective."""
        found: set[Scope] = set()
        queue = [self.processes.frame(c) for c in self._direct]
        while queue:
            frame = queue.pop()
            if frame not in found:
                found.add(frame)
                queue += [self.processes.frame(c) for c in self.program.flow.callers.get(frame, ())]
        return found

    def may_wait(self, call: ast.Call) -> bool:
        """Whether a call is a collective, or may come to one."""
        return call in self._direct or not self._functions.isdisjoint(self.program.flow.callees.get(call, ()))

    def of(self, call: ast.Call, calls: tuple[ast.Call, ...] = ()) -> tuple[str, ast.Call] | None:
        """The collective that a call surely is, or comes to, with its own call; `calls` is the way to the call."""
        if call in self._direct:
            return (call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)), call
        callees = self.program.flow.callees.get(call, ())
        if len(callees) != 1 or len(calls) >= _DEEPEST:
            return None
        (function,) = callees
        if function.generates or not isinstance(function.node, (ast.FunctionDef, ast.Lambda)):
            return None
        inside = (c for c in self.program.calls_in(function) if self.may_wait(c) and c not in calls)
        for inner in sorted(inside, key=self.program.position):
            found = self.of(inner, (*calls, call)) if self._is_sure(inner, (*calls, call)) else None
            if found is not None:
                return found
        return None

    def _is_sure(self, call: ast.Call, calls: tuple[ast.Call, ...]) -> bool:
        """Whether a function that several processes run surely comes to a call, whichever they are."""
        if self.program.control_flow(call).is_conditional(call):
            return False
        if any(self.processes.is_dead(call, world, calls) for world in (MAIN, OTHER)):
            return False
        truth = self.processes.conditions.truth
        said = ({truth(test, world, calls) for world in (MAIN, OTHER)} for test in self.processes.tests_before(call))
        return all(len(each) == 1 and None not in each for each in said)


def _message(processes: Processes, one: _Alone) -> str:
    call, name, at = one.call, one.name, one.at
    who = "the main process alone comes" if one.world is MAIN else "the main process does not come"
    if at is call:
        return f"{who} to `{name}`, which waits for all processes: the run hangs"
    where = f"{processes.program.path(at)}:{processes.program.line(at)}"
    line = f"line {processes.program.line(at)}"
    there = line if processes.program.path(at) == processes.program.path(call) else where
    return f"{who} to `{ast.unparse(call.func)}`, which calls `{name}` ({there}) and so waits for all: the run hangs"
