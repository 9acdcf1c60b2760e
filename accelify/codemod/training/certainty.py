"""Does every process run this, and equally often?"""

from __future__ import annotations

import ast

from accelify.codemod.libraries import names, vocabulary
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.loops import Training

_OF_ONE = ("rank", "main_process", "is_main", "master", "primary")
_DEPTH = 4


class Certainty:
    """Tells what does not depend on anything that one process alone has seen."""

    def __init__(self, program: Program, tracer: Tracer, training: Training) -> None:
        self.program = program
        self.tracer = tracer
        self.training = training

    def of(self, node: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether all that leads to a node is the same in every process: conditions, loops, calls."""
        sharded = {d.loop for d in self.training.data if d.kind == "sequence"}
        frame = self.program.frame(node)
        child: ast.AST = node
        for ancestor in self.program.ancestors(node):
            if ancestor is frame.node:
                break
            if ancestor in sharded or isinstance(ancestor, (ast.ExceptHandler, ast.Lambda)):
                return False
            if not all(map(self._is_common, _asked(ancestor, child))):
                return False
            child = ancestor
        if frame.kind == "module":
            return True
        calls = self.program.calls_of(frame)
        if not calls and frame in self.training.frames and frame.is_function:
            return True  # whoever calls it, in every process: it trains
        if not frame.is_function or not depth or not calls or frame in self.program.flow.escaped:
            return False
        return all(self.of(call, depth - 1) for call in calls)

    def _is_common(self, test: ast.expr) -> bool:
        """Whether a condition is decided from counters, options and constants, none of them a process's own."""
        if asks_for_one(test):
            return False
        for node in ast.walk(test):
            if isinstance(node, ast.Call) and not names.asks_about(ast.unparse(node.func)):
                return False
            if isinstance(node, ast.Name) and not self._is_given(node):
                return False
        return True

    def _is_given(self, name: ast.Name) -> bool:
        owner = self.program.scope(name).owner(name.id)
        return owner is None or all(self._is_plain(owner, w) for w in self.tracer.writes(owner, name.id))

    def _is_plain(self, owner: Scope, write: ast.AST) -> bool:
        if isinstance(write, (ast.arg, ast.alias)):
            return True
        if not isinstance(write, ast.Name):
            return False
        statement = self.program.statement(write)
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            return True
        if isinstance(statement, ast.AugAssign):
            return isinstance(statement.value, ast.Constant)
        value = self._given(write)
        return value is not None and self._is_setting(value)

    def _given(self, write: ast.Name) -> ast.expr | None:
        """The value that a variable is given, alone or as a part: `options, others = parser.parse_known_args()`."""
        value, statement = self.tracer.assigned(write), self.program.statement(write)
        return statement.value if value is None and isinstance(statement, ast.Assign) else value

    def _is_setting(self, value: ast.expr) -> bool:
        """Whether a value is read from constants and options, with nothing but counting and comparing in between."""
        if isinstance(value, ast.Call):
            name = ast.unparse(value.func)
            is_known = names.is_length(name) or names.is_counter(name) or name.endswith("is_available")
            return is_known or _reads_options(value) or (names.converts(name) and self._are_settings(value))
        if isinstance(value, (ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare)):
            return self._are_settings(value)
        if isinstance(value, (ast.Tuple, ast.List, ast.Dict)):
            return all(isinstance(n, (ast.Constant, ast.expr_context)) for n in ast.iter_child_nodes(value))
        return isinstance(value, ast.Constant)

    def _are_settings(self, value: ast.expr) -> bool:
        """Whether all that goes into a value is an option, or a constant."""
        parts = list(ast.walk(value))
        calls = [n for n in parts if isinstance(n, ast.Call) and n is not value]
        converts = value.func if isinstance(value, ast.Call) else None
        names = [n for n in parts if isinstance(n, ast.Name) and n is not converts]
        return not calls and all(map(self._is_option, names))

    def _is_option(self, name: ast.Name) -> bool:
        """Whether a variable holds the options of the program, and nothing else."""
        owner = self.program.scope(name).owner(name.id)
        writes = [] if owner is None else self.tracer.writes(owner, name.id)
        values = [self._given(w) for w in writes if isinstance(w, ast.Name)]
        return bool(values) and all(
            isinstance(v, ast.Constant) or (isinstance(v, ast.Call) and _reads_options(v)) for v in values
        )


def _reads_options(call: ast.Call) -> bool:
    """`parser.parse_args()`, `yaml.safe_load(file)`."""
    name = ast.unparse(call.func)
    return vocabulary.reads_settings(name) or vocabulary.reads_settings(name.rpartition(".")[2])


def asks_for_one(test: ast.expr) -> bool:
    """Whether a condition sounds as if it picked one of the processes."""
    return any(word in ast.unparse(test).lower() for word in _OF_ONE)


def _asked(node: ast.AST, child: ast.AST) -> list[ast.expr]:
    """The conditions on which what a node holds is run."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        return [node.test]
    if isinstance(node, ast.BoolOp):
        return node.values[: node.values.index(child)] if isinstance(child, ast.expr) else node.values
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        return [test for generator in node.generators for test in generator.ifs]
    return []
