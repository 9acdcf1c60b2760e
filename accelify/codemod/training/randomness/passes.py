"""Which training loops ask, batch by batch, for one pass over all data, in an order that was drawn before?

Drawn anew in each step, data may be each process's own. One pass is not: every process would iterate over all of it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence

from accelify.codemod.libraries.row import Rows
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.scopes import Scope, names_in
from accelify.codemod.semantics.values import Generated, Value
from accelify.codemod.training.randomness.draws import draws


class Passes:
    """Find them; `stack` gives the loops round a place, from the inside out, `owners` what an iterator goes over."""

    def __init__(
        self,
        program: Program,
        stack: Callable[[ast.AST], Sequence[ast.AST]],
        owners: Callable[[ast.expr], Collection[Value]],
    ) -> None:
        self.program = program
        self.stack = stack
        self.owners = owners

    def asked(self, loops: Sequence[ast.AST]) -> ast.expr | None:
        """The source of the batches of one pass in the innermost of some loops; None where it takes them otherwise."""
        for source, generator in self.generators(loops):
            if not any(map(self._is_endless, ast.walk(generator.node))) and self._goes_over_an_order(generator):
                return source
        return self._sliced(loops)

    def generators(self, loops: Sequence[ast.AST]) -> Iterator[tuple[ast.expr, Scope]]:
        """The generators of the project's own that some loops ask by `next`, each with the name it has there."""
        for call in filter(self.program.iterator, self.program.calls):
            source = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else call
            made = [o for o in self.owners(source) if isinstance(o, Generated)]
            if made and any(loop in loops for loop in self.stack(call)):
                yield from ((source, o.scope) for o in made)

    def _goes_over_an_order(self, generator: Scope) -> bool:
        """Whether what a generator yields goes by an order that it draws before its loops, or round them."""
        loops = [n for n in ast.walk(generator.node) if isinstance(n, LOOPS) and _yields(n)]
        calls = [c for c in self.program.calls_in(generator) if self._shuffles(c)]
        return any(self._goes_by(loop, call) for loop in loops for call in calls if not self.program.inside(call, loop))

    def _sliced(self, loops: Sequence[ast.AST]) -> ast.expr | None:
        """The data that a `while` loop takes slices of, in an order drawn in each round of a loop round it."""
        inner = loops[0] if loops else None
        if not isinstance(inner, ast.While):
            return None
        frame = self.program.frame(inner)
        for call in self.program.calls_in(frame):
            around = self.program.loops_round(call)
            if inner not in around and any(loop in loops for loop in around) and self._shuffles(call):
                read = self._goes_by(inner, call)
                if read is not None:
                    return read
        return None

    def _goes_by(self, loop: ast.AST, call: ast.Call) -> ast.expr | None:
        """Where a loop reads the order that a call draws, other than to draw from it."""
        assert isinstance(loop, LOOPS)
        ordered = self._ordered(call, loop)
        for node in ast.walk(loop):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in ordered:
                parents = list(self.program.ancestors(node))
                is_asked = isinstance(parents[0], (ast.Subscript, *LOOPS))
                if is_asked and not any(isinstance(a, ast.Call) and draws(self.program, a) for a in parents):
                    return node
        return None

    def _ordered(self, call: ast.Call, loop: ast.AST) -> set[str]:
        """The names of what a call shuffles or gives, and of what is made of it before a loop."""
        found = {a.id for a in call.args if isinstance(a, ast.Name)}
        statement = self.program.statement(call)
        if isinstance(statement, ast.Assign):
            found = {n for t in statement.targets for n in names_in(t)}
        frame = self.program.frame(loop)
        for node in ast.walk(frame.node):
            if isinstance(node, ast.Assign) and names_in(node.value) & found and not self.program.inside(node, loop):
                found |= {n for t in node.targets for n in names_in(t)}
        return found

    def _shuffles(self, call: ast.Call) -> bool:
        """Whether a call draws an order of what it is given, itself or in a function of the project's own."""
        kinds = self.program.once(Effects).kinds
        if any(row.rows is Rows.SHUFFLES for row in kinds.called(call) or ()):
            return True
        run = self.program.run_through([call])
        return any(
            row.rows is Rows.SHUFFLES for f in run for c in self.program.calls_in(f) for row in kinds.called(c) or ()
        )

    @staticmethod
    def _is_endless(node: ast.AST) -> bool:
        """`while True:` round what is yielded."""
        is_endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        return is_endless and _yields(node) and not any(isinstance(n, ast.Break) for n in ast.walk(node))


def _yields(node: ast.AST) -> bool:
    return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(node))
