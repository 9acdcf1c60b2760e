"""Which calls in a training loop only evaluate, so that what they draw trains nothing?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, names_in, names_read_in
from accelify.codemod.training.roles import Roles


class Evaluations:
    """Tell calls that only evaluate by what they run, and by where their results are read; frames: what trains."""

    def __init__(self, program: Program, roles: Roles, frames: Collection[Scope]) -> None:
        self.program = program
        self.roles = roles
        self.frames = set(frames)

    def hold(self, node: ast.AST, seen: frozenset[Scope] = frozenset()) -> bool:
        """Whether code is only run by such calls."""
        frame = self.program.frame(node)
        calls = self.program.calls_of(frame) if frame.is_function and frame not in seen else []
        return bool(calls) and all(self._evaluates(c) or self.hold(c, seen | {frame}) for c in calls)

    def have_loop(self, node: ast.AST) -> bool:
        """Whether code is in a loop of its function that runs a model and does not train."""
        loops = self.program.loops_round(node)
        calls = [n for n in ast.walk(loops[0]) if isinstance(n, ast.Call)] if loops else []
        return any(self._is_model(c.func) for c in calls) and not self._trains(loops[0])

    def _evaluates(self, call: ast.Call) -> bool:
        run = self.program.run_through([call])
        if run & self.frames or not any(map(self._runs_a_model, run)):
            return False
        changed = self.program.once(Chains).changed_by(call)
        return all(map(self._is_model, changed)) and not self._is_learned_from(call)

    def _runs_a_model(self, scope: Scope) -> bool:
        functions = (c.func for c in self.program.calls_in(scope))
        return any(self._is_model(f) or self._is_model(getattr(f, "value", f)) for f in functions)

    def _is_model(self, node: ast.expr) -> bool:
        return any(map(self.roles.is_model, self.program.values(node)))

    def _is_learned_from(self, call: ast.Call) -> bool:
        """Whether what a call gives may get to a step, by the variables of its function; what leaves that may."""
        statement = self.program.statement(call)
        names: set[str] = set()
        while True:
            reading = [statement, *(s for s in self._statements(statement) if names_read_in(s) & names)]
            if any(isinstance(s, (ast.Return, ast.Yield)) or self._trains(s) for s in reading):
                return True
            targets = [t for s in reading for t in _targets(s)]
            given = {n for t in targets for n in names_in(t)}
            if any(not isinstance(n, (ast.Name, ast.Tuple, ast.List)) for n in targets):
                return True
            if given <= names:
                return False
            names |= given

    def _statements(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """The statements of the same function that hold no others."""
        for node in ast.walk(self.program.frame(statement).node):
            if isinstance(node, ast.stmt) and not hasattr(node, "body"):
                yield node

    def _trains(self, statement: ast.stmt) -> bool:
        calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
        backward = any(isinstance(c.func, ast.Attribute) and c.func.attr == "backward" for c in calls)
        return backward or any(self.program.run_through([c]) & self.frames for c in calls)


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, (ast.AnnAssign, ast.AugAssign)) else []
