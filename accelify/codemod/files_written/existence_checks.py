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
from accelify.codemod.semantics.program import LEAVING

_DEPTH = 3


@dataclass(frozen=True, slots=True)
class _Way:
    """Statements that run only where a file is missing: the calls that look for it, and the first of them."""

    questions: list[ast.Call]
    statements: list[ast.stmt]
    first: ast.stmt


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
        for way in self._ways(program.statement(call)):
            questions = [q for q in way.questions if self._is_answered(q, way.statements, goal)]
            yield from ((q, way.first) for q in questions[:1])
        for caller in program.calls_of(program.frame(call)) if depth else ():
            yield from self._round(caller, goal, depth - 1)

    def _ways(self, statement: ast.stmt) -> Iterator[_Way]:
        """The conditions that a statement stands under, from the inside out, and those after which it is not run."""
        program, first = self.stored.program, None
        for node in [statement, *program.ancestors(statement)]:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
                return
            if not isinstance(node, (ast.stmt, ast.ExceptHandler)):
                continue
            holder = program.parent(node)
            if isinstance(node, ast.ExceptHandler):
                reads = self._reads(holder.body) if isinstance(holder, ast.Try) else []
                yield _Way(reads, node.body, node.body[0])
                continue
            block = program.block(node)
            for index, above in enumerate(block[: block.index(node)]):
                if isinstance(above, ast.If) and not above.orelse and isinstance(above.body[-1], LEAVING):
                    yield _Way(self.questions(above.test), block[index + 1 :], block[index + 1])
            if isinstance(holder, ast.If):
                is_elif = first is not None and block is holder.orelse and isinstance(node, ast.If) and len(block) == 1
                first = first if is_elif else block[0]
                yield _Way(self.questions(holder.test), block, first or block[0])

    def questions(self, test: ast.AST) -> list[ast.Call]:
        """The calls of a condition, or a statement, that ask whether a file is there, themselves or by a function.

        Also those whose answer is in a variable: `found = os.path.exists(path)`.
        """
        values = (self.stored.tracer.value_at(n) for n in ast.walk(test) if isinstance(n, ast.Name))
        nodes = [n for code in (test, *values) if code is not None for n in ast.walk(code)]
        return [n for n in nodes if isinstance(n, ast.Call) and any(True for _ in self._looks(n))]

    def is_missing(self, test: ast.expr, holds: bool) -> bool:
        """Whether there is no file where a condition about one holds, or does not: `len(os.listdir(path)) == 0`."""
        if not self.questions(test):
            return False
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return not holds
        is_none = any(ast.unparse(n) in ("0", "[]") for n in (test.left, *test.comparators))
        is_left = bool(self.questions(test.left))
        if isinstance(test.ops[0], (ast.Eq, ast.NotEq)):
            return (isinstance(test.ops[0], ast.Eq) is is_none) is holds
        is_less = isinstance(test.ops[0], (ast.Lt, ast.LtE)) is is_left
        return isinstance(test.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) and is_less is holds

    def are_seen_later(self, statements: list[ast.stmt]) -> bool:
        """Whether other code reads what some statements give variables, or change in place."""
        own, program = {n for s in statements for n in ast.walk(s)}, self.stored.program
        for place in self.effects.of(*statements).writes:
            reads = program.reads_of(place.scope, place.name) if place.scope is not None else []
            bound = [n for n in own if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == place.name]
            others = [r for r in reads if r not in own and (not bound or program.reaching(r, bound))]
            if place.scope is None or others:
                return True
        return False

    def asked(self, questions: list[ast.Call]) -> list[ast.expr]:
        """The paths that some calls look for."""
        looks = [c for question in questions for c in list(self._looks(question)) or [question]]
        return [p for c in looks for p in self.effects.of_call(c).paths_read]

    def _looks(self, call: ast.Call) -> Iterator[ast.Call]:
        program = self.stored.program
        inner = program.run_through([call])
        for each in [call, *(c for function in inner for c in program.calls_in(function))]:
            if any(row.has(Trait.LOOKS) or row.has(Trait.LISTS) for row in self.effects.kinds.called(each) or ()):
                yield each

    def _reads(self, statements: list[ast.stmt]) -> list[ast.Call]:
        """The calls in some statements that read files, and fail where there are none."""
        calls = [n for s in statements for n in ast.walk(s) if isinstance(n, ast.Call)]
        return [c for c in calls if self.effects.of_call(c).files_read]

    def _is_answered(self, question: ast.Call, statements: list[ast.stmt], goal: ast.Call) -> bool:
        """Whether some statements make what was asked for before they come to a call, and nothing waits before that."""
        asked = self.asked([question])
        calls = [n for s in statements for n in ast.walk(s) if isinstance(n, ast.Call)]
        program, is_before = self.stored.program, self.stored.is_before
        run = program.run_through(calls)
        meetings = [b for b in self.backwards if b in calls or program.frame(b) in run]
        made = [use for use in self.effects.of(*statements).files_written if self._may_be(asked, use)]
        made = [use for use in made if use.call is goal or is_before(use.call, goal)]
        return any(not any(is_before(b, use.call) for b in meetings) for use in made)

    def _may_be(self, asked: list[ast.expr], made: FileUse) -> bool:
        """Whether a file that is made may be one of those asked for."""
        texts, is_known = set(map(ast.unparse, asked)), bool(asked) and all(map(self.stored.names, asked))
        for path in made.paths:
            if ast.unparse(path) in texts or not (is_known and self.stored.names(path)):
                return True
            if any(self.stored.are_alike(path, each) for each in asked):
                return True
        return not made.paths
