"""Are the metrics of a batch counted row by row, so that it does not matter how the rows are grouped into batches?"""

from __future__ import annotations

import ast

from accelify.codemod.metrics.summands import Summand
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.values import Made

_METHODS = frozenset(
    "item sum eq ne gt ge lt le argmax max view_as cpu numpy detach tolist float double int long bool byte type to "
    "size round sigmoid softmax log_softmax exp sqrt abs pow squeeze flatten view data".split()
)
_FUNCTIONS = frozenset("max argmax sum eq round sigmoid softmax log_softmax exp abs".split())
_NEEDS_A_DIMENSION = ("max", "argmax", "softmax", "log_softmax")
_UNEVEN_WEIGHTS = ("weight", "ignore_index", "reduce")


class Rowwise:
    """Tells it of the statements after the forward pass."""

    def __init__(self, program: Program, tracer: Tracer, loop: ast.For | ast.AsyncFor) -> None:
        self.program = program
        self.tracer = tracer
        self.summand = Summand(program, loop)

    def is_statement(self, statement: ast.stmt) -> bool:
        """Whether what a statement computes, adds or collects is of the rows alone."""
        if isinstance(statement, ast.AugAssign):
            if not isinstance(statement.op, ast.Add) or not isinstance(statement.target, ast.Name):
                return False
            return self.is_value(statement.value) and self.summand.is_of_rows(statement.value) is True
        if isinstance(statement, ast.Assign):
            targets = [t for each in statement.targets for t in (each.elts if isinstance(each, ast.Tuple) else [each])]
            return all(isinstance(t, ast.Name) for t in targets) and self.is_value(statement.value)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
            is_collected = isinstance(call.func, ast.Attribute) and call.func.attr == "extend"
            return is_collected and len(call.args) == 1 and self.is_value(call.args[0])
        return False

    def is_value(self, value: ast.expr) -> bool:
        """Whether an expression is computed row by row, or is a sum of what is."""
        if any(isinstance(n, (ast.Lambda, ast.Await, ast.NamedExpr, ast.Starred)) for n in ast.walk(value)):
            return False
        called = {n.func for n in ast.walk(value) if isinstance(n, ast.Call)}
        for node in ast.walk(value):
            if isinstance(node, ast.Attribute) and node not in called and not self._is_part(node):
                return False
            if isinstance(node, ast.Subscript) and not isinstance(node.value, (ast.Call, ast.Attribute)):
                return False
        return all(self.is_call(n) for n in ast.walk(value) if isinstance(n, ast.Call))

    def _is_part(self, node: ast.Attribute) -> bool:
        return node.attr in ("data", "shape") or bool(self.program.externals(node))

    def is_call(self, call: ast.Call) -> bool:
        """Whether a call is: a tensor's method, a function or a loss that takes each row alike."""
        names = self.program.called(call)
        if isinstance(call.func, ast.Name) and call.func.id in ("len", "int", "float", "list"):
            return True
        if any(n.startswith("torch.") for n in names):
            name = next(iter(names))
            last = name.rpartition(".")[2]
            if last in _FUNCTIONS:
                return last not in _NEEDS_A_DIMENSION or self._has_rows(call, call.args[1:])
            return "loss" in last or "entropy" in last if self._weighs_alike(call) else False
        made = [v for v in self.program.values(call.func) if isinstance(v, Made)]
        if made:
            return all(
                (v.name or "").startswith("torch.nn.")
                and (v.name or "").endswith("Loss")
                and isinstance(v.node, ast.Call)
                and not v.node.args
                and self._weighs_alike(v.node)
                for v in made
            )
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _METHODS:
            return False
        return call.func.attr not in _NEEDS_A_DIMENSION or self._has_rows(call, call.args)

    @staticmethod
    def _has_rows(call: ast.Call, arguments: list[ast.expr]) -> bool:
        """Whether a call takes a dimension other than that of the rows."""
        given = [*arguments[:1], *[k.value for k in call.keywords if k.arg in ("dim", "axis")]]
        return bool(given) and ast.unparse(given[0]) in ("1", "-1")

    @staticmethod
    def _weighs_alike(call: ast.Call) -> bool:
        """Whether a loss counts each row alike."""
        return not any(k.arg is None or k.arg in _UNEVEN_WEIGHTS for k in call.keywords)
