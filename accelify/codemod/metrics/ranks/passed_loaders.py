"""Which calls pass a function loaders that are whole on every rank, where others pass it prepared ones?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from accelify.codemod.files.nodes import walk
from accelify.codemod.metrics.ranks.labels import Labels, Mark, Origin
from accelify.codemod.metrics.ranks.shards import Shards
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.program import COMPREHENSIONS
from accelify.codemod.semantics.scopes import Scope

_OF_DATA = frozenset({Mark.BATCH, Mark.RUNNING, Mark.CHOSEN, Mark.ROWS, Mark.STEPS})


class PassedLoaders:
    """Tell apart the calls of a function that goes over a loader: `score(prepared)` and `score(other)`."""

    def __init__(self, chains: Chains, shards: Shards) -> None:
        self.chains = chains
        self.program = chains.program
        self.shards = shards
        self._names = cache(self._find_names)

    def without_shards(self, labels: Labels, call: ast.Call, callee: Scope) -> Labels:
        """The labels of a function's value, but for those that it has from prepared loaders, if a call passes none."""
        if not any(self._is_of(la, callee) for la in labels) or not self._passes_others(call, callee):
            return labels
        return frozenset(la for la in labels if not self._is_of(la, callee))

    def _is_of(self, label: object, callee: Scope) -> bool:
        """Whether the data that a function goes over itself make its value a rank's own."""
        is_of_data = isinstance(label, Origin) and label.mark in _OF_DATA
        return is_of_data and isinstance(label, Origin) and self.program.frame(label.node) is callee

    def _passes_others(self, call: ast.Call, callee: Scope) -> bool:
        """Whether a call passes loaders for all that a function goes over, and none of them is prepared."""
        names = self._names(callee)
        given = [self.chains.given(call, callee, name) if name is not None else None for name in names]
        return bool(given) and all(
            node is not None and self.chains.tracer.chains(node) and not self.shards.is_loader(node) for node in given
        )

    def _find_names(self, function: Scope) -> frozenset[str | None]:
        """The parameters that hold the sharded data that a function goes over itself; None for other data."""
        return frozenset(name for source in self._sources(function) for name in self._parameters(source, function))

    def _sources(self, function: Scope) -> Iterator[ast.expr | None]:
        """The loaders that may be prepared, in a function; None for data that are sharded there."""
        for node in (n for n in walk(function.node) if self.program.frame(n) is function):
            over = [node.iter] if isinstance(node, (ast.For, ast.AsyncFor)) else [self.program.iterator(node)]
            if isinstance(node, COMPREHENSIONS):
                over = [generator.iter for generator in node.generators]
            inner = (self.chains.tracer.inside(source) for source in over if source is not None)
            yield from (source for source in inner if self.shards.is_loader(source))
            if node in self.shards.loops or node in self.shards.rounds:
                yield from () if any(map(self.shards.is_loader, filter(None, over))) else (None,)

    def _parameters(self, source: ast.expr | None, function: Scope) -> Iterator[str | None]:
        chains = self.chains.tracer.chains(source) if source is not None else []
        for chain in chains:
            yield next((b.text for b in chain if b.kind == "parameter" and b.scope is function), None)
        if not chains:
            yield None
