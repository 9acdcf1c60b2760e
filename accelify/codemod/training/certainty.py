"""Does every process run this, and equally often?"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property

from accelify.codemod.semantics.program import Program
from accelify.codemod.training.loops.training import Training

_OF_ONE = ("rank", "main_process", "is_main", "master", "primary")
_DEPTH = 4


class Certainty:
    """Tells what does not depend on anything that one process alone has seen."""

    def __init__(self, program: Program, training: Training, is_alike: Callable[[ast.expr], bool]) -> None:
        """`is_alike`: whether a condition has the same answer in every process."""
        self.program = program
        self.training = training
        self.is_alike = is_alike

    def of(self, node: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether all that leads to a node is the same in every process: conditions, loops, calls."""
        sharded = {d.loop for d in self.training.data if d.kind == "sequence"}
        frame = self.program.frame(node)
        child: ast.AST = node
        for ancestor in self.program.ancestors(node):
            if ancestor is frame.node:
                break
            if ancestor in sharded or isinstance(ancestor, ast.Lambda):
                return False
            is_open = isinstance(ancestor, ast.ExceptHandler) or not all(
                map(self._is_common, conditions_of(ancestor, child))
            )
            if is_open and not self._trains_beside(child):
                return False
            child = ancestor
        if frame.kind == "module":
            return True
        calls = self.program.calls_of(frame)
        is_known = bool(calls) and frame not in self.program.flow.escaped
        if not is_known and frame in self.training.frames and frame.is_function:
            return True  # whoever calls it, in every process: it trains
        if not frame.is_function or not depth or not is_known:
            return False
        return all(self.of(call, depth - 1) for call in calls)

    def _trains_beside(self, node: ast.AST) -> bool:
        """Whether a block trains, too: then all processes run it, or none."""
        block = self.program.block(node) if isinstance(node, ast.stmt) else []
        return any(self.program.inside(n, statement) for n in self._training_calls for statement in block)

    @cached_property
    def _training_calls(self) -> list[ast.AST]:
        """The backward passes, and the calls of what leads to them."""
        callers = (c for frame in self.training.frames for c in self.program.calls_of(frame))
        return [*self.training.backwards, *callers]

    def _is_common(self, test: ast.expr) -> bool:
        """Whether a condition is decided from what all processes have alike."""
        return not asks_for_one(test) and self.is_alike(test)


def asks_for_one(test: ast.expr) -> bool:
    """Whether a condition sounds as if it picked one of the processes."""
    return any(word in ast.unparse(test).lower() for word in _OF_ONE)


def conditions_of(node: ast.AST, child: ast.AST) -> list[ast.expr]:
    """The conditions on which what a node holds is run."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        return [node.test]
    if isinstance(node, ast.BoolOp):
        return node.values[: node.values.index(child)] if isinstance(child, ast.expr) else node.values
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        return [test for generator in node.generators for test in generator.ifs]
    return []
