"""Which conditions ask for a file that one process may just have made, so that a later process takes another way?

    if not os.path.exists(path):
        make(path)                        # saves, waits for all processes, and loads

A process that comes later finds the file, goes on without `make`, and the first waits forever. The answer is the same
for all where they meet after the question and before the file is made.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from accelify.codemod.files_written.paths import Files
from accelify.codemod.libraries.row import Trait
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.summary import FileUse

_DEPTH = 3


@dataclass(frozen=True, slots=True)
class ExistenceChecks:
    """Look at the conditions round a place, and round the calls of its function."""

    effects: Effects
    stored: Files
    backwards: Collection[ast.Call] = ()  # for which the processes wait for each other already

    def round(self, call: ast.Call) -> Iterator[tuple[ast.Call, ast.stmt]]:
        """The questions that may be answered anew before all come to a call, each with the first statement under it."""
        return self._round(call, call, _DEPTH)

    def _round(self, call: ast.Call, goal: ast.Call, depth: int) -> Iterator[tuple[ast.Call, ast.stmt]]:
        program = self.stored.program
        first: ast.stmt | None = None
        for choice, is_body in program.branches_round(call):
            if isinstance(choice, ast.If):
                branch = choice.body if is_body else choice.orelse
                is_elif = first is not None and not is_body and isinstance(branch[0], ast.If) and len(branch) == 1
                first = first if is_elif else branch[0]
                questions = [q for q in self.questions(choice.test) if self._is_answered(q, branch, goal)]
                if first is not None and questions:
                    yield questions[0], first
        for caller in program.calls_of(program.frame(call)) if depth else ():
            yield from self._round(caller, goal, depth - 1)

    def questions(self, test: ast.expr) -> list[ast.Call]:
        """The calls of an expression that ask whether a file is there, themselves or by a function."""
        return [n for n in ast.walk(test) if isinstance(n, ast.Call) and any(True for _ in self._looks(n))]

    def _looks(self, call: ast.Call) -> Iterator[ast.Call]:
        program = self.stored.program
        inner = program.run_from(program.flow.callees.get(call, ()))
        for each in [call, *(c for function in inner for c in program.calls_in(function))]:
            if any(row.has(Trait.LOOKS) for row in self.effects.kinds.called(each) or ()):
                yield each

    def _is_answered(self, question: ast.Call, branch: list[ast.stmt], call: ast.Call) -> bool:
        """Whether a branch makes what was asked for before it comes to a call, and no process waits before that."""
        asked = [p for c in self._looks(question) for use in self.effects.of_call(c).files_read for p in use.paths]
        calls = [n for s in branch for n in ast.walk(s) if isinstance(n, ast.Call)]
        program, is_before = self.stored.program, self.stored.is_before
        run = program.run_from(f for c in calls for f in program.flow.callees.get(c, ()))
        meetings = [b for b in self.backwards if b in calls or program.frame(b) in run]
        made = (use for use in self.effects.of(*branch).files_written if self._may_be(asked, use))
        return any(is_before(m.call, call) and not any(is_before(b, m.call) for b in meetings) for m in made)

    def _may_be(self, asked: list[ast.expr], made: FileUse) -> bool:
        """Whether a file that is made may be one of those asked for."""
        texts, named = set(map(ast.unparse, asked)), [self.stored.names(path) for path in asked]
        for path in made.paths:
            found = self.stored.names(path)
            if ast.unparse(path) in texts or not (found and named and all(named)):
                return True
            if any(found & names for names in named):
                return True
        return not made.paths
