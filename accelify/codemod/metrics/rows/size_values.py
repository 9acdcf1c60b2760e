"""Which values have nothing of a batch but its sizes: a place in a queue, a table that fits a shape?

self.place = (self.place + len(keys)) % 1024      self.shape = x.shape      self.grid = torch.arange(x.shape[1])

Each round has them again, whatever the rows are. A running mean of sizes is none: it goes on from batch to batch.
"""

from __future__ import annotations

import ast

from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.definitions import Definition, Kind

_DEPTH = 4  # functions that a value is followed out of
_DRAWS = frozenset({Mark.DRAW, Mark.PICKED})


class SizeValues:
    """Follow a value to what it is computed from."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks, self.chains, self.program = ranks, ranks.chains, ranks.program

    def is_set(self, target: ast.AST, value: ast.expr | None) -> bool:
        """Whether a target is given such a value; one of its last value only where that begins again at some size."""
        return value is not None and self._is_of_sizes(value, ast.unparse(target), _DEPTH, frozenset())

    def _is_of_sizes(self, node: ast.expr, state: str, depth: int, seen: frozenset[ast.AST]) -> bool:
        if sizes.size(node) is not None or sizes.shaped(node) is not None or node in seen:
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return self._is_of_sizes(node.left, "", depth, seen | {node}) and self._is_of_sizes(
                node.right, state, depth, seen | {node}
            )
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._is_read_of_sizes(node, state, depth, seen | {node})
        if isinstance(node, ast.Call) and any(o.mark in _DRAWS and o.differs for o in self.ranks.of(node).origins):
            return False
        parts = [n.value if isinstance(n, ast.keyword) else n for n in ast.iter_child_nodes(node)]
        return all(self._is_of_sizes(n, state, depth, seen | {node}) for n in parts if isinstance(n, ast.expr))

    def _is_read_of_sizes(
        self, read: ast.Name | ast.Attribute, state: str, depth: int, seen: frozenset[ast.AST]
    ) -> bool:
        if ast.unparse(read) == state:
            return False
        if not self.ranks.is_own(read):
            return True
        found = self.chains.definitions(read)
        return bool(found) and all(self._is_given_sizes(d, state, depth, seen) for d in found)

    def _is_given_sizes(self, definition: Definition, state: str, depth: int, seen: frozenset[ast.AST]) -> bool:
        """Whether a definition, or each call where it is a parameter, gives a variable such a value."""
        scope, name = definition.variable.scope, definition.variable.name
        if definition.kind is Kind.PARAMETER and scope is not None and depth:
            given = [self.chains.given(call, scope, name) for call in self.program.calls_of(scope)]
            return bool(given) and all(g is not None and self._is_of_sizes(g, state, depth - 1, seen) for g in given)
        value = self.program.assigned(definition.node)[0] if definition.kind is Kind.ASSIGNMENT else None
        return value is not None and self._is_of_sizes(value, state, depth, seen)
