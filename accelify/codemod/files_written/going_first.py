"""Which statements may one process run before the others? Those that every process comes to, once.

They do nothing that the processes do together, read no shard of a process's own, and are left by no process above
because of a file that is there already, or not yet.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator

from accelify.codemod.files_written.existence_checks import ExistenceChecks
from accelify.codemod.files_written.one_process import OneProcess
from accelify.codemod.libraries import names
from accelify.codemod.semantics.program import LEAVING, LOOPS
from accelify.codemod.semantics.scopes import Scope, main_guard
from accelify.codemod.semantics.visits.ways import Gate, Ways
from accelify.codemod.training.certainty import asks_for_one

_DEPTH = 3
_FAR = 6  # functions through which all processes come to a place where only the library can be asked
_MAYBE = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class GoingFirst:
    """Look at the way to a statement, and at what it does."""

    def __init__(
        self,
        alone: OneProcess,
        checks: ExistenceChecks,
        together: Collection[ast.AST] = (),
        passes: Collection[ast.AST] = (),
        is_asked: Callable[[ast.AST], bool] = lambda node: False,
        differs: Callable[[ast.expr], bool] = lambda node: True,
    ) -> None:
        self.program = alone.program
        self.alone = alone
        self.checks = checks
        self.together = frozenset(together)  # what the processes do together: backward passes, what is prepared
        self.passes = frozenset(passes)  # the prepared loaders, where code goes over them: all processes have to
        self.is_asked = is_asked  # whether the library can be asked at a node, which process this is
        self.differs = differs  # whether ranks may have another value of an expression each
        self.passing = frozenset(map(self.program.frame, self.passes))

    def calling(self, function: Scope) -> tuple[ast.stmt, ...]:
        """The statements that call a function and may go first; none where one of them may not, or is not known."""
        found = list(self._calling(function, _DEPTH))
        found = list(self._asking(function)) if None in found else found
        statements = [s for s in found if s is not None]
        return tuple(statements) if len(statements) == len(found) else ()

    def _calling(self, function: Scope, depth: int) -> Iterator[ast.stmt | None]:
        """The statements that call a function where the accelerator is there; None for one that cannot be found."""
        callers = self.program.flow.callers.get(function, ()) if depth else ()
        if not callers:
            yield None
        for call in callers:
            statement, frame = self.program.statement(call), self.program.frame(call)
            if frame not in self.program.reachable:
                continue
            if not self._is_run_at(call, function):
                yield None
            elif self.alone.accelerator(call) is not None and self.program.path(call) in self.alone.files:
                yield statement if self._is_apart(statement) and self._may_wait(statement) else None
            elif frame.kind == "function":
                yield from self._calling(frame, depth - 1)
            else:
                yield None

    def _asking(self, function: Scope, depth: int = _DEPTH) -> Iterator[ast.stmt | None]:
        """The statements that call a function, if all processes come there and the library can be asked; else None."""
        calls = self.program.calls_of(function) if depth and function not in self.program.flow.escaped else ()
        if not calls:
            yield None
        for call in calls:
            statement, frame = self.program.statement(call), self.program.frame(call)
            is_run = self._is_run_at(call, function)
            if is_run and self._may_go_first(call, statement):
                yield statement
            elif is_run and frame.kind == "function":
                yield from self._asking(frame, depth - 1)
            else:
                yield None

    def _may_go_first(self, call: ast.Call, statement: ast.stmt) -> bool:
        """Whether one process may run the statement of a call before the others, and the library can be asked there."""
        if not (self._may_wait(statement) and self.is_asked(call) and self._all_pass(statement)):
            return False
        return self._is_apart(statement) and not self._is_left_above(statement)

    def stands_alone(self, statement: ast.stmt) -> bool:
        """Whether a statement has its lines for itself, and is in no loop."""
        around = list(self.program.ancestors(statement))
        own = around[: around.index(self.program.frame(statement).node)]
        return self._has_own_lines(statement) and all(isinstance(a, (ast.With, ast.If)) for a in own)

    def all_come_to(self, statement: ast.stmt, depth: int = _DEPTH) -> bool:
        """Whether every process comes to a statement, once."""
        frame = self.program.frame(statement)
        calls = self.program.calls_of(frame) if frame.kind == "function" else ()
        is_run = (bool(calls and depth) or frame.kind == "module") and not any(map(self._is_maybe, calls))
        callers = map(self.program.statement, calls)
        return is_run and self._is_come_to(statement) and all(self.all_come_to(c, depth - 1) for c in callers)

    def reads_shard(self, node: ast.AST) -> bool:
        """Whether some code goes over a prepared loader, itself or in a function that it calls."""
        inside = set(ast.walk(node))
        run = self.program.run_through(n for n in inside if isinstance(n, ast.Call))
        return not self.passes.isdisjoint(inside) or not run.isdisjoint(self.passing)

    def _is_apart(self, statement: ast.stmt) -> bool:
        """Whether a statement does nothing that the processes do together, and reads no shard of a process's own."""
        inside = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
        callees = (f for c in inside for f in self.program.flow.callees.get(c, ()))
        is_apart = self.together.isdisjoint(ast.walk(statement)) and not self.meets(callees)
        return is_apart and not self.reads_shard(statement)

    def meets(self, functions: Iterable[Scope]) -> bool:
        """Whether some functions do what the processes do together."""
        return not self.program.run_from(functions).isdisjoint(map(self.program.frame, self.together))

    def _is_run_at(self, call: ast.Call, function: Scope) -> bool:
        """Whether a function is run by the time its call is over: one that yields only where all items are taken."""
        yields = [n for n in ast.walk(function.node) if isinstance(n, (ast.Yield, ast.YieldFrom))]
        if not any(self.program.frame(n) is function for n in yields):
            return True
        taker = self.program.parent(call)
        if isinstance(taker, ast.comprehension):
            return not isinstance(self.program.parent(taker), ast.GeneratorExp)
        takers = self.program.called(taker) if isinstance(taker, ast.Call) else ()
        is_taken = bool(takers) and all(names.iteration(n) and not names.gives_iterator(n) for n in takers)
        return is_taken or (isinstance(taker, ast.For) and taker.iter is call)

    def _is_maybe(self, call: ast.Call) -> bool:
        """Whether its statement makes a call as often as something there says: `[load(k) for k in keys]`."""
        statement = self.program.statement(call)
        around = (a for a in self.program.ancestors(call) if self.program.inside(a, statement))
        return any(isinstance(a, _MAYBE) for a in around)

    def _all_pass(self, statement: ast.stmt) -> bool:
        """Whether every process comes to a statement, once: by calls that are known, in no loop, under one answer."""

        def is_open(gate: Gate) -> bool:
            tests = [c.test for c in gate.choices]
            is_apart = any(self.checks.questions(t) or asks_for_one(t) or self.differs(t) for t in tests)
            return not (is_apart or gate.loops or gate.may_fail or isinstance(gate.node, LOOPS))

        def is_entered(node: ast.AST) -> bool | None:
            frame = self.program.frame(node)
            is_known = bool(self.program.calls_of(frame)) and frame not in self.program.flow.escaped
            return True if frame.kind == "module" else None if is_known or frame.kind == "class" else False

        return self.program.once(Ways).are_open(statement, is_open, is_entered, _FAR)

    def _is_left_above(self, statement: ast.stmt) -> bool:
        """Whether a process may leave before a statement because of a file: it is there already, or not yet."""
        block = self.program.block(statement)
        above = (s for s in block[: block.index(statement)] if self.checks.questions(s))
        return any(isinstance(n, LEAVING) for s in above for n in ast.walk(s))

    def _may_wait(self, statement: ast.stmt) -> bool:
        """Whether every process comes to a statement, and has its lines for it."""
        return isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)) and self._is_come_to(statement)

    def _is_come_to(self, statement: ast.stmt) -> bool:
        """Whether every process that runs a function comes to its statement, which has its lines for itself."""
        guard = main_guard(self.program.frame(statement).root)
        around = list(self.program.ancestors(statement))
        own = [a for a in around[: around.index(self.program.frame(statement).node)] if a is not guard]
        tests = [a.test for a in own if isinstance(a, ast.If)]
        is_alike = not any(isinstance(n, ast.Call) for t in tests for n in ast.walk(t))
        is_plain = all(isinstance(a, (ast.With, ast.If)) for a in own)
        return is_plain and is_alike and self._has_own_lines(statement)

    def _has_own_lines(self, statement: ast.stmt) -> bool:
        """Whether a statement shares none of its lines with another."""
        parsed, block = self.program.parsed(statement), self.program.block(statement)
        is_shared = any(parsed.share_a_line(s, statement) for s in block if s is not statement)
        return parsed.begins_line(statement) and not is_shared
