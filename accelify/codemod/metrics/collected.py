"""What does a loop put into its lists: numbers, or other things that processes can hand each other?"""

from __future__ import annotations

import ast

from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.training.harmless import Harmless

_NUMBERS = ("item", "tolist")
_ON_CPU = ("numpy", "cpu")
_LIBRARIES = ("numpy.", "sklearn.", "torch.")
_BATCH = ast.Constant(None)
_DEPTH = 4


class Collected:
    """Tells it of expressions in a loop; a starred one stands for its elements."""

    def __init__(self, program: Program, tracer: Tracer, harmless: Harmless, loop: ast.For | ast.AsyncFor) -> None:
        self.program = program
        self.tracer = tracer
        self.harmless = harmless
        self.loop = loop

    def is_number(self, value: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a value is a number, not a tensor of one."""
        if isinstance(value, ast.Starred):
            return isinstance(value.value, ast.Call) and _method(value.value) == "tolist"
        if isinstance(value, ast.Constant):
            return isinstance(value.value, (int, float))
        if isinstance(value, ast.BinOp):
            return self.is_number(value.left, depth) and self.is_number(value.right, depth)
        if isinstance(value, ast.Name):
            given = self._given(value.id)
            return bool(depth and given) and all(self.is_number(v, depth - 1) for v in given)
        if not isinstance(value, ast.Call):
            return False
        return _method(value) in _NUMBERS or ast.unparse(value.func) in ("float", "int", "len")

    def is_plain(self, value: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a value can be handed from process to process: numbers, arrays, tensors."""
        if isinstance(value, ast.Starred):
            return self.is_plain(value.value, depth)
        if self.is_number(value, depth) or isinstance(value, ast.Constant):
            return True
        if isinstance(value, (ast.Tuple, ast.List)):
            return all(self.is_plain(e, depth) for e in value.elts)
        if isinstance(value, ast.BinOp):
            return self.is_plain(value.left, depth) and self.is_plain(value.right, depth)
        if isinstance(value, ast.Name):
            given = self._given(value.id, in_parts=True)
            return bool(depth and given) and all(self.is_plain(v, depth - 1) for v in given)
        if isinstance(value, (ast.Subscript, ast.Attribute)):
            return self.is_plain(value.value, depth)
        return isinstance(value, ast.Call) and self._gives_what_is_plain(value, depth)

    def _gives_what_is_plain(self, call: ast.Call, depth: int) -> bool:
        """Whether a call does: one of a model, of a library for tensors and arrays, or a method of what is plain."""
        if _method(call) in _ON_CPU or any(n.startswith(_LIBRARIES) for n in self.program.called(call)):
            return True
        if self.harmless.is_of_module(call):
            return True
        return isinstance(call.func, ast.Attribute) and self.is_plain(call.func.value, depth)

    def _given(self, name: str, *, in_parts: bool = False) -> list[ast.expr]:
        """What is assigned to a variable in a loop, as a part of something too if asked; nothing where that is not all.

        A part of the batch stands for what a loader hands out, which came from another process often enough.
        """
        found: list[ast.expr] = []
        for node in ast.walk(self.loop):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                value = self.tracer.assigned(node)
                statement = self.program.statement(node)
                if value is None and in_parts and statement is self.loop:
                    value = _BATCH
                elif value is None and in_parts and isinstance(statement, ast.Assign):
                    value = statement.value
                if value is None:
                    return []
                if not isinstance(value, ast.Name) or value.id != name:
                    found.append(value)
        return found


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
