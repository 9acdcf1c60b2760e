"""Which commands that only touch files may one process run for all? `os.system("rm -rf runs")`.

Those to which all processes come equally often, so that the others can wait behind them: not where a process first asks
for files that such a command makes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import Trait
from accelify.codemod.metrics.decisions import FileQuestions
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.training.certainty import asks_for_one

_DEPTH = 3


class Commands:
    """Look at the commands of a program."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.program = ranks.program
        self._questions = FileQuestions(ranks.chains, (Trait.LOOKS, Trait.LISTS))

    def left_out(self) -> Iterator[ast.stmt]:
        """The statements with commands for which the processes cannot wait together."""
        for call in self.program.calls:
            if self.touches_files(call) and not self._is_for_all(call, _DEPTH):
                yield self.program.statement(call)

    def touches_files(self, call: ast.Call) -> bool:
        """Whether a call runs a command of which no more is known than that it makes, moves or removes files."""
        is_command = any(map(names.runs_command, self.program.called(call)))
        return is_command and self.ranks.chains.effects.of_call(call).writes_files

    def _is_for_all(self, node: ast.AST, depth: int) -> bool:
        """Whether all processes come to a node equally often, wherever its function is called."""
        frame = self.program.frame(node)
        around = [a for a in self.program.ancestors(node) if self.program.frame(a) is frame]
        asked = [a.test for a in around if isinstance(a, (ast.If, ast.IfExp, ast.While))]
        asked += [a.iter for a in around if isinstance(a, (ast.For, ast.AsyncFor))]
        is_apart = any(asks_for_one(a) or self._questions.are_in(a) or self.ranks.is_own(a) for a in asked)
        if is_apart or any(isinstance(a, (ast.ExceptHandler, ast.Lambda, ast.comprehension)) for a in around):
            return False
        callers = self.program.calls_of(frame) if frame.kind == "function" else []
        return not callers or (depth > 0 and all(self._is_for_all(c, depth - 1) for c in callers))
