"""Which sums does a gradient go through: by a backward pass, or by `torch.autograd.grad`?

They must keep their graphs: what `reduce` gives is a number without one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property

from accelify.codemod.libraries import methods
from accelify.codemod.libraries.kinds import IMMUTABLE
from accelify.codemod.libraries.row import Trait
from accelify.codemod.metrics.rows.trims import rows_of
from accelify.codemod.metrics.updates import Addition, addition
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.scopes import method_of_call
from accelify.codemod.training.losses import differentiated, is_by_function, without_gradients
from accelify.codemod.training.origins import Origins
from accelify.codemod.training.roles import Roles

_WITHOUT_GRAPH = IMMUTABLE | {"ndarray"}


class Differentiated:
    """Follow what gradients are taken of back to what it was made of."""

    def __init__(self, chains: Chains) -> None:
        self.chains = chains
        self.program = chains.program

    def holds(self, additions: Iterable[Addition]) -> bool:
        """Whether some additions give a variable a graph that gradients are taken of."""
        return self._add_to(self._behind | self._behind_functions, additions)

    def is_added_at(self, node: ast.AST) -> bool:
        """Whether a definition adds what has such a graph, of which `torch.autograd.grad` takes the gradients."""
        found = addition(self.chains, node)
        return found is not None and self._add_to(self._behind_functions, [found])

    def _add_to(self, behind: set[ast.AST], additions: Iterable[Addition]) -> bool:
        return any(part in behind and self._has_graph(part) for a in additions for part in a.parts)

    @cached_property
    def _behind_functions(self) -> set[ast.AST]:
        """All that the gradients go through that `torch.autograd.grad` takes."""
        return self._followed(differentiated(self.program))

    @cached_property
    def _behind(self) -> set[ast.AST]:
        """All that the gradients of backward passes go through."""
        return self._followed(self._losses())

    def _followed(self, taken: Iterable[ast.expr]) -> set[ast.AST]:
        origins = Origins(self.program, self.program.once(Roles), self.chains.tracer)
        return set(origins.along_results(taken, self._has_graph))

    def _losses(self) -> Iterator[ast.expr]:
        for call in self.program.calls:
            if is_by_function(self.program, call):
                yield from call.args[:1]
                yield from (k.value for k in call.keywords if k.arg == "tensors")
            elif method_of_call(call) == "backward" and isinstance(call.func, ast.Attribute):
                yield call.func.value

    def _has_graph(self, node: ast.AST) -> bool:
        """Whether a gradient may go through an expression."""
        if not isinstance(node, ast.expr):
            return True
        if self.chains.kinds.of(node) <= _WITHOUT_GRAPH or without_gradients(self.program, node) is not None:
            return False
        if isinstance(node, ast.BinOp):
            return self._has_graph(node.left) or self._has_graph(node.right)
        if isinstance(node, ast.Call):
            ends = any(row.has(Trait.LEAVES_GRAPH) for row in rows_of(self.program, node))
            return not ends and not methods.ends_graph(method_of_call(node) or "")
        return not (isinstance(node, ast.Attribute) and methods.ends_graph(node.attr))
