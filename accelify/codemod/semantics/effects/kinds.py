"""Which kinds of objects may an expression hold? In the terms of the table of libraries: `tensor`, `list`, `file`.

`UNKNOWN` is among them where something else may be held, too; an instance of one of the project's own classes is of the
kinds that its library bases make, and `OWN`.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import Row, Trait
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, returned
from accelify.codemod.semantics.values import (
    ClassValue,
    Collection,
    Constant,
    Element,
    External,
    FunctionValue,
    Instance,
    Made,
    Member,
    SuperOf,
    Value,
)

UNKNOWN = "?"
OWN = "own"
Held = frozenset[str]
_UNKNOWN: Held = frozenset({UNKNOWN})
_NOTHING: Held = frozenset()
_NUMBER: Held = frozenset({"number"})
_DEEPEST = 40  # variables whose kinds wait for that of another
_LISTED = frozenset({"list", "tuple", "set", "iterator"})
_ITSELF = frozenset({"tensor", "ndarray", "string", "bytes"})  # kinds whose items are of the same kind


class Kinds:
    """Look through names, attributes, calls and operators; each expression once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.flow = program.flow
        self._tracer = program.once(Tracer)
        self._known: dict[ast.AST, Held] = {}
        self._called: dict[ast.Call, tuple[Row, ...] | None] = {}
        self._variables: dict[object, Held] = {}
        self._returned: dict[Scope, Held] = {}
        self._open: dict[object, None] = {}  # variables that are being looked at, the innermost last
        self._assumed = 0  # how often a variable was met in its own value, of which it then adds nothing

    def of(self, node: ast.expr) -> Held:
        """The kinds that an expression may be of."""
        known = self._known.get(node)
        if known is not None:
            return known
        before, handler = self._assumed, _HANDLERS.get(type(node))
        found = handler(self, node) if handler is not None else _UNKNOWN
        if self._assumed == before:
            self._known[node] = found
        return found

    def rows(self, node: ast.expr, method: str) -> tuple[Row, ...] | None:
        """The rows of a method or attribute for the kinds that an object may be of; None where none has such a row.

        An object of a kind without it cannot be meant: it would raise.
        """
        found: list[Row] = []
        function = self.program.parent(node)
        for kind in sorted(self.of(node) - {OWN}):
            is_known = kind != UNKNOWN
            of_kind = self._row_called(function, kind, method) if is_known else self._of_any(node, method)
            if kind == UNKNOWN and not of_kind:
                return None
            found.extend(r for r in of_kind if r not in found)
        return tuple(found) or None

    def _kind_made(self, value: Value, method: str) -> str | None:
        """The kind of what a library made, or of a network of the script's own that does not define a method itself."""
        if isinstance(value, Instance):
            classes = [value.cls, *self.flow.descendants(value.cls)]
            is_own = any(self.flow.method(cls, method) is not None for cls in classes)
            return "module" if self.flow.is_module_class(value.cls) and not is_own else None
        if isinstance(value, Constant) and isinstance(value.value, str):
            return "string"
        return table.kind_made_by(value.name) if isinstance(value, Made) else None

    def _row_called(self, function: ast.AST | None, kind: str, method: str) -> tuple[Row, ...]:
        """The row of a kind's method, if the call of a function can be one of it."""
        return () if kind == "path" and not self._may_be_of_path(function, method) else _row_of(kind, method)

    def _of_any(self, node: ast.expr, method: str) -> tuple[Row, ...]:
        """The rows of the kinds that libraries made, as far as the value flow knows, else of all kinds.

        Without that of modules where no module can be: the value flow follows modules.
        """
        values = self.program.values(node)
        made = {self._kind_made(v, method) for v in values}
        if made and None not in made:
            known = [_row_of(kind, method) for kind in sorted(filter(None, made))]
            if all(known):
                return tuple(dict.fromkeys(row for each in known for row in each))
        rows, of_module = table.members(method), table.member("module", method)
        if not self._may_be_of_path(self.program.parent(node), method):
            of_path = table.member("path", method)
            rows = tuple(r for r in rows if r != of_path) or rows
        roots = [v.root if isinstance(v, Member) else v for v in values]
        if any(isinstance(r, Made) and r.name is not None and table.function(r.name) is None for r in roots):
            return ()  # of a library that the table does not know
        if "tensor" in self.of(node) or all(isinstance(v, Element) or _is_no_module(v) for v in values):
            return tuple(r for r in rows if r != of_module) or rows
        return rows

    def _may_be_of_path(self, function: ast.AST | None, method: str) -> bool:
        """Whether a path's method can be called so: `path.replace(target)`, and not `text.replace(old, new)`."""
        call = self.program.parent(function) if function is not None else None
        of_path = getattr(Path, method, None)
        if not isinstance(call, ast.Call) or call.func is not function or not inspect.isroutine(of_path):
            return True
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            return True
        given = {k.arg: k.value for k in call.keywords if k.arg is not None}
        try:
            inspect.signature(of_path).bind(None, *call.args, **given)
        except TypeError:
            return False
        except ValueError:
            return True  # nothing tells what it takes: `__subclasshook__`
        return True

    def method(self, call: ast.Call) -> ast.Attribute | None:
        """The method that a call runs of an object; None where it calls anything else, or a function of a module."""
        is_method = isinstance(call.func, ast.Attribute) and not self.name_of(call.func)
        return call.func if isinstance(call.func, ast.Attribute) and is_method else None

    def name_of(self, node: ast.expr) -> frozenset[str]:
        """The qualified names of what an expression names in libraries; in code that no value flows through, too."""
        if node in self.flow.values:
            return self.program.externals(node)
        root, path = node, []
        while isinstance(root, ast.Attribute):
            path.append(root.attr)
            root = root.value
        start = self._imported(root) if isinstance(root, ast.Name) else None
        return frozenset([".".join([start, *reversed(path)])] if start is not None else ())

    def _imported(self, node: ast.Name) -> str | None:
        owner = self.program.scope(node).owner(node.id)
        if owner is None:
            return node.id
        writes = owner.writes.get(node.id, ())
        alias = writes[0] if len(writes) == 1 else None
        if not isinstance(alias, ast.alias):
            return None
        statement = self.program.statement(alias)
        module = statement.module or "" if isinstance(statement, ast.ImportFrom) else alias.name
        level = statement.level if isinstance(statement, ast.ImportFrom) else 0
        if level or self.flow.module_named(self.program.path(node), module, 0) is not None:
            return None
        if isinstance(statement, ast.ImportFrom):
            return f"{module}.{alias.name}"
        return alias.name if alias.asname else node.id

    def called(self, node: ast.Call) -> tuple[Row, ...] | None:
        """The rows of the table for a library's function or method that a call may run; None where it has none."""
        if node in self._called:
            return self._called[node]
        before = self._assumed
        found = self._called_by(node)
        if self._assumed == before:
            self._called[node] = found
        return found

    def _called_by(self, node: ast.Call) -> tuple[Row, ...] | None:
        named = self.name_of(node.func)
        if named:
            rows = [table.function(n) for n in sorted(named)]
            return None if None in rows else tuple(r for r in rows if r is not None)
        if isinstance(node.func, ast.Attribute):
            if any(isinstance(v, SuperOf) for v in self.program.values(node.func.value)):
                return self._of_super(node)
            return self.rows(node.func.value, node.func.attr) or self._of_kept(node.func)
        return self.rows(node.func, "__call__") if self.of(node.func) != {UNKNOWN} else self._of_kept(node.func)

    def _of_kept(self, function: ast.expr) -> tuple[Row, ...] | None:
        """The rows of methods that are kept under another name: `self.log = logging.getLogger(__name__).info`."""
        held, rows = self.program.values(function), dict[Row, None]()
        for value in held:
            owner = value.owner if isinstance(value, Member) else None
            kind = table.kind_made_by(owner.name) if isinstance(owner, Made) else None
            found = _row_of(kind, value.name) if kind is not None and isinstance(value, Member) else ()
            if kind == "path" and isinstance(value, Member) and not self._may_be_of_path(function, value.name):
                continue
            if not found or any(row.mutates or row.returns == "self" for row in found):
                return None  # whose object cannot be seen here
            rows.update(dict.fromkeys(found))
        return tuple(sorted(rows, key=str)) or None

    def _of_super(self, node: ast.Call) -> tuple[Row, ...] | None:
        """`super().__init__()` of a class whose bases are a library's, or none."""
        assert isinstance(node.func, ast.Attribute)
        classes = {v.cls for v in self.program.values(node.func.value) if isinstance(v, SuperOf)}
        found: list[Row] = []
        for base in sorted({b for cls in classes for b in self.flow.external_bases(cls)}):
            row = table.function(base)
            if row is not None and node.func.attr != "__init__":
                row = table.member(row.returns, node.func.attr)
            if row is None:
                return None
            found.append(row)
        return tuple(found) if found or node.func.attr == "__init__" else None

    # Expressions.

    def _constant(self, node: ast.Constant) -> Held:
        return frozenset({_kind_of_constant(node.value)})

    def _either(self, node: ast.BoolOp | ast.IfExp | ast.NamedExpr | ast.Starred) -> Held:
        if isinstance(node, ast.BoolOp):
            return _united(map(self.of, node.values))
        if isinstance(node, ast.IfExp):
            return self.of(node.body) | self.of(node.orelse)
        return self.of(node.value)

    def _operated(self, *nodes: ast.expr) -> Held:
        """The kind of an operator's result: that of its operands; with a number, that of the other."""
        held = _united(map(self.of, nodes))
        for kind in ("tensor", "ndarray"):
            if kind in held and not held & {UNKNOWN, OWN}:
                return frozenset({kind})
        return held - _NUMBER or held

    def _binary(self, node: ast.BinOp) -> Held:
        held = self.of(node.left)
        if held == {"string"}:
            return held
        if held == self.of(node.right) == {"datetime"}:
            return frozenset({"timedelta"})
        return self._operated(node.left, node.right)

    def _compare(self, node: ast.Compare) -> Held:
        if isinstance(node.ops[0], (ast.In, ast.NotIn, ast.Is, ast.IsNot)):
            return _NUMBER
        held = self._operated(node.left, *node.comparators)
        return frozenset("number" if k in ("string", "none", "list", "tuple", "dict", "set") else k for k in held)

    def _unary(self, node: ast.UnaryOp) -> Held:
        return _NUMBER if isinstance(node.op, ast.Not) else self.of(node.operand)

    def _subscript(self, node: ast.Subscript) -> Held:
        found = set()
        for kind in self.of(node.value):
            is_itself = kind in _ITSELF or (isinstance(node.slice, ast.Slice) and kind in ("list", "tuple"))
            found.add(kind if is_itself else UNKNOWN)
        return frozenset(found)

    def _call(self, node: ast.Call) -> Held:
        callees = self.flow.callees.get(node)
        values = self.program.values(node.func)
        classes = [v.scope for v in values if isinstance(v, ClassValue)]
        if classes:
            return _united(map(self._of_class, classes))
        if callees:
            return _united(self._of_function(c) for c in callees)
        named = self.name_of(node.func)
        if named:
            return _united(self._of_row(table.function(n), node, None) for n in named)
        if isinstance(node.func, ast.Attribute):
            found = self._of_method(node, node.func.value, node.func.attr)
            if found != _UNKNOWN or UNKNOWN in self.of(node.func):
                return found
        return self._of_method(node, node.func, "__call__")  # also of an object in an attribute: `self.criterion(x, y)`

    def _of_method(self, node: ast.Call, owner: ast.expr, name: str) -> Held:
        held = self.of(owner)
        if held == {UNKNOWN}:
            rows = table.members(name)
            return _united(self._of_row(r, node, None) for r in rows) if rows else _UNKNOWN
        known = {kind: row for kind in held if (row := table.member(kind, name)) is not None}
        return _united(self._of_row(row, node, kind) for kind, row in known.items()) or _UNKNOWN

    def _of_row(self, row: Row | None, node: ast.Call, kind: str | None) -> Held:
        if row is None or row.returns is None:
            return _UNKNOWN
        if row.returns == "self":
            return frozenset({kind or UNKNOWN})
        if row.returns == "argument":
            return self.of(node.args[0]) if node.args else _UNKNOWN
        if row.returns == "number" and row.has(Trait.LIKE_ARGUMENT):
            return _united(map(self._number_or_items, node.args)) or _NUMBER
        return frozenset({row.returns})

    def _number_or_items(self, given: ast.expr) -> Held:
        """What a function of numbers makes of an argument, or of its items: `abs(x)`, `sum(losses)`, `max(x, 0)`."""
        held = self.of(given)
        comprehensions = (ast.ListComp, ast.SetComp, ast.GeneratorExp)
        items = self.of(given.elt) if isinstance(given, comprehensions) else self._element(given)
        known = (held | items) & {"tensor", "ndarray", "number"}
        return known or (_NUMBER | items if held <= _LISTED else _NUMBER)

    def _of_class(self, cls: Scope) -> Held:
        rows = [table.function(name) for name in self.flow.external_bases(cls)]
        kinds = [UNKNOWN if row is None else row.returns for row in rows]
        return frozenset({OWN, *(k for k in kinds if k is not None)})

    def _of_function(self, function: Scope) -> Held:
        if function.generates:
            return frozenset({"iterator"})
        if function not in self._returned:
            self._returned[function] = _UNKNOWN
            given = returned([function])
            held = _united(self.of(g) if g is not None else frozenset({"none"}) for g in given)
            self._returned[function] = held or frozenset({"none"})
        return self._returned[function]

    # Names and attributes.

    def _name(self, node: ast.Name) -> Held:
        owner = self.program.scope(node).owner(node.id)
        if owner is None:
            return frozenset({"number"}) if node.id in ("__debug__",) else _UNKNOWN
        writes = self._tracer.writes(owner, node.id)
        if node in self.program.flow.rebound:
            values = [(owner, w) for w in writes if not isinstance(w, ast.alias)]
            return self._of_place((owner, node.id, ast.alias), values) or _UNKNOWN
        if writes and all(isinstance(w, ast.alias) for w in writes):
            return self._of_imported(node)
        if len(writes) > 1 and (opened := self._opened_round(node, writes)) is not None:
            return self.of(opened)
        return self._of_place((owner, node.id), [(owner, w) for w in writes]) or _UNKNOWN

    def _of_imported(self, node: ast.Name) -> Held:
        """The kind of a list, dict or set that another file of the project has made."""
        made = [v.node for v in self.program.values(node) if isinstance(v, Collection)]
        is_known = 0 < len(made) == len(self.program.values(node))
        return _united(self.of(n) for n in made if isinstance(n, ast.expr)) if is_known else _UNKNOWN

    def _opened_round(self, node: ast.Name, writes: Sequence[ast.AST]) -> ast.expr | None:
        """What a name stands for inside `with open(path) as name`, whatever it is elsewhere."""
        for around in self.program.ancestors(node):
            if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                return None
            for item in around.items if isinstance(around, (ast.With, ast.AsyncWith)) else ():
                if item.optional_vars in writes and isinstance(item.optional_vars, ast.Name):
                    is_only = not any(w is not item.optional_vars and self.program.inside(w, around) for w in writes)
                    return item.context_expr if is_only else None
        return None

    def _of_place(self, key: object, writes: Sequence[tuple[Scope, ast.AST]]) -> Held:
        """The kinds that a variable or attribute gets anywhere."""
        if key in self._variables:
            return self._variables[key]
        if key in self._open or len(self._open) > _DEEPEST:
            self._assumed += 1
            return _NOTHING if next(reversed(self._open)) == key else _UNKNOWN
        self._open[key] = None
        self._variables[key] = _united(self._bound(owner, w) for owner, w in writes)
        del self._open[key]
        return self._variables[key]

    def _bound(self, owner: Scope, write: ast.AST) -> Held:
        if isinstance(write, ast.arg):
            return self._parameter(owner, write)
        if isinstance(write, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return frozenset({"function"})
        if not isinstance(write, ast.expr):
            return _UNKNOWN
        holder = self.program.parent(write)
        if isinstance(holder, ast.AugAssign):
            return self.of(holder.value)
        if isinstance(holder, ast.NamedExpr):
            return self.of(holder.value)
        if self._is_counted(write):
            return _NUMBER
        if self._is_name_of_file(write):
            return frozenset({"string"})
        if isinstance(holder, (*LOOPS, ast.comprehension)) and not isinstance(holder, ast.While):
            return self._element(holder.iter)
        value = self._tracer.assigned(write)
        if value is not None:
            return self.of(value)
        parts = self._returned_parts(write)
        return _united(map(self.of, parts)) or self._unpacked(write) or self._of_values(self.program.values(write))

    def _unpacked(self, target: ast.expr) -> Held:
        """The kind of a part of what a call gives, if that is the kind of all parts: `scores, best = x.max(1)`."""
        value, path = self.program.assigned(target)
        held = self.of(value) if path and isinstance(value, ast.Call) else _NOTHING
        return held if held <= _ITSELF else _NOTHING

    def _returned_parts(self, target: ast.expr) -> list[ast.expr]:
        """What functions of the project return for one of several targets: `loss` of `loss, n = step(batch)`."""
        call, path = self.program.assigned(target)
        targets = self.program.parent(target)
        callees = self.flow.callees.get(call, ()) if isinstance(call, ast.Call) and len(path) == 1 else ()
        if not isinstance(targets, (ast.Tuple, ast.List)) or any(callee.generates for callee in callees):
            return []
        given = returned(callees)
        whole = [g.elts for g in given if isinstance(g, ast.Tuple) and len(g.elts) == len(targets.elts)]
        if len(whole) < len(given) or any(isinstance(e, ast.Starred) for each in (targets.elts, *whole) for e in each):
            return []
        return [each[path[0]] for each in whole]

    def _is_counted(self, target: ast.expr) -> bool:
        """Whether a loop's variable is a number, however the loop is written: `for i in tqdm(range(n))`."""
        owners = [v.owner if isinstance(v, Element) else None for v in self.program.values(target)]
        return bool(owners) and all(isinstance(o, Made) and names.is_counter(o.name) for o in owners)

    def _is_name_of_file(self, target: ast.expr) -> bool:
        """Whether a loop's variable is the name of a file: `for f in sorted(os.listdir(folder))`."""
        owners = [v.owner if isinstance(v, Element) else None for v in self.program.values(target)]
        rows = [table.function(o.name) if isinstance(o, Made) else None for o in owners]
        return bool(rows) and all(row is not None and row.has(Trait.GIVES_NAMES) for row in rows)

    def _element(self, over: ast.expr) -> Held:
        if isinstance(over, (ast.List, ast.Tuple, ast.Set)) and over.elts:
            return _united(map(self.of, over.elts))
        return frozenset(k if k in _ITSELF else UNKNOWN for k in self.of(over))

    def _parameter(self, function: Scope, parameter: ast.arg) -> Held:
        method = function.is_method and not function.is_static
        if method and function.parameters and parameter is function.parameters[0] and function.parent is not None:
            return self._of_class(function.parent)
        callers = self.flow.callers.get(function, ())
        if not callers or function in self.flow.lost:
            return _UNKNOWN
        given = [self._tracer.given(c, function, parameter.arg) for c in callers]
        return _united(_UNKNOWN if g is None else self.of(g) for g in given)

    def _attribute(self, node: ast.Attribute) -> Held:
        owners = self.program.values(node.value)
        classes = {v.cls for v in owners if isinstance(v, Instance)}
        writes: list[tuple[Scope, ast.AST]] = []
        for write in self.program.attribute_writes.get(node.attr, ()):
            holders = self.program.values(write.value)
            family = {v.cls for v in holders if isinstance(v, Instance)}
            if holders & owners or classes & family or not owners or not holders:
                writes.append((self.program.frame(write), write))
        found = set(self._of_place((node.attr, tuple(w for _, w in writes)), writes)) if writes else set()
        for cls in classes:
            getter = self.flow.method(cls, node.attr)
            if getter is not None:
                found |= self._of_function(getter) if getter.is_property else {"function"}
        if found:
            return frozenset(found)
        return self._of_member(node)

    def _of_member(self, node: ast.Attribute) -> Held:
        """The kind of an attribute of a library's object or module."""
        named = self.name_of(node)
        if named:
            return _united(_kind_of(table.function(n)) for n in named)
        held = self.of(node.value) - {OWN}
        if held == {UNKNOWN} or not held:
            rows = table.members(node.attr)
            return _united(map(_kind_of, rows)) if rows else self._of_values(self.program.values(node))
        return _united(_kind_of(table.member(kind, node.attr)) for kind in held)

    # Values.

    def _of_values(self, values: Iterable[Value]) -> Held:
        return _united(map(self._of_value, values)) or _UNKNOWN

    def _of_value(self, value: Value) -> Held:
        if isinstance(value, Constant):
            return frozenset({_kind_of_constant(value.value)})
        if isinstance(value, Instance):
            return self._of_class(value.cls)
        if isinstance(value, (FunctionValue, ClassValue)):
            return frozenset({"function"})
        if isinstance(value, Made) and value.name is not None:
            return _kind_of(table.function(value.name))
        if isinstance(value, External):
            return _kind_of(table.function(value.name))
        return _UNKNOWN


def tells_about(node: ast.expr) -> bool:
    """`x.shape[0]`: what a tensor says of itself is no tensor."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute) and methods.is_about(node.attr):
            return True
        node = node.value
    return False


def _row_of(kind: str, method: str) -> tuple[Row, ...]:
    row = table.member(kind, method)
    return () if row is None else (row,)


def _kind_of(row: Row | None) -> Held:
    return _UNKNOWN if row is None or row.returns in (None, "self", "argument") else frozenset({str(row.returns)})


def _kind_of_constant(value: object) -> str:
    if value is None:
        return "none"
    return "string" if isinstance(value, str) else "bytes" if isinstance(value, bytes) else "number"


def _united(held: Iterable[Held]) -> Held:
    return frozenset(k for each in held for k in each)


def _always(kind: str) -> Callable[[Kinds, Any], Held]:
    return lambda kinds, node: frozenset({kind})


_HANDLERS: dict[type, Callable[[Kinds, Any], Held]] = {
    ast.Constant: Kinds._constant,
    ast.Name: Kinds._name,
    ast.Attribute: Kinds._attribute,
    ast.Subscript: Kinds._subscript,
    ast.Call: Kinds._call,
    ast.BinOp: Kinds._binary,
    ast.Compare: Kinds._compare,
    ast.UnaryOp: Kinds._unary,
    **dict.fromkeys((ast.BoolOp, ast.IfExp, ast.NamedExpr, ast.Starred), Kinds._either),
    ast.JoinedStr: _always("string"),
    **dict.fromkeys((ast.List, ast.ListComp), _always("list")),
    **dict.fromkeys((ast.Dict, ast.DictComp), _always("dict")),
    **dict.fromkeys((ast.Set, ast.SetComp), _always("set")),
    ast.Tuple: _always("tuple"),
    ast.GeneratorExp: _always("iterator"),
    ast.Lambda: _always("function"),
}


def _is_no_module(value: Value) -> bool:
    """Whether a library made an object of another kind."""
    kind = table.kind_made_by(value.name) if isinstance(value, Made) else None
    return kind is not None and not table.is_kind(kind, "module")
