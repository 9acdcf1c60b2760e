"""Which option of the script's keeps it on the CPU, where it could have a GPU?"""

from __future__ import annotations

import ast
from collections.abc import Collection

from accelify.codemod.analysis.program import Program
from accelify.codemod.analysis.roles import Roles
from accelify.codemod.analysis.settings import Setting, Settings
from accelify.codemod.analysis.trace import Tracer

_DEPTH = 4


class Cpu:
    """Find the option behind `"cuda" if not args.no_cuda and torch.cuda.is_available() else "cpu"`."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, settings: Settings) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.settings = settings

    def find(self, files: Collection[str]) -> Setting | None:
        """The setting for `cpu=`; None where the script has no such option, or several, or it is not understood."""
        found: dict[str, Setting | None] = {}
        for path in files:
            for node in self.program.flow.parsed_of[path].parents:
                if not isinstance(node, (ast.IfExp, ast.If)) or not self._chooses(node):
                    continue
                terms = self._terms(node.test, _DEPTH)
                if not terms:
                    return None
                setting = self.settings.settle(_not_all(terms))
                found[setting.text if setting is not None else ""] = setting
        return next(iter(found.values())) if len(found) == 1 else None

    def _chooses(self, node: ast.IfExp | ast.If) -> bool:
        """Whether a choice is one between a GPU and the CPU."""
        if self.program.frame(node) not in self.program.reachable:
            return False
        if isinstance(node, ast.If):
            return any(map(self._takes_a_model_along, node.body)) and not node.orelse
        gpu, cpu = ast.unparse(node.body), ast.unparse(node.orelse)
        named = all(any(self.roles.is_device(v) for v in self.program.values(b)) for b in (node.body, node.orelse))
        return named and "cuda" in gpu and "cpu" in cpu

    def _takes_a_model_along(self, statement: ast.stmt) -> bool:
        """`model.cuda()`, `model = model.cuda()`"""
        move = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
        if not isinstance(move, ast.Call) or not isinstance(move.func, ast.Attribute) or move.func.attr != "cuda":
            return False
        return any(self.roles.is_model(v) for v in self.program.values(move.func.value))

    def _terms(self, node: ast.expr, depth: int) -> list[ast.expr]:
        """What must hold besides that there is a GPU; nothing where that is not known."""
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            return [term for value in node.values for term in self._terms(value, depth)]
        if any(self.roles.is_cuda_test(v) for v in self.program.values(node)) and isinstance(node, ast.Call):
            return []
        value = self._assigned(node) if depth else None
        if value is not None and "cuda" in ast.unparse(value):
            return self._terms(value, depth - 1)
        return [node]

    def _assigned(self, node: ast.expr) -> ast.expr | None:
        """The one value that is ever assigned to a name or an option."""
        writes: list[ast.AST] = []
        if isinstance(node, ast.Name):
            owner = self.program.scope(node).owner(node.id)
            writes = list(self.tracer.writes(owner, node.id)) if owner is not None else []
        elif isinstance(node, ast.Attribute):
            writes = [
                w for w in self.program.attribute_writes.get(node.attr, ()) if ast.unparse(w) == ast.unparse(node)
            ]
        parent = self.program.parent(writes[0]) if len(writes) == 1 else None
        return parent.value if isinstance(parent, ast.Assign) else None


def _not_all(terms: list[ast.expr]) -> ast.expr:
    if len(terms) > 1:
        return ast.UnaryOp(ast.Not(), ast.BoolOp(ast.And(), terms))
    term = terms[0]
    is_negated = isinstance(term, ast.UnaryOp) and isinstance(term.op, ast.Not)
    return term.operand if is_negated else ast.UnaryOp(ast.Not(), term)  # type: ignore[attr-defined]  # negated
