"""Which calls wait for all processes: collectives, and functions of the project that surely come to one?"""

from __future__ import annotations

import ast

from accelify.codemod.checks.processes import MAIN, OTHER, Processes
from accelify.codemod.libraries import table
from accelify.codemod.libraries.row import Trait
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import External

_DEEPEST = 5


class Waiting:
    """Find them in a program."""

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
        if self._remembers(function):
            return None
        inside = (c for c in self.program.calls_in(function) if self.may_wait(c) and c not in calls)
        for inner in sorted(inside, key=self.program.position):
            found = self.of(inner, (*calls, call)) if self._is_sure(inner, (*calls, call)) else None
            if found is not None:
                return found
        return None

    def _remembers(self, function: Scope) -> bool:
        """Whether a function may give back what an earlier call came to: `@functools.cache`."""
        decorators = [n for d in getattr(function.node, "decorator_list", []) for n in ast.walk(d)]
        names = {name for d in decorators if isinstance(d, (ast.Name, ast.Attribute)) for name in self._named(d)}
        rows = filter(None, map(table.function, names))
        return any(row.has(Trait.REMEMBERS) for row in rows)

    def _named(self, node: ast.expr) -> set[str]:
        return {v.name for v in self.program.values(node) if isinstance(v, External)}

    def _is_sure(self, call: ast.Call, calls: tuple[ast.Call, ...]) -> bool:
        """Whether a function that several processes run surely comes to a call, whichever they are."""
        if self.program.control_flow(call).is_conditional(call):
            return False
        if any(self.processes.is_dead(call, world, calls) for world in (MAIN, OTHER)):
            return False
        truth = self.processes.conditions.truth
        said = ({truth(test, world, calls) for world in (MAIN, OTHER)} for test in self.processes.tests_before(call))
        return all(len(each) == 1 and None not in each for each in said)
