"""A text and its control flow, whose statements and names are found by what they say."""

from __future__ import annotations

import ast
from textwrap import dedent

from accelify.codemod.semantics.control_flow import ControlFlow


class Source:
    """`source["x = f"]` is the first node that is spelled so or, if none is, starts so; `source["x#2"]` the second."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(dedent(text))
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self.flow = ControlFlow(self.tree, self.parents)

    def __getitem__(self, text: str) -> ast.AST:
        text, _, number = text.partition("#")
        nodes = [n for n in ast.walk(self.tree) if isinstance(n, (ast.stmt, ast.expr)) and not isinstance(n, ast.Expr)]
        found = [n for n in nodes if ast.unparse(n) == text] or [n for n in nodes if ast.unparse(n).startswith(text)]
        found.sort(key=lambda n: (n.lineno, n.col_offset, -(n.end_lineno or 0), -(n.end_col_offset or 0)))
        return found[int(number or 1) - 1]
