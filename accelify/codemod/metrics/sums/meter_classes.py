"""Meters of the project's own: objects one of whose methods adds what it is given to sums, or keeps it in lists."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from accelify.codemod.libraries import methods, table
from accelify.codemod.metrics.sums.zeros import is_table_of_zeros
from accelify.codemod.metrics.updates import assigned_to
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, names_in
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


@dataclass
class _Found:
    """What a method of a meter keeps, as far as it was read; own: its name for the object."""

    own: str
    sums: list[str] = field(default_factory=list)
    means: list[tuple[str, str]] = field(default_factory=list)
    last: set[str] = field(default_factory=set)
    lists: list[str] = field(default_factory=list)
    is_of_arguments: bool = False


class Meters:
    """Read the classes of meters."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def updated_by(self, call: ast.Call) -> tuple[ast.expr, Meter] | None:
        """The meter that a call updates, `meter.update(x)` or `meter(x)`, and its kind; None for any other call."""
        function = call.func
        is_method = isinstance(function, ast.Attribute) and not self._is_instance(function)
        if not call.args and not call.keywords:
            return None
        place, name = (function.value, function.attr) if is_method else (function, "__call__")  # type: ignore[attr-defined]  # an attribute
        meter = self.of(place, name)
        return None if meter is None else (place, meter)

    def of(self, node: ast.expr, method: str = "update") -> Meter | None:
        """The kind of meter that an expression is, as one of its methods fills it; None for anything else."""
        values = self.program.values(node)
        classes = {v.cls for v in values if isinstance(v, Instance)}
        if len(classes) != 1 or len(classes) < len({type(v) for v in values}):
            return None
        cls = classes.pop()
        update = self.program.flow.method(cls, method)
        return None if update is None else self._read(update)

    def _is_instance(self, node: ast.expr) -> bool:
        return any(isinstance(v, Instance) for v in self.program.values(node))

    def _read(self, update: Scope) -> Meter | None:
        function = update.node
        if not isinstance(function, ast.FunctionDef) or not function.args.args or function.decorator_list:
            return None
        found = _Found(function.args.args[0].arg)
        if not all(self._take(update, statement, found) for statement in function.body):
            return None
        stored = [*found.sums, *(m for m, _ in found.means), *found.last, *found.lists]
        if not found.is_of_arguments or len(stored) != len(set(stored)):
            return None
        return Meter(tuple(found.sums), tuple(found.means), frozenset(found.last), tuple(found.lists))

    def _take(self, update: Scope, statement: ast.stmt, found: _Found) -> bool:
        """Take in what a statement of a method keeps; False where it does anything else."""
        own = found.own
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return True
        if (added := self._added_to(update, statement, own)) is not None:
            found.sums.append(added[0])
            found.is_of_arguments |= bool(names_in(added[1]))
            return True
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            if isinstance(statement.targets[0], ast.Name):
                return self._is_plain(statement.value, own)
            return self._take_number(statement.targets[0], statement.value, found)
        if (listed := self._appended_to(update, statement, own)) is not None:
            found.lists.append(listed)
            found.is_of_arguments = True
            return True
        if not isinstance(statement, ast.If):
            return False
        inner = [*statement.body, *statement.orelse]
        if not _read_of(statement.test, own) and all(self._binds_anew(s, own) for s in inner):
            return self._is_plain(statement.test, own)
        kept = [_kept(s, own) for s in inner]
        found.last.update(filter(None, kept))
        return None not in kept and not any(isinstance(n, ast.Call) for n in ast.walk(statement.test))

    def _take_number(self, target: ast.expr, value: ast.expr, found: _Found) -> bool:
        """Take in a mean of the sums, or what the last update left."""
        attribute = _attribute(target, found.own)
        if attribute is None or not self._is_number(value, found.own, found.sums):
            return False
        if _read_of(value, found.own):
            found.means.append((attribute, _pattern(value, found.own)))
        else:
            found.last.add(attribute)
        return True

    def _added_to(self, update: Scope, statement: ast.stmt, own: str) -> tuple[str, ast.expr] | None:
        """The attribute that a statement adds to, and what: `self.sum += x`, `self.sums[key] = self.sums[key] + x`."""
        target, value = _addition(statement)
        if target is None or value is None:
            return None
        is_keyed = isinstance(target, ast.Subscript) and not _read_of(target.slice, own)
        attribute = _attribute(target.value if is_keyed and isinstance(target, ast.Subscript) else target, own)
        if attribute is None or _read_of(value, own) or (is_keyed and not self._is_table(update, attribute, own)):
            return None
        return attribute, value

    def _is_table(self, update: Scope, attribute: str, own: str) -> bool:
        """Whether an attribute is always a dict or list of zeros that its object has for itself."""
        values = self._given(update, attribute, own)
        chains = self.program.once(Chains)
        return bool(values) and all(is_table_of_zeros(chains, v) for v in values)

    def _given(self, update: Scope, attribute: str, own: str) -> list[ast.expr | None]:
        """What the methods of a class give an attribute of its objects; None for what is not known."""
        parts = [n for n in ast.walk(update.parent.node) if isinstance(n, ast.Attribute)] if update.parent else []
        stored = [n for n in parts if isinstance(n.ctx, ast.Store) and _attribute(n, own) == attribute]
        return [assigned_to(self.program, n) for n in stored]

    def _binds_anew(self, statement: ast.stmt, own: str) -> bool:
        """Whether a statement only gives a variable another form of what an update was given: `x = x.item()`."""
        if not isinstance(statement, ast.Assign) or not all(isinstance(t, ast.Name) for t in statement.targets):
            return False
        return self._is_plain(statement.value, own)

    def _is_plain(self, value: ast.expr, own: str) -> bool:
        """Whether an expression reads nothing that a meter holds, and calls only what gives other forms of numbers."""
        return not _read_of(value, own) and all(
            self._gives_number(n) for n in ast.walk(value) if isinstance(n, ast.Call)
        )

    def _gives_number(self, call: ast.Call) -> bool:
        if isinstance(call.func, ast.Attribute) and methods.keeps_values(call.func.attr):
            return True
        rows = [table.function(name) for name in self.program.called(call) or [""]]
        return all(row is not None and row.returns == "number" and not row.effects for row in rows)

    def _is_number(self, value: ast.expr, own: str, sums: list[str]) -> bool:
        """Whether a value is calculated from the sums alone, or from none of what a meter holds."""
        calls = [n for n in ast.walk(value) if isinstance(n, ast.Call)]
        called = {name for c in calls for name in self.program.called(c) or [""]}
        rows = [table.function(name) for name in called]
        if any(row is None or row.returns != "number" or row.effects for row in rows):
            return False
        read = _read_of(value, own)
        return not read or (read <= set(sums) and names_in(value) - called == {own})

    def _appended_to(self, update: Scope, statement: ast.stmt, own: str) -> str | None:
        """The list of a meter, new with each meter, that a statement puts what the meter was given into."""
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "append":
            return None
        attribute = _attribute(call.func.value, own)
        is_given = len(call.args) == 1 and not call.keywords and not _read_of(call.args[0], own)
        if attribute is None or not is_given or any(isinstance(n, ast.Call) for n in ast.walk(call.args[0])):
            return None
        values = self._given(update, attribute, own)
        return attribute if values and all(isinstance(v, ast.List) and not v.elts for v in values) else None


def _addition(statement: ast.stmt) -> tuple[ast.expr | None, ast.expr | None]:
    """What a statement adds to, and what: `a` and `x` of `a += x` and `a = a + x`; None if it does anything else."""
    if isinstance(statement, ast.AugAssign):
        return (statement.target, statement.value) if isinstance(statement.op, ast.Add) else (None, None)
    value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(statement, ast.Assign) or not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return None, None
    target = statement.targets[0]
    return (target, value.right) if ast.unparse(value.left) == ast.unparse(target) else (None, None)


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
