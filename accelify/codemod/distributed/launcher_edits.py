"""What must change so that a script no longer starts its processes, nor asks whether there are several."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field


@dataclass
class Tangle:
    """What is decided.

    branches: conditions, and which of their branches takes their place: the number of `elif`s before it, and whether
    it is a body. removed: statements that go. choices: conditional expressions, and whether their body stays. tests:
    conditions, each with the code that takes its place and the parts of it that are still there. numbers: names that
    are given a rank, or the number of processes, anew after a statement. orders: samplers, and whether they shuffle.
    scaled: what depends on the number of processes. unsaid: what is said in branches that go. foreign: what is not
    understood. gone: all that goes.
    """

    branches: dict[ast.If, tuple[int, bool]] = field(default_factory=dict)
    removed: list[ast.stmt] = field(default_factory=list)
    choices: dict[ast.IfExp, bool] = field(default_factory=dict)
    tests: dict[ast.expr, tuple[str, tuple[ast.expr, ...]]] = field(default_factory=dict)
    numbers: list[tuple[ast.stmt, ast.expr, str]] = field(default_factory=list)
    orders: dict[ast.Call, bool] = field(default_factory=dict)
    scaled: list[ast.stmt] = field(default_factory=list)
    unsaid: list[ast.stmt] = field(default_factory=list)
    foreign: list[tuple[ast.AST, str]] = field(default_factory=list)
    gone: set[ast.AST] = field(default_factory=set)

    def refuse(self, node: ast.AST, reason: str) -> None:
        """Note something that is not understood."""
        self.foreign.append((node, reason))

    def goes(self, node: ast.AST) -> None:
        """Note that all of a node goes."""
        self.gone.update(ast.walk(node))

    def remove(self, statement: ast.stmt) -> None:
        """Note a statement that goes."""
        self.removed.append(statement)
        self.goes(statement)
