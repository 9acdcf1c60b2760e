"""Which commands that only touch files may one process run for all, and which are run for what they print?

`os.system("rm -rf runs")`: those to which all processes come equally often, so that the others can wait behind them,
not where a process first asks for files that such a command makes. `check_output(["git", "rev-parse", "HEAD"])`: those
whose output is read.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import Trait
from accelify.codemod.libraries.vocabulary import only_looks
from accelify.codemod.metrics.decisions import FileQuestions
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.semantics.effects.library_calls import command
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

    def is_run_for_its_output(self, call: ast.Call) -> bool:
        """Whether a command is asked something and changes nothing: what it prints is read, or it only looks."""
        if only_looks(command(call)):
            return True
        if any(map(names.reads_command, self.program.called(call))):
            return self._is_used(call)
        return any(k.arg in ("capture_output", "stdout") for k in call.keywords) and self._is_output_read(call)

    def _is_output_read(self, node: ast.expr) -> bool:
        """Whether something may read what a program has printed, given what has started it; its end is none."""
        parent = self.program.parent(node)
        if isinstance(parent, ast.Attribute) and parent.attr == "communicate":
            asked = self.program.parent(parent)
            return not isinstance(asked, ast.Call) or self._is_used(asked)
        if isinstance(parent, ast.Attribute):
            return parent.attr == "stdout"
        reads = self._reads(node)
        return reads is None or any(map(self._is_output_read, reads))

    def _is_used(self, output: ast.expr) -> bool:
        """Whether anything reads an output, alone or in a tuple with the errors: `output, _ = child.communicate()`."""
        reads = self._reads(output)
        return reads is None or bool(reads)

    def _reads(self, node: ast.expr) -> list[ast.Name] | None:
        """Where the variable is read that is given a value, or its first item; None if it goes elsewhere."""
        parent = self.program.parent(node)
        if isinstance(parent, ast.Expr):
            return []
        target = parent.optional_vars if isinstance(parent, ast.withitem) else None
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            target = parent.targets[0]
        if isinstance(target, ast.Tuple):
            target = target.elts[0]
        owner = self.program.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
        if not isinstance(target, ast.Name) or owner is None:
            return None
        reads = self.program.reads_of(owner, target.id)
        return [r for r in reads if self._may_hold(r, target, owner.writes.get(target.id, ()))]

    def _may_hold(self, read: ast.Name, target: ast.Name, writes: Collection[ast.AST]) -> bool:
        """Whether what is read may be what one of several assignments gives."""
        is_elsewhere = self.program.frame(read) is not self.program.frame(target)
        return is_elsewhere or target in self.program.reaching(read, writes)
