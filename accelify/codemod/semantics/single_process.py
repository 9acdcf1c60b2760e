"""What does a script do in one process, and what only in one of several?"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence

from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer

UNKNOWN = object()
COMPARISONS: dict[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,  # type: ignore[dict-item]  # what cannot be compared says so
    ast.LtE: operator.le,  # type: ignore[dict-item]
    ast.Gt: operator.gt,  # type: ignore[dict-item]
    ast.GtE: operator.ge,  # type: ignore[dict-item]
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,  # type: ignore[operator]
    ast.NotIn: lambda a, b: a not in b,  # type: ignore[operator]
}
_ANSWERS: dict[str, object] = {
    "torch.distributed.is_available": True,
    "torch.distributed.is_initialized": False,
    "torch.distributed.get_rank": 0,
    "torch.distributed.get_node_local_rank": 0,
    "torch.distributed.get_world_size": 1,
}
_DEPTH = 5


class Alone:
    """Work out conditions as they are in one process, in which no process group has been started."""

    def __init__(self, program: Program, tracer: Tracer, answers: Mapping[str, object] = _ANSWERS) -> None:
        self.program = program
        self.tracer = tracer
        self._answers = answers

    def skips(self, node: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether a node is not reached in one process."""
        child = node
        for ancestor in self.program.ancestors(node):
            if isinstance(ancestor, (ast.If, ast.IfExp)) and child is not ancestor.test:
                value = self._answer(ancestor.test)
                in_body = child is ancestor.body or (isinstance(ancestor.body, list) and child in ancestor.body)
                if value is not UNKNOWN and bool(value) != in_body:
                    return True
            if any(self._ends_before(block, child) for block in _blocks(ancestor)):
                return True
            if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                break
            child = ancestor
        callers = self.program.flow.callers.get(self.program.frame(node), set())
        return bool(depth and callers) and all(self.skips(c, depth - 1) for c in callers)

    def _ends_before(self, block: Sequence[ast.stmt], child: ast.AST) -> bool:
        """Whether a block is left before one of its statements: `if world_size == 1: return x`."""
        before = block[: block.index(child)] if child in block else []
        for statement in before:
            if isinstance(statement, ast.If) and isinstance(statement.body[-1], (ast.Return, ast.Raise, ast.Continue)):
                value = self._answer(statement.test)
                if value is not UNKNOWN and value:
                    return True
        return False

    def _answer(self, test: ast.expr) -> object:
        """What a condition that asks for the process group gives; UNKNOWN for a mere switch, which may be turned on."""
        is_switch = Alone(self.program, self.tracer, {}).value(test) is not UNKNOWN
        return UNKNOWN if is_switch else self.value(test)

    def value(self, node: ast.expr | None, depth: int = _DEPTH) -> object:
        """What an expression gives; UNKNOWN where that cannot be told."""
        if not depth:
            return UNKNOWN
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.value(node.operand, depth)
            return inner if inner is UNKNOWN else not inner
        if isinstance(node, ast.BoolOp):
            return self._joint(node, depth)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._compared(node, depth)
        if isinstance(node, ast.Call):
            return self._called(node, depth)
        if isinstance(node, (ast.Name, ast.Attribute)):
            values = {c[-1].value for c in self.tracer.chains(node)}
            return self.value(values.pop(), depth - 1) if len(values) == 1 else UNKNOWN
        return UNKNOWN

    def _joint(self, node: ast.BoolOp, depth: int) -> object:
        values = [self.value(v, depth) for v in node.values]
        decisive = isinstance(node.op, ast.Or)
        known = [bool(v) for v in values if v is not UNKNOWN]
        if decisive in known:
            return decisive
        return not decisive if len(known) == len(values) else UNKNOWN

    def _compared(self, node: ast.Compare, depth: int) -> object:
        one, other = self.value(node.left, depth), self.value(node.comparators[0], depth)
        if one is UNKNOWN or other is UNKNOWN:
            return UNKNOWN
        try:
            return COMPARISONS[type(node.ops[0])](one, other)
        except TypeError:
            return UNKNOWN

    def _called(self, call: ast.Call, depth: int) -> object:
        for name in self.program.called(call):
            if name in self._answers:
                return self._answers[name]
        callees = self.program.flow.callees.get(call, set())
        return self._returned(next(iter(callees)).body, depth - 1) if len(callees) == 1 else UNKNOWN

    def _returned(self, block: Sequence[ast.stmt], depth: int) -> object:
        """What a function gives back that does nothing but ask."""
        for statement in block:
            if isinstance(statement, ast.Return):
                return self.value(statement.value, depth)
            if isinstance(statement, ast.If):
                test = self.value(statement.test, depth)
                if test is UNKNOWN:
                    return UNKNOWN
                inner = statement.body if test else statement.orelse
                if inner and isinstance(inner[-1], ast.Return):
                    return self._returned(inner, depth)
            elif not isinstance(statement, (ast.Expr, ast.Global)):
                return UNKNOWN
        return UNKNOWN


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    return [b for b in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")) if isinstance(b, list)]
