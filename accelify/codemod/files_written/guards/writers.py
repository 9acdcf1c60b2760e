"""Which writers does only the main process use, wherever they go: passed on, kept in an object, returned?

writer = SummaryWriter(path)    ->    writer = SummaryWriter(path) if accelerator.is_main_process else None
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import takewhile

from accelify.codemod.files_written.guards.asking import Asking
from accelify.codemod.files_written.one_process import OneProcess
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Made


class Writers:
    """Look at all that may hold what a call makes."""

    def __init__(self, alone: OneProcess, asking: Asking) -> None:
        self.program = alone.program
        self.alone = alone
        self.asking = asking

    def of_main(self, made: Iterable[ast.Call], covered: set[ast.AST]) -> list[ast.Call]:
        """The calls that make what only some code uses, which the main process alone runs."""
        return [c for c in made if self._may_be_none(c) and self._only_main_uses(c, covered)]

    def _may_be_none(self, made: ast.Call) -> bool:
        """Whether what a call makes is given to a variable or an attribute, or returned, where the process is known.

        So is a choice of that or None: `writer = SummaryWriter() if args.log else None`.
        """
        if not self.alone.is_reached(made) and not self.asking.tells_rank(made):
            return False
        is_followed = any(isinstance(v, Made) and v.node is made for v in self.program.values(made))
        given = [made, *self._choices(made)][-1]
        return is_followed and isinstance(self.program.parent(given), (ast.Assign, ast.Return))

    def _choices(self, made: ast.Call) -> list[ast.IfExp]:
        """The expressions round a call that choose what it makes or None."""
        around = takewhile(lambda n: isinstance(n, ast.IfExp), self.program.ancestors(made))
        inner = [n for n in around if isinstance(n, ast.IfExp)]
        return inner if all(map(_may_be_none, inner)) else []

    def _only_main_uses(self, made: ast.Call, covered: set[ast.AST]) -> bool:
        """Whether all that other processes do with a value is to pass it on."""
        value = next(v for v in self.program.values(made) if isinstance(v, Made))
        passing = [made, *self._choices(made)]
        holding = (n for n, values in self.program.flow.values.items() if value in values and n not in passing)
        return all(n in covered or self._passes_on(n) for n in holding)

    def _passes_on(self, node: ast.AST) -> bool:
        """Whether a node that holds a writer is a place for it, or is read for one, or to be given to a function."""
        parent = self.program.parent(node)
        if isinstance(getattr(node, "ctx", None), ast.Store):
            return isinstance(parent, ast.Assign) or self._is_part(node)
        is_own = isinstance(node, ast.Call) and bool(self.program.flow.callees.get(node))  # returns it
        if not isinstance(node, (ast.Name, ast.Attribute)) and not is_own and not self._is_part(node):
            return False
        if isinstance(parent, ast.Return):
            return self._is_called_here(node)
        if self._is_part(node):
            return self._is_called_here(node) and self._is_taken_apart(self.program.frame(node))
        if isinstance(parent, ast.Assign):
            return parent.value is node and _is_place(parent.targets[0])
        call = self.program.parent(parent) if isinstance(parent, ast.keyword) else parent
        return isinstance(call, ast.Call) and call.func is not node and bool(self.program.flow.callees.get(call))

    def _is_part(self, node: ast.AST) -> bool:
        """Whether a node is one of several that are returned, or assigned: `logger, writer = set_up()`."""
        parts = self.program.parent(node)
        return isinstance(parts, ast.Tuple) and isinstance(self.program.parent(parts), (ast.Return, ast.Assign))

    def _is_taken_apart(self, function: Scope) -> bool:
        """Whether each call of a function is assigned to several targets: all that is returned is seen there."""
        assigned = map(self.program.parent, self.program.calls_of(function))
        return all(isinstance(a, ast.Assign) and isinstance(a.targets[0], ast.Tuple) for a in assigned)

    def _is_called_here(self, node: ast.AST) -> bool:
        """Whether all calls of a node's function are to be seen."""
        frame = self.program.frame(node)
        return frame not in self.program.flow.lost and bool(self.program.flow.callers.get(frame))


def _may_be_none(node: ast.IfExp) -> bool:
    """Whether one of two values is None."""
    return any(isinstance(n, ast.Constant) and n.value is None for n in (node.body, node.orelse))


def _is_place(target: ast.expr) -> bool:
    return isinstance(target, (ast.Name, ast.Attribute))
