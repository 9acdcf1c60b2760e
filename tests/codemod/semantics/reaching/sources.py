"""A text whose names, objects and events are found."""

from __future__ import annotations

import ast

from accelify.codemod.semantics.reaching.events import Collected, Collector
from accelify.codemod.semantics.reaching.variables import Names
from accelify.codemod.semantics.scopes import bindings
from tests.codemod.semantics.sources import Source


class Named(Source):
    """A source with the variables of its names."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.names = Names(self.flow, bindings("m", self.tree))

    def expression(self, text: str) -> ast.expr:
        node = self[text]
        assert isinstance(node, ast.expr)
        return node

    def collected(self) -> Collected:
        """All that happens in the file, where no call changes anything."""
        collector = Collector(self.flow, self.names)
        for scope in self.names.bindings.root.walk():
            if scope.kind in ("module", "function", "lambda"):
                collector.add_frame(scope.node)
        return collector.with_changes(lambda call: (), lambda call, changed: [], lambda changed: changed)
