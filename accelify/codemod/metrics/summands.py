"""Does a number grow with the rows of a batch, or is it one number for the batch, as a mean is?"""

from __future__ import annotations

import ast

from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.values import Made

_LOSSES = ("loss", "criterion", "entropy", "loss_fn", "loss_func", "loss_function", "loss_f", "mean")
_SAME = ("item", "double", "float", "int", "long", "cpu", "numpy", "detach", "tolist", "clone", "to")
_COUNTS = ("size", "shape", "numel")
_DEPTH = 4


class Summand:
    """What one batch gives to a sum that a loop makes."""

    def __init__(self, program: Program, loop: ast.For | ast.AsyncFor) -> None:
        self.program = program
        self.loop = loop

    def is_of_rows(self, value: ast.expr, depth: int = _DEPTH) -> bool | None:
        """Whether it is a sum over the batch's rows; False for a mean or a count of batches, None where unclear."""
        if isinstance(value, ast.Constant):
            return False
        if isinstance(value, ast.Name):
            return self._given(value.id, depth)
        if isinstance(value, ast.Subscript):
            return self.is_of_rows(value.value, depth)
        if isinstance(value, ast.Attribute):
            return True if value.attr in _COUNTS else self.is_of_rows(value.value, depth)
        if isinstance(value, ast.BinOp):
            return self._calculated(value, depth)
        return self._called(value, depth) if isinstance(value, ast.Call) else None

    def _given(self, name: str, depth: int) -> bool | None:
        """What a variable holds that the loop gives a value."""
        values = [
            node.value
            for node in ast.walk(self.loop)
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
        ]
        kinds = {self.is_of_rows(value, depth - 1) for value in values} if depth else set()
        return kinds.pop() if len(kinds) == 1 else None

    def _calculated(self, value: ast.BinOp, depth: int) -> bool | None:
        left, right = self.is_of_rows(value.left, depth), self.is_of_rows(value.right, depth)
        if isinstance(value.op, ast.Mult):
            return True if True in (left, right) else None if None in (left, right) else False
        if isinstance(value.op, ast.Div):
            return False if right else left
        return left if left == right else None

    def _called(self, call: ast.Call, depth: int) -> bool | None:
        name = ast.unparse(call.func).rpartition(".")[2]
        if name in ("sum", "len", *_COUNTS):
            return True
        if name in _SAME:
            inner = [call.func.value] if isinstance(call.func, ast.Attribute) else call.args
            return self.is_of_rows(inner[0], depth) if inner else None
        built = [v.node for v in self.program.values(call.func) if isinstance(v, Made) and isinstance(v.node, ast.Call)]
        told = {k.arg: k.value for c in [*built, call] for k in c.keywords if isinstance(k, ast.keyword)}
        reduction = told.get("reduction")
        if isinstance(reduction, ast.Constant):
            return {"sum": True, "mean": False}.get(str(reduction.value))
        average = told.get("size_average")
        if isinstance(average, ast.Constant):
            return not average.value
        if "size_average" in told or "reduce" in told or reduction is not None:
            return None
        return False if name.lower().endswith(_LOSSES) else None
