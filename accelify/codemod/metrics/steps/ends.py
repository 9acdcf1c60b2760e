"""What awaits the last round of all, which no process comes to? `i == len(batches) - 1`"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries.row import SHOWN
from accelify.codemod.metrics.facts import Loop, Metrics
from accelify.codemod.metrics.steps.lengths import given_values
from accelify.codemod.metrics.updates import assigned_to
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.scopes import names_in
from accelify.codemod.training.item_numbers import ItemNumbers


@dataclass(frozen=True, slots=True)
class End:
    """The number of a round, with the number of all rounds that it is measured by.

    is_bar: whether a function of the project's own gets both, and only shows how far the loop is.
    """

    number: ast.expr
    length: ast.expr
    is_bar: bool = False


class Ends:
    """Find what awaits the last round of all in a loop of which each process takes its own: `i == len(batches) - 1`."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.program = metrics.measured.program
        self.chains = metrics.measured.chains

    def find(self) -> Iterator[End]:
        """One such measure for each loop."""
        whole: list[Loop] = [d.loop for d in self.metrics.sharded if d.phase is None]
        whole += [n for n in self.metrics.shared_loops if self.metrics.measured.prepared.is_sharded_sequence(n)]
        for loop in whole:
            nodes = (n for s in loop.body for n in walk(s))
            own = dict(self._own(loop))
            ends = (end for n in nodes if n not in own and (end := self._measured(n, loop)) is not None)
            yield from itertools.islice(ends, 1)

    def _own(self, loop: Loop) -> Iterator[tuple[ast.Compare, ast.expr]]:
        """The comparisons that are made with the number of the process's own rounds instead."""
        measured, source = self.metrics.measured, self.metrics.measured.shard_of(loop)
        if source is not None:
            numbers = ItemNumbers(self.program, measured.roles, measured.tracer, measured.training)
            yield from numbers.own_ends(loop, source)

    def _measured(self, node: ast.AST, loop: Loop) -> End | None:
        if not isinstance(node, ast.expr) or self._is_shown(node):
            return None
        sides = self._sides(node)
        source, counters = ast.unparse(self.metrics.measured.tracer.inside(loop.iter)), _counters_of(loop)
        lengths = [side for side in sides if self._is_length(side, source)]
        numbers = [side for side in sides if side not in lengths and names_in(side) & counters]
        return End(numbers[0], lengths[0], self._draws_bar(node)) if numbers and lengths else None

    def _draws_bar(self, node: ast.expr) -> bool:
        """Whether an expression is a statement of its own, which shows something, and may change what it shows next."""
        if not isinstance(node, ast.Call) or not isinstance(self.program.parent(node), ast.Expr):
            return False
        run = self.chains.effects.of_call(node)
        return run.shows and not (run.files_written or run.unknown or run.draws or run.waits)

    def _sides(self, node: ast.expr) -> list[ast.expr]:
        """The operands of a comparison or division, or the arguments of the project's own function or object."""
        if isinstance(node, ast.Compare):
            return [node.left, *node.comparators]
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv)):
            return [node.left, node.right]
        if not isinstance(node, ast.Call) or not self.program.flow.callees.get(node):
            return []
        owner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        made = [assigned_to(self.program, d.node) for d in self.chains.definitions(owner)]
        calls = [node, *(value for value in made if isinstance(value, ast.Call))]
        return [g for call in calls for g in (*call.args, *(k.value for k in call.keywords))]

    def _is_length(self, node: ast.expr, source: str) -> bool:
        named = [value for n in walk(node) if isinstance(n, ast.Name) for value in given_values(self.metrics, n)]
        return any(ast.unparse(of) == source for whole in (node, *named) for of in sizes.measured_in(whole))

    def _is_shown(self, node: ast.expr) -> bool:
        calls = [a for a in self.program.ancestors(node) if isinstance(a, ast.Call)]
        return any(row.effects & SHOWN for call in calls for row in self.chains.kinds.called(call) or ())


def _counters_of(loop: Loop) -> set[str]:
    """The variables that number the rounds of a loop: the first of `enumerate`, and those that grow by a constant."""
    numbered = loop.target.elts[:1] if isinstance(loop.target, ast.Tuple) and isinstance(loop.iter, ast.Call) else []
    grown = (n for n in walk(loop) if isinstance(n, ast.AugAssign) and isinstance(n.value, ast.Constant))
    return {n.id for n in (*numbered, *(g.target for g in grown)) if isinstance(n, ast.Name)}
