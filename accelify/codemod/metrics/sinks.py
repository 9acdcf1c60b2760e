"""Where does a value leave the training: shown, saved, returned to a caller that is not seen, or decided by?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum

from accelify.codemod.libraries import names, table
from accelify.codemod.libraries.row import SHOWN, Effect, Role, Row
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.conditions import Conditions
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Element, Made, Member, Value

_DECIDING = (ast.If, ast.While, ast.Assert)
_LEAVING = (*_DECIDING, ast.Call, ast.Return, ast.Yield, ast.Match, ast.Assign, ast.AugAssign)
_DRAWN_FROM = frozenset({Role.DATASET, Role.SAMPLER, Role.LOADER})
_WRITES = frozenset({Effect.WRITES_FILES, Effect.ASKS_NETWORK})


class Way(Enum):
    """How a value leaves."""

    SHOWN = "shown"
    SAVED = "saved"
    RETURNED = "returned"
    DECIDED = "decided by"
    HANDED_OVER = "handed to code that is not known, or that chooses data by it"


@dataclass(frozen=True, slots=True)
class Sink:
    """An expression whose value leaves, and the call or statement by which it does.

    end: that of the function that is given the value, if it leaves there.
    """

    way: Way
    value: ast.expr
    node: ast.AST
    end: ast.AST | None = None


class Sinks:
    """Find them in the functions that may run."""

    def __init__(self, chains: Chains) -> None:
        self.chains = chains
        self.program = chains.program

    def find(self) -> Iterator[Sink]:
        """The sinks of a program, file by file in the order of the text."""
        conditions = self.program.once(Conditions)
        for parsed in self.program.files:
            nodes = (n for n in parsed.parents if isinstance(n, _LEAVING))
            for node in sorted(nodes, key=self.program.position):
                if self._is_run(node) and not conditions.is_off(node):
                    yield from self._at(node)

    def _is_run(self, node: ast.AST) -> bool:
        """Whether a node may run: in a function, or in a lambda, whatever made that."""
        scope = self.program.scope(node)
        while scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        return not self.program.reachable.isdisjoint((scope, self.program.frame(node)))

    def _at(self, node: ast.AST) -> Iterator[Sink]:
        if isinstance(node, ast.Call):
            yield from self._given_to(node)
            yield from self._decided_by_schedule(node)
        elif isinstance(node, _DECIDING):
            yield Sink(Way.DECIDED, node.test, node)
        elif isinstance(node, ast.Match):
            yield Sink(Way.DECIDED, node.subject, node)
        elif isinstance(node, (ast.Return, ast.Yield)):
            yield from self._returned(node)
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(map(self._is_on_a_bar, targets)) or any(map(self._is_in_a_run, targets)):
                yield Sink(Way.SHOWN, node.value, node)
            elif any(map(self._is_a_setting, targets)):
                yield Sink(Way.DECIDED, node.value, node)

    def _decided_by_schedule(self, call: ast.Call) -> Iterator[Sink]:
        """`scheduler.step(loss)`, of a schedule that goes by what it is given."""
        if isinstance(call.func, ast.Attribute) and "plateau_scheduler" in self.chains.kinds.of(call.func.value):
            yield from (Sink(Way.DECIDED, given, call) for given in call.args)

    def _is_a_setting(self, target: ast.expr) -> bool:
        """`group["lr"] = ...` for a group of an optimizer."""
        values = self.program.values(target.value) if isinstance(target, (ast.Subscript, ast.Attribute)) else ()
        return any(isinstance(v, Element | Member) and self._is_of_optimizer(v) for v in values)

    def _is_of_optimizer(self, value: Value) -> bool:
        while isinstance(value, Element | Member):
            value = value.owner
        row = table.function(value.name) if isinstance(value, Made) else None
        return row is not None and row.role is Role.OPTIMIZER

    def _is_on_a_bar(self, target: ast.expr) -> bool:
        """`bar.desc = ...`"""
        return isinstance(target, ast.Attribute) and "progress" in self.chains.kinds.of(target.value)

    def _is_in_a_run(self, node: ast.expr) -> bool:
        """`run["train/loss"]` and `run["train/loss"].append`, of a run that a tracker has begun."""
        is_part = False
        while isinstance(node, (ast.Subscript, ast.Attribute)):
            node, is_part = node.value, True
        held = self.program.values(node) if is_part else ()
        return any(isinstance(v, Made) and names.begins_run(v.name) for v in held)

    def _returned(self, node: ast.Return | ast.Yield) -> Iterator[Sink]:
        function = self.program.frame(node)
        has_callers = bool(self.program.flow.callers.get(function)) or function.kind != "function"
        if node.value is not None and not has_callers and not self._is_run_in_a_step(function):
            yield Sink(Way.RETURNED, node.value, node)

    def _is_run_in_a_step(self, function: Scope) -> bool:
        """Whether an optimizer runs a function: `optimizer.step(closure)` gives back what that gives."""
        calls = (self.program.parent(node) for node, given in self.program.flow.handed_on if given is function)
        asked = (c.func.value for c in calls if isinstance(c, ast.Call) and isinstance(c.func, ast.Attribute))
        return any(self._is_of_optimizer(v) for owner in asked for v in self.program.values(owner))

    def _given_to(self, call: ast.Call) -> Iterator[Sink]:
        if self.program.flow.callees.get(call):
            return
        way = self._way(call)
        if way is not None:
            for given in [*call.args, *(k.value for k in call.keywords)]:
                yield from (Sink(way, part, call) for part in self._parts(given))
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if way is Way.SAVED and owner is not None and not self.chains.kinds.name_of(call.func):
                yield Sink(way, owner, call)  # `table.to_csv(path)`

    def _parts(self, node: ast.expr) -> Iterator[ast.expr]:
        """The values that leave side by side: of `f"{a} {b}"`, `"%d %d" % (a, b)`, `"{}".format(a)`, `{"a": a}`."""
        inner: list[ast.expr] = []
        if isinstance(node, (ast.Starred, ast.FormattedValue)):
            inner = [node.value]
        elif isinstance(node, ast.JoinedStr):
            inner = node.values
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            inner = node.elts
        elif isinstance(node, ast.Dict):
            inner = [*(k for k in node.keys if k is not None), *node.values]
        elif self.chains.kinds.of(node) == {"string"} and isinstance(node, ast.BinOp):
            inner = [node.left, node.right]
        elif isinstance(node, ast.Call) and self._is_of_text(node.func):
            inner = [*node.args, *(k.value for k in node.keywords)]
        if not inner:
            yield node
        for part in inner:
            yield from self._parts(part)

    def _is_of_text(self, function: ast.expr) -> bool:
        """`"...".format`"""
        return isinstance(function, ast.Attribute) and self.chains.kinds.of(function.value) == {"string"}

    def _way(self, call: ast.Call) -> Way | None:
        if self._is_in_a_run(call.func):
            return Way.SHOWN
        rows = self.chains.kinds.called(call)
        if rows is None:
            is_alone = isinstance(self.program.parent(call), ast.Expr)
            return Way.HANDED_OVER if is_alone else None
        return self._of_rows(rows)

    @staticmethod
    def _of_rows(rows: Collection[Row]) -> Way | None:
        found = {_way(row) for row in rows}
        is_data = any(row.role in _DRAWN_FROM for row in rows)
        kept = Way.HANDED_OVER if is_data else None
        return Way.SHOWN if Way.SHOWN in found else Way.SAVED if Way.SAVED in found else kept


def leaves(row: Row) -> bool:
    """Whether what a library's function is given is shown or written down, and kept no longer."""
    return _way(row) is not None


def _way(row: Row) -> Way | None:
    if row.effects & SHOWN or (row.role is Role.LOGGER and row.effects):
        return Way.SHOWN
    return Way.SAVED if row.effects & _WRITES else None
