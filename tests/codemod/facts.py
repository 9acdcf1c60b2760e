"""Programs made of source text, for tests of facts: nodes are found by what they say, values are described in words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from textwrap import dedent
from typing import TypeVar

from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.project import Project
from accelify.codemod.options import ACCELIFY, Options, Runtime
from accelify.codemod.script import Script
from accelify.codemod.semantics import values as v
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.loops.loops import Loops
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.roles import Roles
from accelify.codemod.understand import Verdict, understand

Node = TypeVar("Node", bound=ast.AST)
MARK = "# <- here"


class Facts:
    """A program and its nodes.

    `facts["x = f"]` is the first node that is spelled so or, if none is, starts so; `facts["x#2"]` the second.
    `facts.here` is the statement, or the expression that is one, on the line that ends in `# <- here`.
    Several files are given by their paths; the first of them is the one that the user has named.
    """

    def __init__(self, text: str | Mapping[str, str], runtime: Runtime = ACCELIFY) -> None:
        self.options = Options(runtime=runtime)
        texts = {"main.py": text} if isinstance(text, str) else text
        given = {path: dedent(each).encode() for path, each in texts.items()}
        self.project = Project(given)
        self.named = [self.project.load(next(iter(given)))]
        loaded = [self.project.load(path) for path in list(given)[1:]]
        self.files: list[Parsed] = [*self.named, *loaded]

    @cached_property
    def program(self) -> Program:
        return Program(self.files, self.project, self.named)

    @cached_property
    def tracer(self) -> Tracer:
        return Tracer(self.program)

    @cached_property
    def roles(self) -> Roles:
        return Roles(self.program)

    @cached_property
    def training(self) -> Training:
        return Loops(self.program, self.roles, self.tracer).find()

    @cached_property
    def verdict(self) -> Verdict:
        return understand(self.program, self.options)

    @property
    def script(self) -> Script:
        """The model of a script that trains."""
        assert self.verdict.script is not None
        return self.verdict.script

    def __getitem__(self, text: str) -> ast.AST:
        return find(self._trees, text, ast.AST)

    def expression(self, text: str) -> ast.expr:
        """The first expression that is spelled like a text, or starts so."""
        return find(self._trees, text, ast.expr)

    def call(self, text: str) -> ast.Call:
        return find(self._trees, text, ast.Call)

    def statement(self, text: str) -> ast.stmt:
        return find(self._trees, text, ast.stmt)

    @property
    def _trees(self) -> list[ast.Module]:
        return [parsed.tree for parsed in self.files]

    @property
    def marked(self) -> list[ast.AST]:
        """What stands on the marked lines."""
        return [
            node.value if isinstance(node, ast.Expr) else node
            for parsed in self.files
            for number, line in enumerate(parsed.lines, 1)
            if line.endswith(MARK)
            for node in parsed.nodes
            if isinstance(node, ast.stmt) and node.lineno == number
        ]

    @property
    def here(self) -> ast.AST:
        (node,) = self.marked
        return node

    def scope(self, name: str) -> Scope:
        """The function, class or lambda of a qualified name: `Trainer.fit`; a module by its path."""
        scopes = (s for parsed in self.files for s in self.program.flow.bindings[parsed.path].root.walk())
        return next(s for s in scopes if s.qualified_name == name)

    def values(self, text: str) -> set[str]:
        """What an expression may hold, in words."""
        return described(self.program.values(self[text]))

    def variable(self, name: str, scope: str = "main.py") -> set[str]:
        """What a variable may hold, in words."""
        return described(self.program.flow.variable(self.scope(scope), name))


def spelling(node: ast.AST) -> str:
    """The text of a node, as Python 3.11 and later give it: `for x, y in z`, `x, y = z`, `lambda: x`."""
    text = re.sub(r"^for \((.*?)\) in ", r"for \1 in ", ast.unparse(node)).replace("lambda :", "lambda:")
    return re.sub(r"^\(([\w, ]+)\) = ", r"\1 = ", text)


def find(trees: Iterable[ast.AST], text: str, kind: type[Node]) -> Node:
    """The first node of a kind that is spelled like a text or, if none is, starts so; `x#2` is the second."""
    text, _, number = text.partition("#")
    nodes = [n for t in trees for n in _in_order(t) if isinstance(n, kind) and not isinstance(n, ast.Expr)]
    spelled = {n: spelling(n) for n in nodes if isinstance(n, (ast.stmt, ast.expr, ast.arg, ast.alias))}
    found = [n for n in nodes if spelled.get(n) == text] or [n for n in nodes if spelled.get(n, "").startswith(text)]
    assert found, f"nothing is spelled {text!r}"
    return found[int(number or 1) - 1]


def _in_order(tree: ast.AST) -> list[ast.AST]:
    return sorted((n for n in ast.walk(tree) if hasattr(n, "lineno")), key=_place)


def _place(node: ast.AST) -> tuple[int, ...]:
    start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
    return (*start, *(-n for n in end))


def texts(nodes: Iterable[ast.AST]) -> list[str]:
    """Nodes as the user wrote them."""
    return [node.arg if isinstance(node, ast.arg) else spelling(node) for node in nodes]


def values(text: str | Mapping[str, str], node: str) -> set[str]:
    """What an expression of a program may hold, in words."""
    return Facts(text).values(node)


def described(found: Iterable[v.Value]) -> set[str]:
    return {describe(value) for value in found}


def describe(value: v.Value) -> str:
    """A value in a few words: `torch.zeros`, `made: torch.zeros(3)`, `a Net`, `element of made: DataLoader(d)`."""
    match value:
        case v.External(name):
            return name
        case v.Constant(constant):
            return repr(constant)
        case v.ModuleValue(root):
            return f"module {root.name}"
        case v.ClassValue(scope):
            return f"class {scope.qualified_name}"
        case v.FunctionValue(scope, owner):
            return f"function {scope.qualified_name}" + (f" of {describe(owner)}" if owner is not None else "")
        case v.Instance(cls):
            return f"a {cls.qualified_name}"
        case v.SuperOf(cls, owner):
            return f"super of {cls.qualified_name} in a {owner.qualified_name}"
        case v.Made(node, name):
            return f"made: {ast.unparse(node)}" if name is not None else f"unknown: {ast.unparse(node)}"
        case v.Collection(node):
            return f"collection {node.arg if isinstance(node, ast.arg) else ast.unparse(node)}"
        case v.View(kind, node):
            return f"view {kind}: {ast.unparse(node)}"
        case v.Generated(scope):
            return f"generator {scope.qualified_name}"
        case v.Parameters(owner):
            return f"parameters of {describe(owner)}"
        case v.Element(owner):
            return f"element of {describe(owner)}"
        case v.Member(owner, name):
            return f"{describe(owner)}.{name}"
        case v.Argument(scope, name):
            return f"argument {name} of {scope.qualified_name}"
