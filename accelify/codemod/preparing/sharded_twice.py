"""Is what a loop deals out made of a loader that is dealt out already?"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelify.codemod.preparing.grouping import Item
from accelify.codemod.semantics.provenance import Tracer


def dealt_twice(tracer: Tracer, sources: Sequence[ast.expr], items: Sequence[Item]) -> Iterator[tuple[ast.AST, str]]:
    """The loops over what a generator makes of a loader that is prepared for another loop."""
    loaders = [item for item in items if item.kind == "loader"]
    for source in sources:
        for binding in (b for chain in tracer.chains(source) for b in chain):
            statement = binding.statement if binding.kind != "parameter" else None
            if any((i.text, i.frame, i.statement) == (binding.text, binding.scope, statement) for i in loaders):
                text = binding.text
                yield source, f"`{text}` is dealt out by another loop: what is made of it would be dealt out twice"
