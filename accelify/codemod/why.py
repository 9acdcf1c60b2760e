"""What is known of a line, each fact with the line it comes from: what changes there, and what its names hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.analysis.program import Program
from accelify.codemod.analysis.values import Element, Instance, Made, Parameters, Value
from accelify.codemod.edits import Obstacle, Plan, Remark
from accelify.codemod.options import Options
from accelify.codemod.plan import plan
from accelify.codemod.project import Project
from accelify.codemod.script import Script
from accelify.codemod.understand import is_migrated, understand


def why(path: str, line: int, options: Options) -> Iterator[str]:
    """The facts behind a line of a file, one a string. Raises: FileError when the file cannot be read or parsed."""
    project = Project()
    named = [project.load(path)]
    if is_migrated(named):
        yield "the file is migrated already, or written for another library that runs training loops"
        return
    program = Program(project.program(named, options.follow), project, named)
    verdict = understand(program, options)
    if verdict.script is None:
        yield "there is no training loop in this file, so nothing changes"
        return
    facts = _Facts(program, verdict.script)
    yield from facts.decisions(plan(verdict), path, line)
    yield from facts.names(path, line)


class _Facts:
    def __init__(self, program: Program, script: Script) -> None:
        self.program = program
        self.script = script

    def decisions(self, made: Plan, path: str, line: int) -> Iterator[str]:
        """What the rules do at the line, or have to say of it."""
        for change in made.of(path):
            if change.line == line:
                yield f"{change.rule}: {change.reason}"
        said: list[Remark | Obstacle] = [*made.remarks, *made.obstacles]
        for found in said:
            if found.path == path and getattr(found.node, "lineno", None) == line:
                yield f"{found.rule}: {found.message}"

    def names(self, path: str, line: int) -> Iterator[str]:
        """What the line's names hold, from left to right."""
        nodes = [
            node
            for node in self.program.flow.parsed_of[path].parents
            if isinstance(node, (ast.Name, ast.Attribute)) and node.lineno == line and not self._is_method(node)
        ]
        told: set[str] = set()
        for node in sorted(nodes, key=lambda n: (n.col_offset, -(n.end_col_offset or 0))):
            text = ast.unparse(node)
            kinds = sorted({self._told(value) for value in self.program.values(node)} - {""})
            if text in told or not kinds:
                continue
            told.add(text)
            yield f"{text}: {'; or '.join(kinds)}{self._standing(node)}"

    def _is_method(self, node: ast.expr) -> bool:
        parent = self.program.parent(node)
        return isinstance(node, ast.Attribute) and isinstance(parent, ast.Call) and parent.func is node

    def _standing(self, node: ast.expr) -> str:
        prepared = self.script.prepared
        if prepared.is_model(node) or prepared.is_loader(node):
            return "; prepared"
        return "; always from a prepared loader" if prepared.is_batch(node) else ""

    def _told(self, value: Value) -> str:
        """What a value is, and where from; nothing for what does not matter to a migration."""
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
        found = []
        for call in self.program.calls:
            if any(self.script.roles.is_optimizer(v) for v in self.program.values(call)):
                given = [v for a in call.args for v in self.program.values(a)]
                if Parameters(model) in given or model in self.script.roles.parameter_owners(frozenset(given)):
                    found.append(f"given to {ast.unparse(call.func)} at {self._place(call)}")
        return found

    def _place(self, node: ast.AST) -> str:
        return f"{self.program.path(node)}:{self.program.line(node)}"
