"""What switches a script's mixed precision on, and which branches differ in the precision alone?"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence

from accelify.codemod.libraries import methods, names
from accelify.codemod.preparing.settings import Setting, Settings
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import method_of_call
from accelify.codemod.semantics.values import Made

HAS_CUDA = "torch.cuda.is_available()"


class NotUnderstood(Exception):
    """Something about a script's mixed precision that leaves all of it as it is."""

    def __init__(self, node: ast.AST, reason: str) -> None:
        super().__init__(reason)
        self.node = node
        self.reason = reason


class Switches:
    """Find the settings on which mixed precision depends.

    choices: conditions whose branches do the same but for the precision; switches: others that turn it on. Both tell
    whether their body is the branch in mixed precision. after: the statements after which all settings are known.
    """

    def __init__(
        self, program: Program, settings: Settings, scalers: Sequence[ast.Call], computes: Callable[[ast.AST], bool]
    ) -> None:
        self.program = program
        self.settings = settings
        self.scalers = scalers
        self.makers: Sequence[ast.Call] = ()  # what else switches it on
        self.masters = ""  # the parameters that apex keeps in full precision
        self.computes = computes
        self.choices: dict[ast.If, bool] = {}
        self.switches: dict[ast.If, bool] = {}
        self.after: list[ast.stmt] = []

    def is_scaler(self, node: ast.AST | None) -> bool:
        """Whether an expression holds the script's scaler."""
        return any(isinstance(v, Made) and v.node in self.scalers for v in self.program.values(node))

    def conditions(self, node: ast.AST, given: Sequence[ast.expr]) -> frozenset[str]:
        """The settings that switch mixed precision on at a place."""
        found: set[str] = set()
        for expression in given:
            if not (isinstance(expression, ast.Constant) and expression.value is True):
                found |= self._setting(expression)
        for branching, holds in self.program.branches_round(node):
            if isinstance(branching, ast.IfExp):
                found |= self._setting(branching.test, is_negated=not holds)
            elif branching is not self.settings.guard:
                found |= self._branch(branching, holds)
        return frozenset(found)

    def _branch(self, node: ast.If, in_body: bool) -> set[str]:
        asked = node.test.left if isinstance(node.test, ast.Compare) else node.test
        if self.is_scaler(asked):
            self.is_choice(node, in_body)
            return set()
        if self.is_choice(node, in_body):
            return self._setting(node.test, is_negated=not in_body)
        others = node.orelse if in_body else node.body
        computes = any(self.computes(n) for s in others for n in ast.walk(s))
        makes_scaler = any(c in self.scalers or c in self.makers for s in node.body for c in ast.walk(s))
        if not computes and not makes_scaler:
            return set()
        self.switches[node] = in_body
        return self._setting(node.test, is_negated=not in_body)

    def _setting(self, node: ast.expr, is_negated: bool = False) -> set[str]:
        expression = ast.UnaryOp(ast.Not(), node) if is_negated else node
        if is_negated and isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            expression = node.operand
        found: set[str] = set()
        parts = (
            expression.values
            if isinstance(expression, ast.BoolOp) and isinstance(expression.op, ast.And)
            else [expression]
        )
        for part in parts:
            setting = self.asks_for_cuda(part) or self.settings.settle(part)
            if setting is None:
                raise NotUnderstood(node, f"`{ast.unparse(node)}` is not known where the accelerator is created")
            self.after.extend(setting.after)
            found.add(setting.text)
        return found

    def asks_for_cuda(self, node: ast.expr) -> Setting | None:
        """`torch.cuda.is_available()`, `device.type == "cuda"`."""
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            left, right = node.left, node.comparators[0]
            is_type = isinstance(left, ast.Attribute) and left.attr == "type"
            if is_type and isinstance(right, ast.Constant) and right.value == "cuda":
                return Setting(ast.parse(HAS_CUDA, mode="eval").body)
        return None

    def is_choice(self, node: ast.If, in_body: bool) -> bool:
        """Whether the branches of a condition do the same but for the precision; it is noted."""
        if node in self.choices:
            return True
        mixed, full = (node.body, node.orelse) if in_body else (node.orelse, node.body)
        if self._is_elif(node) or not mixed or not full or self._plain(mixed) != self._plain(full):
            return False
        self.choices[node] = in_body
        return True

    def _is_elif(self, node: ast.If) -> bool:
        parent = self.program.parent(node)
        is_alone = isinstance(parent, ast.If) and parent.orelse == [node]
        follows = len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
        return is_alone or (follows and node.orelse[0].col_offset == node.col_offset)

    def _plain(self, block: Sequence[ast.stmt]) -> str:
        """The code of a block in full precision."""
        return "\n".join(ast.unparse(s) for s in _Plain(self).block(block))

    def is_without(self, node: ast.If, child: ast.AST) -> bool:
        """Whether a branch is the one that a switch of the mixed precision takes when it is off."""
        in_body = self.choices.get(node, self.switches.get(node))
        return in_body is not None and child in (node.orelse if in_body else node.body)


class _Plain:
    """A block without its mixed precision."""

    def __init__(self, owner: Switches) -> None:
        self.owner = owner

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements that are left."""
        return [s for statement in statements for s in self._statement(statement)]

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, ast.With) and all(self._is_autocast(i.context_expr) for i in node.items):
            return self.block(node.body)
        if isinstance(node, ast.With) and self._is_of_apex(node.items[0].context_expr, "scale_loss"):
            loss = node.items[0].context_expr
            assert isinstance(loss, ast.Call)
            return [ast.Expr(ast.Call(ast.Attribute(loss.args[0], "backward", ast.Load()), [], []))]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and self._is_scaler(node.value.func):
            method = method_of_call(node.value)
            if method not in ("step", "scale") and methods.is_used_of_scaler(str(method)):
                return []
            if method == "step" and len(node.value.args) == 1:
                function = ast.Attribute(node.value.args[0], "step", ast.Load())
                return [ast.Expr(ast.Call(function, [], []))]
        copied = copy.copy(node)
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(copied, name, self.block(value) or [ast.Pass()])
            elif isinstance(value, ast.expr):
                setattr(copied, name, self.expression(value))
        return [copied]

    def expression(self, node: ast.expr) -> ast.expr:
        """`loss.backward()` for `scaler.scale(loss).backward()`."""
        if isinstance(node, ast.Call) and node.args and self._is_of_apex(node.args[0], "master_params"):
            masters = ast.parse(self.owner.masters or "_", mode="eval").body
            return ast.Call(node.func, [masters, *node.args[1:]], node.keywords)
        function = node.func if isinstance(node, ast.Call) else None
        scaled = function.value if isinstance(function, ast.Attribute) else None
        if (
            isinstance(scaled, ast.Call)
            and self._is_scaler(scaled.func)
            and method_of_call(scaled) == "scale"
            and scaled.args
        ):
            assert isinstance(node, ast.Call)
            assert isinstance(function, ast.Attribute)
            return ast.Call(ast.Attribute(scaled.args[0], function.attr, ast.Load()), node.args, node.keywords)
        return node

    def _is_scaler(self, function: ast.expr) -> bool:
        return isinstance(function, ast.Attribute) and self.owner.is_scaler(function.value)

    def _is_of_apex(self, node: ast.expr, name: str) -> bool:
        return isinstance(node, ast.Call) and f"apex.amp.{name}" in self.owner.program.called(node)

    def _is_autocast(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and any(map(names.is_autocast, self.owner.program.called(node)))


def is_none(node: ast.expr | None) -> bool:
    """Whether an expression is `None`, or not there."""
    return node is None or (isinstance(node, ast.Constant) and node.value is None)
