"""Which lists get one number from each batch of a loop over shared data, and are read for their mean after it?"""

from __future__ import annotations

import ast

from accelify.codemod.metrics.collected import Collected
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.training.harmless import Harmless

Loop = ast.For | ast.AsyncFor
_MEANS = {"len", "max", "min", "statistics.mean", "statistics.median"} | {
    f"numpy.{name}" for name in ("mean", "average", "nanmean", "median", "std", "max", "min")
}
_SUMS = {"sum", "numpy.sum"}
_ARRAYS = {"numpy.array", "numpy.asarray", "torch.tensor", "torch.Tensor", "torch.FloatTensor"}
_OF_ARRAYS = ("mean", "std", "median", "max", "min")


class Lists:
    """Find lists that can be put together after their loop: a number for each batch, in the order of one process."""

    def __init__(self, program: Program, tracer: Tracer, prepared: Prepared, harmless: Harmless) -> None:
        self.program = program
        self.tracer = tracer
        self.prepared = prepared
        self.harmless = harmless

    def of(self, loop: Loop, before: list[ast.stmt]) -> tuple[str, ...]:
        """The lists of a loop; `before` are the statements that are run once before it."""
        if loop not in self.prepared.loops or isinstance(self.tracer.inside(loop.iter), ast.Call) or self._ends(loop):
            return ()
        found: dict[str, ast.Call] = {}
        for statement in _plain(loop.body):
            call = statement.value if isinstance(statement, ast.Expr) else None
            function = call.func if isinstance(call, ast.Call) else None
            if isinstance(function, ast.Attribute) and function.attr == "append":
                assert isinstance(call, ast.Call)
                if isinstance(function.value, ast.Name) and len(call.args) == 1:
                    found[function.value.id] = call
        return tuple(name for name, call in found.items() if self._is_put_together(name, call, loop, before))

    def _ends(self, loop: Loop) -> bool:
        """Whether a round may be the last, or may end early."""
        for node in ast.walk(loop):
            if isinstance(node, (ast.Return, ast.Raise)):
                return True
            if isinstance(node, (ast.Break, ast.Continue)) and self.program.loops_round(node)[0] is loop:
                return True
        return False

    def _is_put_together(self, name: str, call: ast.Call, loop: Loop, before: list[ast.stmt]) -> bool:
        frame = self.program.frame(loop)
        writes, reads = self.tracer.writes(frame, name), self.program.reads_of(frame, name)
        above = [w for w in writes if self.program.line(w) < loop.lineno]
        begins = max(above, key=self.program.line, default=None)
        if not isinstance(begins, ast.Name) or self.program.statement(begins) not in before:
            return False
        value = self.tracer.assigned(begins)
        if not isinstance(value, ast.List) or value.elts or any(self.program.inside(w, loop) for w in writes):
            return False
        if any(self.program.frame(r) is not frame for r in reads):
            return False
        inside = [r for r in reads if self.program.inside(r, loop) and not self.program.inside(r, call)]
        outside = [r for r in reads if not self.program.inside(r, loop)]
        is_number = Collected(self.program, self.tracer, self.harmless, loop).is_number(call.args[0])
        return (
            is_number and bool(outside) and all(map(self._is_meant, outside)) and all(self._is_shown(r) for r in inside)
        )

    def _is_meant(self, read: ast.Name) -> bool:
        """Whether a list is read for what it says of all batches alike: `np.mean(losses)`."""
        call = self.program.parent(read)
        if not isinstance(call, ast.Call) or call.args[:1] != [read]:
            return False
        called, taken = self.program.called(call), self.program.parent(call)
        if called & _MEANS:
            return True
        if called & _SUMS:
            if not isinstance(taken, ast.BinOp) or not isinstance(taken.op, ast.Div) or taken.left is not call:
                return False
            return ast.unparse(taken.right) == f"len({read.id})"
        return bool(called & _ARRAYS) and isinstance(taken, ast.Attribute) and taken.attr in _OF_ARRAYS

    def _is_shown(self, read: ast.Name) -> bool:
        statement = self.program.statement(read)
        call = statement.value if isinstance(statement, ast.Expr) else None
        return isinstance(call, ast.Call) and self.harmless.shows(call)


def _plain(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements that each round runs."""
    found: list[ast.stmt] = []
    for statement in body:
        found.extend(_plain(statement.body) if isinstance(statement, ast.With) else [statement])
    return found
