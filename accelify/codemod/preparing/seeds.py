"""After which statement may the processes draw random numbers of their own, with all that starts equal built before?"""

from __future__ import annotations

import ast

from accelify.codemod.preparing.reach import Reach
from accelify.codemod.semantics.program import COMPREHENSIONS, LOOPS, Program
from accelify.codemod.training.loops import Training

_DEPTH = 4


class Seeds:
    """Find the place outside what builds several agents in turn, of which the later ones would start apart."""

    def __init__(self, program: Program, training: Training, reach: Reach) -> None:
        self.program = program
        self.reach = reach
        self.training = {loop for listed in training.loops.values() for loop in listed}

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
