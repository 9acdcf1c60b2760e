"""The values of the names on a line, each with the lines that show it."""

from __future__ import annotations

import ast
from functools import cached_property

from accelify.codemod.script import Script
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.values import Element, Instance, Made, Parameters, Value

Read = ast.Name | ast.Attribute


class Evidence:
    """The facts behind the lines of a program."""

    def __init__(self, program: Program, script: Script) -> None:
        self.program = program
        self.script = script
        self._reads: dict[str, dict[int, list[Read]]] = {}

    def at(self, path: str, line: int) -> tuple[str, ...]:
        """The values of the names on a line, from left to right: `net: model, Net(nn.Module) at train.py:12, ...`."""
        told: dict[str, str] = {}
        for node in sorted(self._read_at(path, line), key=lambda n: (n.col_offset, -(n.end_col_offset or 0))):
            text = ast.unparse(node)
            kinds = (
                [] if text in told else sorted({self._described(value) for value in self.program.values(node)} - {""})
            )
            if kinds:
                told[text] = f"{text}: {'; or '.join(kinds)}{self._standing(node)}"
        return tuple(told.values())

    def _read_at(self, path: str, line: int) -> list[Read]:
        if path not in self._reads:
            by_line: dict[int, list[Read]] = {}
            for node in self.program.flow.parsed_of[path].parents:
                if isinstance(node, (ast.Name, ast.Attribute)) and not self._is_method(node):
                    by_line.setdefault(self.program.line(node), []).append(node)
            self._reads[path] = by_line
        return self._reads[path].get(line, [])

    def _is_method(self, node: ast.expr) -> bool:
        parent = self.program.parent(node)
        return isinstance(node, ast.Attribute) and isinstance(parent, ast.Call) and parent.func is node

    def _standing(self, node: ast.expr) -> str:
        prepared = self.script.prepared
        if prepared.is_model(node) or prepared.is_loader(node):
            return "; prepared"
        return "; always from a prepared loader" if prepared.is_batch(node) else ""

    def _described(self, value: Value) -> str:
        """A value and its origin, in words; empty for a value that does not matter to a migration."""
        roles = self.script.roles
        if isinstance(value, Element) and roles.is_loader(value.owner):
            return f"(part of) a batch of {self._origin(value.owner)}"
        for kind, is_one in (
            ("optimizer", roles.is_optimizer),
            ("loader", roles.is_loader),
            ("scheduler", roles.is_scheduler),
            ("model", roles.is_model),
            ("device", roles.is_device),
        ):
            if is_one(value):
                users = self._users(value) if kind == "model" else []
                return ", ".join([f"{kind}, {self._origin(value)}", *users])
        return ""

    def _origin(self, value: Value) -> str:
        if isinstance(value, Made):
            return f"{value.name or 'made'} at {self._place(value.node)}"
        if isinstance(value, Instance):
            bases = ", ".join(self.program.flow.external_bases(value.cls))
            return f"{value.cls.qualified_name}({bases}) at {self._place(value.cls.node)}"
        return type(value).__name__.lower()

    def _users(self, model: Value) -> list[str]:
        """The optimizers that are given a model's parameters."""
        return [
            f"given to {ast.unparse(call.func)} at {self._place(call)}"
            for call, given in self._optimizers
            if Parameters(model) in given or model in self.script.roles.parameter_owners(given)
        ]

    @cached_property
    def _optimizers(self) -> list[tuple[ast.Call, frozenset[Value]]]:
        """The calls that make optimizers, with what they are given."""
        calls = sorted(self.program.calls, key=self.program.position)
        return [
            (call, frozenset(v for a in call.args for v in self.program.values(a)))
            for call in calls
            if any(self.script.roles.is_optimizer(v) for v in self.program.values(call))
        ]

    def _place(self, node: ast.AST) -> str:
        return f"{self.program.path(node)}:{self.program.line(node)}"
