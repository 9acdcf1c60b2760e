"""Which rows does each round take in their turn, and what draws their order?

    batch = rays[at : at + 1024]    # in another order only if `rays` is drawn anew

All processes come to the same rows at the same time, unless each has drawn an order of its own by then.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Kind
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.training.loops.bodies import Loop
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.losses import losses_of
from accelify.codemod.training.origins import Origins
from accelify.codemod.training.randomness.draws import draws
from accelify.codemod.training.randomness.kept_draws import Rounds
from accelify.codemod.training.roles import Roles


@dataclass(frozen=True, slots=True)
class InTurn:
    """Rows that a round takes.

    before: what draws their order, or the rows, before the loops. at_times: what does so in some rounds.
    """

    rows: ast.Subscript
    before: tuple[ast.Call, ...]
    at_times: tuple[ast.Call, ...]


class RowsInTurn:
    """Follow the losses of loops that draw back to the rows that they learn from."""

    def __init__(self, program: Program, training: Training) -> None:
        self.program = program
        self.training = training
        self.chains = program.once(Chains)
        self.origins = Origins(program, program.once(Roles), program.once(Tracer))

    def find(self) -> list[InTurn]:
        """Slices whose ends move from round to round, but for those of what every round draws."""
        drawn = {d.loop for d in self.training.data if d.kind == "random"}
        nests = ((b, loops) for b, loops in self.training.loops.items() if drawn & {*loops})
        found = {each.rows: each for b, loops in nests for each in self._of_round(b, loops)}
        return sorted(found.values(), key=lambda each: self.program.position(each.rows))

    def _of_round(self, backward: ast.Call, loops: Sequence[Loop]) -> Iterator[InTurn]:
        rounds = Rounds(self.program, loops)
        for node in self.origins.along(losses_of(self.program, backward), self._is_given):
            if not isinstance(node, ast.Subscript) or not rounds.hold(node) or not self._moves(node, rounds):
                continue
            made = self.origins.along_results([node], self._is_given)
            drawing = dict.fromkeys(c for n in made for c in self._drawing(n))
            inside = [c for c in drawing if rounds.hold(c)]
            if all(self._is_at_times(c, rounds) for c in inside):
                yield InTurn(node, tuple(c for c in drawing if c not in inside), tuple(inside))

    def _moves(self, node: ast.Subscript, rounds: Rounds) -> bool:
        """`rows[at : at + size]`, where the rounds change `at`."""
        first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
        ends = (first.lower, first.upper) if isinstance(first, ast.Slice) else (None,)
        return all(end is not None and self._is_of_round(end, rounds) for end in ends)

    def _is_of_round(self, end: ast.expr, rounds: Rounds) -> bool:
        names = (n for n in ast.walk(end) if isinstance(n, ast.Name))
        return any(rounds.hold(d.node) for n in names for d in self.chains.definitions(n))

    def _is_given(self, node: ast.AST) -> bool:
        return not isinstance(node, ast.Call) or not draws(self.program, node)

    def _drawing(self, node: ast.AST) -> Iterator[ast.Call]:
        """A call that draws a value itself, or into it: `np.random.shuffle(rows)`."""
        if isinstance(node, ast.Name):
            changes = (d.node for d in self.chains.definitions(node) if d.kind is Kind.IN_PLACE)
            yield from (c for c in changes if isinstance(c, ast.Call) and draws(self.program, c))
        elif isinstance(node, ast.Call) and draws(self.program, node):
            yield node

    def _is_at_times(self, call: ast.Call, rounds: Rounds) -> bool:
        """Whether some rounds leave a call out."""
        return any(isinstance(a, ast.If) and rounds.hold(a) for a in self.program.ancestors(call))
