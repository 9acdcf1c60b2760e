"""Does every process run this, and equally often?"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property

from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.visits.ways import Gate, Ways
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

    def of(self, node: ast.AST) -> bool:
        """Whether all that leads to a node is the same in every process: conditions, loops, calls."""
        return self.program.once(Ways).are_open(node, self._is_open, self._is_entered, _DEPTH)

    def _is_open(self, gate: Gate) -> bool:
        if gate.node in self._sharded:
            return False
        is_open = not isinstance(gate.node, ast.ExceptHandler) and all(self._is_common(c.test) for c in gate.choices)
        return is_open or self._trains_beside(gate.part)

    def _is_entered(self, node: ast.AST) -> bool | None:
        frame = self.program.frame(node)
        if frame.kind == "module":
            return True
        if frame.is_function and self.program.calls_of(frame) and frame not in self.program.flow.escaped:
            return None
        return frame.is_function and frame in self.training.frames  # whoever calls it, in every process: it trains

    def _trains_beside(self, node: ast.AST) -> bool:
        """Whether a block trains, too: then all processes run it, or none."""
        block = self.program.block(node) if isinstance(node, ast.stmt) else []
        return any(self.program.inside(n, statement) for n in self._training_calls for statement in block)

    @cached_property
    def _sharded(self) -> set[ast.AST | None]:
        return {d.loop for d in self.training.data if d.kind == "sequence"}

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
