"""After which statement may the processes draw random numbers of their own, with all that starts equal built before?

What the script seeds later, on the way to its training, would let all processes draw alike again.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import SEEDS, Effect
from accelify.codemod.preparing.reach import Reach
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.outcomes import compared, truth
from accelify.codemod.semantics.program import COMPREHENSIONS, LOOPS, Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.loops import Training

_DEPTH = 4
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SEEDS_ALL = SEEDS - {Effect.SEEDS_GIVEN}  # not a generator of the script's own


@dataclass(frozen=True, slots=True)
class Seeded:
    """A statement that seeds what every process draws from.

    is_drawn_from: whether the training data of a step are drawn before it is through, so that nothing after it helps.
    """

    statement: ast.stmt
    is_drawn_from: bool


class Seeds:
    """Find the place outside what builds several agents in turn, of which the later ones would start apart."""

    def __init__(self, program: Program, training: Training, reach: Reach) -> None:
        self.program = program
        self.reach = reach
        self.training = {loop for listed in training.loops.values() for loop in listed}
        self.steps = {loop for listed in training.loops.values() for loop in listed[:1]}
        self.backwards = training.backwards
        self.effects = program.once(Effects)

    @cached_property
    def is_by_rank(self) -> bool:
        """Whether the script seeds torch by the rank, so that no two processes draw alike."""
        given = [
            call.args[0]
            for call in self.program.calls
            if call.args and self.effects.of_call(call).effects & {Effect.SEEDS_TORCH}
            if self.program.frame(call) in self.program.reachable and not self.program.flow.callees.get(call)
        ]
        return bool(given) and all(map(self.differs, given))

    def differs(self, seed: ast.expr) -> bool:
        """Whether a seed is another number in each process."""
        conditions = self.program.once(Conditions)
        worlds = [next(iter(worlds_where(p, True, True))) for p in (Process.MAIN, Process.OTHER)]
        main, other = (conditions.outcome(seed, world) for world in worlds)
        return truth(compared(ast.Eq(), main, other)) is False

    def after(self, statement: ast.stmt, depth: int = _DEPTH) -> ast.stmt:
        """The statement itself, or the one that runs it for the last time."""
        frame = self.program.frame(statement)
        if not depth or frame.kind != "function":
            return statement
        calls = self.program.flow.callers.get(frame, set())
        round_them = [self._whole(call) for call in calls]
        if not calls or len({self.program.frame(c) for c in calls}) > 1:
            return statement
        last = self.program.last(round_them)
        if (
            any(self._trains_before(s, last) for s in round_them)
            or self.reach.expression(self.program.frame(last)) is None
        ):
            return statement
        outer = self.after(last, depth - 1)
        is_repeated = len(calls) > 1 or any(self._repeats(call, last) for call in calls)
        return outer if outer is not last or is_repeated else statement

    def _whole(self, call: ast.Call) -> ast.stmt:
        """The statement of a call with the loops round it that only build."""
        found = self.program.statement(call)
        for loop in self.program.loops_round(call):
            if loop in self.training:
                break
            found = loop
        return found

    def _repeats(self, call: ast.Call, whole: ast.stmt) -> bool:
        if isinstance(whole, LOOPS):
            return True
        return any(isinstance(a, COMPREHENSIONS) for a in self.program.ancestors(call) if self.program.inside(a, whole))

    def _trains_before(self, first: ast.stmt, last: ast.stmt) -> bool:
        """Whether something is trained after the one statement, and before the other is through."""
        if first is last:
            return False
        block = self.program.block(first)
        if last not in block:
            return True
        between = block[block.index(first) : block.index(last)]
        return any(node in self.training for s in between for node in ast.walk(s))

    # Later seeding.

    def again(self, statement: ast.stmt) -> Iterator[Seeded]:
        """The seeding on the way from a statement to the end of the training, except in the training loops."""
        later = list(self._later(statement, _DEPTH))
        trains = [self.trains(s) for s in later]
        last = max((at for at, does in enumerate(trains) if does), default=-1)
        for each in later[: last + 1]:
            yield from self._seeded(each, _DEPTH)

    def _later(self, statement: ast.stmt, depth: int) -> Iterator[ast.stmt]:
        """The statements after one, in its block, in those round it, and where its function is called."""
        node: ast.AST | None = statement
        while isinstance(node, ast.stmt) and not isinstance(node, _DEFINITIONS):
            block = self.program.block(node)
            yield from block[block.index(node) + 1 :]
            node = self.program.parent(node)
            node = self.program.parent(node) if isinstance(node, ast.ExceptHandler) else node
        frame = self.program.frame(statement)
        for call in self.program.flow.callers.get(frame, ()) if depth and frame.kind == "function" else ():
            yield from self._later(self.program.statement(call), depth - 1)

    def trains(self, node: ast.AST) -> bool:
        """Whether running a statement trains something."""
        if isinstance(node, _DEFINITIONS):
            return False
        frames = {self.program.frame(b) for b in self.backwards}
        return any(
            call in self.backwards or bool(self.program.run_from(self.program.flow.callees.get(call, ())) & frames)
            for call in ast.walk(node)
            if isinstance(call, ast.Call)
        )

    def _seeded(self, statement: ast.stmt, depth: int) -> Iterator[Seeded]:
        """The innermost statements inside one that seed, where training goes on between them."""
        if not self._seeds(statement) or isinstance(statement, _DEFINITIONS):
            return
        if not self.trains(statement):
            yield from self._seeding(statement)
            return
        inner = list(_inside(statement))
        for each in inner:
            yield from self._seeded(each, depth)
        for callee in self._run_by(statement, inner) if depth else ():
            for each in callee.body:
                yield from self._seeded(each, depth - 1)

    def _seeds(self, node: ast.AST) -> bool:
        return bool(self.effects.of(node).effects & _SEEDS_ALL)

    def _seeding(self, statement: ast.stmt) -> Iterator[Seeded]:
        """A statement that does not train; seeds that stand in a loop of the training themselves can be changed."""
        calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
        round_it = set(self.program.loops_round(statement))
        if round_it & self.training and any(names.is_seed(n) for c in calls for n in self.program.called(c)):
            return
        yield Seeded(statement, bool(round_it & self.steps) and self.effects.of(statement).draws)

    def _run_by(self, statement: ast.stmt, inner: Collection[ast.stmt]) -> Iterator[Scope]:
        """The functions that a statement itself calls, but for the statements inside it."""
        for call in (n for n in ast.walk(statement) if isinstance(n, ast.Call)):
            if not any(self.program.inside(call, s) for s in inner):
                yield from self.program.flow.callees.get(call, ())


def _inside(statement: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a statement's own blocks."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler):
            yield from child.body
