"""What does a call give to a function's parameters, as far as conditions ask for it?"""

from __future__ import annotations

import ast
from collections.abc import Collection

from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Constant, Instance, Made, Value


class Given:
    """Work out conditions for one call."""

    def __init__(self, program: Program, tracer: Tracer) -> None:
        self.program = program
        self.tracer = tracer

    def truth(self, test: ast.expr, call: ast.Call, frame: Scope) -> bool | None:
        """What a condition of a function's parameters says for one call; None where that is not known."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.truth(test.operand, call, frame)
            return None if inner is None else not inner
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.comparators[0], ast.Constant):
            return self._compared(test.ops[0], self._held(test.left, call, frame), test.comparators[0].value)
        truths = {_truth_of(v) for v in self._held(test, call, frame)}
        return truths.pop() if len(truths) == 1 else None

    @staticmethod
    def _compared(operator: ast.cmpop, held: Collection[Value], other: object) -> bool | None:
        """What a comparison says of all that may be compared."""
        equal = {_equals(v, other) for v in held}
        if len(equal) != 1 or None in equal or not isinstance(operator, (ast.Eq, ast.Is, ast.NotEq, ast.IsNot)):
            return None
        return equal.pop() is isinstance(operator, (ast.Eq, ast.Is))

    def _held(self, node: ast.expr, call: ast.Call, frame: Scope) -> Collection[Value]:
        """What a parameter holds for one call; nothing for anything else, and where it is not known."""
        if not isinstance(node, ast.Name) or frame.kind != "function":
            return ()
        if len(writes := self.tracer.writes(frame, node.id)) != 1 or not isinstance(writes[0], ast.arg):
            return ()
        given = self.tracer.given(call, frame, node.id)
        if isinstance(given, ast.Constant):
            return (Constant(given.value),)
        return () if given is None or self._is_handed_on(given) else self.program.values(given)

    def _is_handed_on(self, node: ast.expr) -> bool:
        """Whether an expression is a parameter of the caller's, of whose defaults nothing is known here."""
        owner = self.program.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        return owner is not None and any(isinstance(w, ast.arg) for w in self.tracer.writes(owner, ast.unparse(node)))


def _truth_of(value: Value) -> bool | None:
    return bool(value.value) if isinstance(value, Constant) else True if isinstance(value, (Made, Instance)) else None


def _equals(value: Value, other: object) -> bool | None:
    if isinstance(value, Constant):
        return value.value == other
    return False if other is None and isinstance(value, (Made, Instance)) else None
