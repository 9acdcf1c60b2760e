"""Which methods of its own object do the rounds of a loop run, so that what they add to an attribute is the loop's?

for x, y in self.loader:
    loss = self.step(x, y)    # where `self.total += loss.item()` stands
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from accelify.codemod.metrics.ranks.expressions import is_self
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Definition, Kind, Variable
from accelify.codemod.semantics.scopes import Scope

Loop = ast.For | ast.AsyncFor


class RoundMethods:
    """Find them, by calls of `self` alone."""

    def __init__(self, chains: Chains, rounds: Collection[ast.AST]) -> None:
        """`rounds`: all loops over sharded data."""
        self.chains = chains
        self.program = chains.program
        self.rounds = rounds
        self._known: dict[Loop, tuple[Scope, ...]] = {}

    def of(self, loop: Loop) -> tuple[Scope, ...]:
        """The methods that no other loop over sharded data runs, and no call but those of the object itself."""
        if loop not in self._known:
            self._known[loop] = tuple(f for f in self._run(loop) if self._is_of_one_loop(f, loop))
        return self._known[loop]

    def _run(self, loop: Loop) -> dict[Scope, None]:
        """The methods of the object and of its file that the rounds of a loop run."""
        found: dict[Scope, None] = {}
        if not self.program.frame(loop).is_method:
            return found
        queue = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Call)]
        while queue:
            call = queue.pop(0)
            run = self.program.flow.callees.get(call, ()) if self._is_own(call) else ()
            for method in sorted(run, key=lambda f: f.qualified_name):
                if method not in found and self.program.path(method.node) == self.program.path(loop):
                    found[method] = None
                    queue += self.program.calls_in(method)
        return found

    def _is_own(self, call: ast.Call) -> bool:
        return isinstance(call.func, ast.Attribute) and is_self(self.program, call.func.value)

    def _is_of_one_loop(self, method: Scope, loop: Loop) -> bool:
        others = [n for n in self.rounds if n is not loop and isinstance(n, (ast.For, ast.AsyncFor, ast.While))]
        calls = (n for other in others for s in other.body for n in ast.walk(s) if isinstance(n, ast.Call))
        is_shared = method in self.program.run_through(calls)
        return not is_shared and all(map(self._is_own, self.program.calls_of(method)))

    def begins_elsewhere(self, variable: Variable, loop: Loop, method: Scope) -> bool:
        """Whether an attribute is begun anew before each call of a method that the rounds of a loop do not make."""
        ways = [f for f in self.of(loop) if method in self.program.run_from([f])]
        calls = [c for way in ways for c in self.program.calls_of(way) if not self._is_run(c, loop)]
        return all(self._begins_before(variable, call, loop) for call in calls)

    def _is_run(self, node: ast.AST, loop: Loop) -> bool:
        return self.program.inside(node, loop) or self.program.frame(node) in self.of(loop)

    def _begins_before(self, variable: Variable, call: ast.Call, loop: Loop) -> bool:
        frame, flow = self.program.frame(call), self.chains.flow(call)
        begins = [d.node for d in self._begun(variable) if self.program.frame(d.node) is frame]
        if frame is not self.program.frame(loop):
            return flow.is_covered(begins, call)
        return not flow.reaches(loop, call, without=begins) and not flow.reaches(call, loop, without=begins)

    def _begun(self, variable: Variable) -> Collection[Definition]:
        if variable.scope is None:
            return ()
        return [d for d in self.chains.facts(variable.scope.node).all_of(variable) if d.kind is Kind.ASSIGNMENT]
