"""Which models does a script move to and fro itself, and remember where they are?

    if self.where != device:
        self.net = move(self.net)
        self.where = device

`prepare` would move such a model, and the script would not know: it is prepared where it is, and goes where it is sent.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from accelify.codemod.libraries import methods
from accelify.codemod.preparing.grouping import Item
from accelify.codemod.preparing.prepared import brings_to_cpu
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import code
from accelify.codemod.semantics.values import Value
from accelify.codemod.training.roles import Roles


class Remembered:
    """The models, and the attributes that say where they are. Made by `program.once`."""

    def __init__(self, program: Program) -> None:
        self.program = program
        roles = program.once(Roles)
        self.models: set[Value] = set()
        self.places: set[str] = set()
        for choice, place in self._choices():
            moved = {v for call in self._moves(choice) for v in program.values(call.func.value) if roles.is_model(v)}  # type: ignore[attr-defined]  # a method
            self.models |= moved
            self.places |= {place} if moved else set()

    def is_one(self, item: Item) -> bool:
        """Whether what is to be prepared is such a model."""
        name = item.text.rpartition(".")[2] if self.models else ""
        written = (*self.program.attribute_writes.get(name, ()), *item.frame.writes.get(name, ()))
        own = (w for w in written if isinstance(w, ast.expr) and code(w) == item.text)
        return any(self.program.values(w) & self.models for w in own if self.program.frame(w) is item.frame)

    def _choices(self) -> Iterator[tuple[ast.If, str]]:
        """The conditions that compare an attribute with what they then set it to, if it is not that already."""
        for write in (w for writes in self.program.attribute_writes.values() for w in writes):
            for choice, is_body in self.program.branches_round(write):
                if is_body and isinstance(choice, ast.If) and _compares(choice.test, code(write)):
                    yield choice, code(write)

    def _moves(self, choice: ast.If) -> Iterator[ast.Call]:
        """The calls that move something there, in functions that are called there, too."""
        calls = [*_calls(choice.body)]
        called = {f for c in calls for f in self.program.flow.callees.get(c, ())}
        for call in (*calls, *(c for f in called for c in _calls([f.node]))):
            if isinstance(call.func, ast.Attribute) and (
                methods.moves_to_device(call.func.attr) or brings_to_cpu(call)
            ):
                yield call


def _calls(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    return (n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Call))


def _compares(test: ast.expr, place: str) -> bool:
    """`place != device`, `not place == device`"""
    is_negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    compared = test.operand if is_negated else test  # type: ignore[attr-defined]  # negated
    if not isinstance(compared, ast.Compare) or len(compared.ops) != 1:
        return False
    is_other = isinstance(compared.ops[0], ast.Eq if is_negated else ast.NotEq)
    return is_other and place in map(code, (compared.left, *compared.comparators))
