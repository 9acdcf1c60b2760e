"""The nodes of syntax trees, as they are asked for again and again."""

from __future__ import annotations

import ast
from functools import lru_cache

_KEPT = 2**13


@lru_cache(maxsize=_KEPT)
def walk(node: ast.AST) -> tuple[ast.AST, ...]:
    """A node and all nodes in it, in the order of `ast.walk`; for trees that nobody changes."""
    found = [node]
    for each in found:  # which grows
        for name in each._fields:
            value = getattr(each, name, None)
            if isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return tuple(found)
