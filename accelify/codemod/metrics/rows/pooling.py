"""Which values are of all rows of a batch together: a mean, a count, the greatest, a number?

k = k + 0.1 * loss.item()      radius = np.quantile(distances, 0.9)      center = 0.9 * center + 0.1 * x.mean(0)

Processes with other rows have other ones, and one process with all rows would have the mean of theirs, or the like. Not
so of what has a row for each of the batch, as the hidden state of a recurrent network.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import Rows
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.definitions import Kind
from accelify.codemod.semantics.scopes import returned
from accelify.codemod.training.row_means import RowMeans

_DEPTH = 4  # functions that a value is followed into
_POOLED = (Rows.SUM, Rows.MEAN, Rows.EXTREME, Rows.COUNT)


class Pooling:
    """Follow a value to what it is computed from, in its function and in those that return it."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.program, self.chains = ranks.program, ranks.chains
        self.means = RowMeans(ranks.program)

    def sets_pooled(self, node: ast.AST) -> bool:
        """Whether a definition gives its variable, or puts into it, a value of all rows of a rank's own batch."""
        statement = self.program.statement(node)
        value = getattr(statement, "value", None)
        if isinstance(node, ast.Call):
            return any(self.is_pooled(n) for n in (*node.args, *(k.value for k in node.keywords)))
        assigned = None if isinstance(statement, ast.AugAssign) else self.program.assigned(node)[0]
        given = assigned if assigned is not None else value
        return isinstance(given, ast.expr) and self.is_pooled(given)

    def is_pooled(self, node: ast.expr) -> bool:
        """Whether a value is computed from one of all rows of a rank's own batch."""
        return any(self._pools(part) and self.ranks.is_own(part) for part in self._parts(node, _DEPTH, set()))

    def _parts(self, node: ast.AST, depth: int, seen: set[ast.AST]) -> Iterator[ast.expr]:
        """The expressions that a value is computed from; not what a model is given, whose results have rows."""
        if node in seen:
            return
        seen.add(node)
        inner = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.expr):
            yield node
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            inner += self._given_here(node)
        elif isinstance(node, ast.Call) and self.ranks.shards.is_alike(node.func):
            inner = []
        elif isinstance(node, ast.Call) and depth:
            inner += filter(None, returned([f for f in self.program.flow.callees.get(node, ()) if not f.is_method]))
            depth -= 1
        for each in inner:
            yield from self._parts(each, depth, seen)

    def _given_here(self, read: ast.Name | ast.Attribute) -> Iterator[ast.expr]:
        """What assignments of the same function give a variable."""
        for definition in self.chains.definitions(read):
            if definition.kind is Kind.ASSIGNMENT and self.program.frame(definition.node) is self.program.frame(read):
                value, _ = self.program.assigned(definition.node)
                yield from [value] if value is not None else []

    def _pools(self, node: ast.expr) -> bool:
        if self.chains.kinds.of(node) == {"number"}:
            return sizes.size(node) is None  # the places to draw, `randperm(x.size(0))`, are a row each
        if not isinstance(node, ast.Call):
            return False
        is_loss = any(map(names.gives_loss, self.program.called(node)))
        return not _is_of_each_row(node) if is_loss else self._reduces_rows(node)

    def _reduces_rows(self, call: ast.Call) -> bool:
        """`x.mean()`, `x.sum(0)`, `np.quantile(x, 0.9)`; not `x.sum(1)`, `torch.max(a, b)`."""
        rows, given = self.means.called(call)
        if not rows or any(row is None or row.rows not in _POOLED for row in rows):
            return False
        if any(self.chains.kinds.of(other) & {"tensor", "ndarray"} for other in given[1:]):
            return False
        along = [*given[1:2], *(k.value for k in call.keywords if k.arg in ("dim", "axis"))]
        numbers = [n for a in along for n in (a.elts if isinstance(a, (ast.Tuple, ast.List)) else [a])]
        dims = [n.value if isinstance(n, ast.Constant) else None for n in numbers if not isinstance(n, ast.BinOp)]
        return not any(isinstance(n, ast.UnaryOp) for n in numbers) and (
            0 in dims or not any(isinstance(d, int) for d in dims)
        )


def _is_of_each_row(loss: ast.Call) -> bool:
    """`cross_entropy(x, y, reduction="none")`"""
    said = (k.value for k in loss.keywords if k.arg == "reduction")
    return any(isinstance(v, ast.Constant) and v.value == "none" for v in said)
