"""Meters of the project's own: objects whose `update` adds to sums, and divides them into a mean."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from accelify.codemod.libraries import table
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Instance


@dataclass(frozen=True)
class Meter:
    """sums: the attributes that add up. means: what is calculated from them, with `{}` for the meter's name.

    last: what only the last update, or one of them, left: `if x > self.best: self.best = x`.
    lists: the attributes that get an element at each update.
    """

    sums: tuple[str, ...]
    means: tuple[tuple[str, str], ...]
    last: frozenset[str]
    lists: tuple[str, ...] = ()


class Meters:
    """Read the classes of meters."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def of(self, node: ast.expr) -> Meter | None:
        """The kind of meter that an expression is; None for anything else."""
        values = self.program.values(node)
        classes = {v.cls for v in values if isinstance(v, Instance)}
        if len(classes) != 1 or len(classes) < len({type(v) for v in values}):
            return None
        cls = classes.pop()
        update = self.program.flow.method(cls, "update")
        return None if update is None else self._read(update)

    def _read(self, update: Scope) -> Meter | None:
        function = update.node
        if not isinstance(function, ast.FunctionDef) or not function.args.args or function.decorator_list:
            return None
        own = function.args.args[0].arg
        sums: list[str] = []
        means: list[tuple[str, str]] = []
        last: set[str] = set()
        lists: list[str] = []
        for statement in function.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue
            if isinstance(statement, ast.AugAssign):
                attribute = _attribute(statement.target, own)
                if attribute is None or not isinstance(statement.op, ast.Add) or _read_of(statement.value, own):
                    return None
                sums.append(attribute)
            elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                attribute = _attribute(statement.targets[0], own)
                if attribute is None or not self._is_number(statement.value, own, sums):
                    return None
                if _read_of(statement.value, own):
                    means.append((attribute, _pattern(statement.value, own)))
                else:
                    last.add(attribute)
            elif (listed := self._appended_to(update, statement, own)) is not None:
                lists.append(listed)
            elif isinstance(statement, ast.If) and not any(isinstance(n, ast.Call) for n in ast.walk(statement.test)):
                kept = [_kept(s, own) for s in (*statement.body, *statement.orelse)]
                if None in kept:
                    return None
                last.update(filter(None, kept))
            else:
                return None
        stored = [*sums, *(m for m, _ in means), *last, *lists]
        if not sums or len(stored) != len(set(stored)):
            return None
        return Meter(tuple(sums), tuple(means), frozenset(last), tuple(lists))

    def _is_number(self, value: ast.expr, own: str, sums: list[str]) -> bool:
        """Whether a value is calculated from the sums alone, or from none of what a meter holds."""
        calls = [n for n in ast.walk(value) if isinstance(n, ast.Call)]
        called = {name for c in calls for name in self.program.called(c) or [""]}
        rows = [table.function(name) for name in called]
        if any(row is None or row.returns != "number" or row.effects for row in rows):
            return False
        read = _read_of(value, own)
        return not read or (read <= set(sums) and set(_names(value)) - called == {own})

    def _appended_to(self, update: Scope, statement: ast.stmt, own: str) -> str | None:
        """The list of a meter, new with each meter, that a statement puts what the meter was given into."""
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "append":
            return None
        attribute = _attribute(call.func.value, own)
        is_given = len(call.args) == 1 and not call.keywords and not _read_of(call.args[0], own)
        if attribute is None or not is_given or any(isinstance(n, ast.Call) for n in ast.walk(call.args[0])):
            return None
        made = [n for n in ast.walk(update.parent.node) if isinstance(n, ast.Assign)] if update.parent else []
        values = [n.value for n in made if any(_attribute(t, own) == attribute for t in n.targets)]
        return attribute if values and all(isinstance(v, ast.List) and not v.elts for v in values) else None


def _kept(statement: ast.stmt, own: str) -> str | None:
    """The attribute that gets what an update is given."""
    is_plain = isinstance(statement, ast.Assign) and len(statement.targets) == 1
    if not isinstance(statement, ast.Assign) or not is_plain or not isinstance(statement.value, ast.Name):
        return None
    return _attribute(statement.targets[0], own)


def _pattern(value: ast.expr, own: str) -> str:
    """An expression of a meter's own attributes, without its name."""
    return re.sub(rf"\b{own}\.", "{}.", ast.unparse(value))


def _attribute(node: ast.expr, own: str) -> str | None:
    is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == own
    return node.attr if is_own and isinstance(node, ast.Attribute) else None


def _read_of(node: ast.expr, own: str) -> set[str]:
    """The meter's own attributes that an expression reads."""
    return {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and _attribute(n, own) is not None}


def _names(node: ast.expr) -> list[str]:
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
