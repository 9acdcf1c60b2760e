"""Which calls of a function get as far as a place in it, where that depends on what they give its parameters?"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace

from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.single_process import COMPARISONS

_WORDS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}
_LEAVES = (ast.Return, ast.Raise)


@dataclass(frozen=True)
class Wanted:
    """What a parameter must be: `train` true, `optimizer` not None, `phase` equal to "train"."""

    parameter: str
    compare: type[ast.cmpop] | None  # None asks whether it is true
    operand: object
    answer: bool

    @property
    def text(self) -> str:
        """The condition: `train`, `not evaluate`, `optimizer is not None`."""
        if self.compare is None:
            return self.parameter if self.answer else f"not {self.parameter}"
        holds, fails = _WORDS[self.compare]
        return f"{self.parameter} {holds if self.answer else fails} {self._operand}"

    @property
    def _operand(self) -> str:
        return f'"{self.operand}"' if isinstance(self.operand, str) else repr(self.operand)

    def allows(self, value: object) -> bool:
        """Whether a value of the parameter leads to the place."""
        truth = bool(value) if self.compare is None else COMPARISONS[self.compare](value, self.operand)
        return truth is self.answer


class Ways:
    """Follow calls to a place; a call that says no to what the place stands under does not get there."""

    def __init__(self, program: Program, tracer: Tracer) -> None:
        self.program = program
        self.tracer = tracer
        self._to: dict[ast.AST, frozenset[Wanted]] = {}

    def to(self, node: ast.AST) -> frozenset[Wanted]:
        """What the parameters of a node's function must be for it to get there."""
        if node not in self._to:
            self._to[node] = self._conditions(node)
        return self._to[node]

    def _conditions(self, node: ast.AST) -> frozenset[Wanted]:
        found: set[Wanted] = set()
        child = node
        for ancestor in self.program.ancestors(node):
            for block in (getattr(ancestor, name, None) for name in ("body", "orelse")):
                if isinstance(block, list) and child in block:
                    found.update(self._after(block[: block.index(child)]))
                    if isinstance(ancestor, ast.If):
                        found.update(_said(ancestor.test, block is ancestor.body))
            if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                break
            child = ancestor
        frame = self.program.frame(node)
        fixed = {p.arg for p in frame.parameters if len(frame.writes.get(p.arg, ())) == 1}
        return frozenset(w for w in found if w.parameter in fixed)

    @staticmethod
    def _after(statements: list[ast.stmt]) -> Iterator[Wanted]:
        """What must be so after `if not train: return loss`."""
        for statement in statements:
            if isinstance(statement, ast.If) and isinstance(statement.body[-1], _LEAVES) and not statement.orelse:
                yield from _said(statement.test, False)

    def through(self, call: ast.Call, function: Scope, wanted: frozenset[Wanted]) -> frozenset[Wanted] | None:
        """What must be so where a function is called, for the call to get to the place; None if it does not."""
        found = set(self.to(call))
        frame = self.program.frame(call)
        for each in wanted:
            given = self.tracer.given(call, function, each.parameter)
            if isinstance(given, ast.Constant) and not each.allows(given.value):
                return None
            if isinstance(given, ast.Name) and [w for w in frame.writes.get(given.id, ()) if isinstance(w, ast.arg)]:
                found.add(replace(each, parameter=given.id))
        return frozenset(found)

    def only_if(self, function: Scope, told: Set[frozenset[Wanted]]) -> str | None:
        """When a function trains, where some of its calls have it do something else: `optimizer is not None`."""
        wanted = next(iter(told)) if len(told) == 1 else frozenset()
        calls = self.program.flow.callers.get(function, ())
        if not wanted or all(self.through(call, function, wanted) is not None for call in calls):
            return None
        return " and ".join(sorted(w.text for w in wanted))


def _said(test: ast.expr, answer: bool) -> Iterator[Wanted]:
    """What a condition says of plain names, if it is true or not."""
    if isinstance(test, ast.Name):
        yield Wanted(test.id, None, None, answer)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _said(test.operand, not answer)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is answer:
        for value in test.values:
            yield from _said(value, answer)
    elif isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and len(test.ops) == 1:
        operand = test.comparators[0]
        if isinstance(operand, ast.Constant) and isinstance(test.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
            yield Wanted(test.left.id, type(test.ops[0]), operand.value, answer)
