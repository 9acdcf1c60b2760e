"""The values of each kind of expression, and the places where an assignment puts them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any

from accelify.codemod.libraries import table
from accelify.codemod.semantics.dataflow.calls import Calls
from accelify.codemod.semantics.dataflow.containers import device_of, only
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import (
    NOTHING,
    Collection,
    Constant,
    Element,
    External,
    FunctionValue,
    Instance,
    Made,
    ModuleValue,
    Parameters,
    Value,
    Values,
)


class Expressions(Calls):
    """The values of each kind of expression, and the changes that an assignment makes."""

    def eval(self, node: ast.expr) -> Values:
        """The values that an expression may have; remembered for the rules."""
        handler = _EVALUATORS.get(type(node))
        values = handler(self, node) if handler is not None else self._children(node)
        known = self.values.get(node)
        if known is None:
            self.values[node] = values
        elif not values <= known:
            self.values[node] = known | values
        return values

    def _children(self, node: ast.AST) -> Values:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.eval(child)
            elif not isinstance(child, (ast.operator, ast.expr_context, ast.cmpop, ast.boolop, ast.unaryop)):
                self._children(child)
        return NOTHING

    # Assignment.

    def _set_name(self, scope: Scope, name: str, values: Values) -> None:
        owner = scope.owner(name) or scope
        self._add(("var", owner, name), values)

    def _assign(self, target: ast.expr, values: Values, source: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self._set_name(self.scope_of[target], target.id, values)
            self.values[target] = self.values.get(target, NOTHING) | values
        elif isinstance(target, ast.Starred):
            self._assign(target.value, values, None)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, values, source)
        elif isinstance(target, ast.Attribute):
            for owner in self.eval(target.value):
                self._set_attribute(owner, target.attr, values)
                if isinstance(owner, External):
                    self._run_by_library(target, values)
                for value in values if target.attr == "__dict__" else ():
                    self._keep_all(owner, value)
            self.values[target] = self.values.get(target, NOTHING) | values
        elif isinstance(target, ast.Subscript):
            key = self._literal(target.slice)
            self.eval(target.slice)
            for owner in self.eval(target.value):
                self._put_into(owner, key, values, () if source is None else (source,))

    def _unpack(self, target: ast.Tuple | ast.List, values: Values, source: ast.expr | None) -> None:
        if isinstance(source, (ast.Tuple, ast.List)) and len(source.elts) == len(target.elts):
            for part, expression in zip(target.elts, source.elts, strict=True):
                self._assign(part, self.eval(expression), expression)
            return
        starred = next((i for i, part in enumerate(target.elts) if isinstance(part, ast.Starred)), len(target.elts))
        for index, part in enumerate(target.elts):
            if isinstance(part, ast.Starred):
                self._assign(part, self._rest_of(part, values), None)
                continue
            key = index if index < starred else ("-", len(target.elts) - index)
            self._assign(part, frozenset(v for value in values for v in self._item(value, key)), None)

    def _rest_of(self, target: ast.Starred, values: Values) -> Values:
        """The list that `*rest` is given: of which items is left open."""
        items = frozenset(v for value in values for v in self._item(value, "*"))
        self._put(target, "*", items)
        return frozenset({Collection(target)}) | only(items, (Parameters, Element))

    def _assign_elements(self, target: ast.expr, values: Values) -> None:
        found: set[Value] = set()
        for value in values:
            found |= self.elements(value)
        self._assign(target, frozenset(found), None)

    # Names and parts.

    def _constant(self, node: ast.Constant) -> Values:
        return (
            frozenset({Constant(node.value)})
            if isinstance(node.value, (str, int, bool)) or node.value is None
            else NOTHING
        )

    def _name(self, node: ast.Name) -> Values:
        scope = self.scope_of[node]
        owner = scope.owner(node.id)
        if owner is None:
            starred = _starred_name(node.id, scope.root.star_imports)
            if starred is not None:
                return frozenset({External(starred)})
            if scope.root.starred and not hasattr(builtins, node.id):  # what a `*` brings may be known later
                return self._get(("var", scope.root, node.id))
            return frozenset({External(node.id)})
        values = self._get(("var", owner, node.id))
        if owner is scope and self._is_rebound(node, owner):
            self.rebound.add(node)
            imported = {External(w.name) for w in owner.writes_of(node.id) if isinstance(w, ast.alias)}
            values = frozenset(v for v in values if not isinstance(v, ModuleValue) and v not in imported)
        self._note_escape(node, values)
        return values

    def _is_rebound(self, node: ast.Name, owner: Scope) -> bool:
        """Whether a module's name has got another value before it is read: `import loss`, `loss = criterion(y)`."""
        writes = owner.writes_of(node.id)
        if len(writes) < 2 or not any(isinstance(w, ast.alias) for w in writes):
            return False
        parents = self.parsed_of[self.path_of_root[owner.root]].parents
        statements = [_statement(w, parents) for w in writes]
        known = [s for s in statements if isinstance(s, (ast.Import, ast.Assign, ast.AnnAssign, ast.For))]
        current: ast.AST = _statement(node, parents)
        while current is not owner.node:
            around = parents[current]
            blocks = (b for b in vars(around).values() if isinstance(b, list) and current in b)
            before = [s for block in blocks for s in block[: block.index(current)] if s in known]
            if before or around in known:
                return not before or not isinstance(before[-1], ast.Import)
            current = around
        return False

    def _note_escape(self, node: ast.expr, values: Values) -> None:
        partials = [v.node for v in values if isinstance(v, Made) and v.name == "functools.partial"]
        for value in [*values, *(v for partial in partials for v in self._get(("item", partial, 0)))]:
            if isinstance(value, FunctionValue):
                parsed = self.parsed_of[self.path_of_root[self.scope_of[node].root]]
                parent = parsed.parents.get(node)
                called = isinstance(parent, ast.Call) and parent.func is node
                if not called:
                    self.escaped.add(value.scope)
                    self.handed_on.add((node, value.scope))
                    self._wake(value.scope)

    def _attribute(self, node: ast.Attribute) -> Values:
        found: set[Value] = set()
        for owner in self.eval(node.value):
            found |= self._member(owner, node.attr)
        values = frozenset(found)
        self._note_escape(node, values)
        return values

    def _subscript(self, node: ast.Subscript) -> Values:
        self.eval(node.slice)
        owners = self.eval(node.value)
        if isinstance(node.slice, ast.Slice):
            return owners
        found: set[Value] = set()
        key = self._literal(node.slice)
        keys: list[object] = [key]
        if key == "*":
            chosen = [v.value for v in self.values.get(node.slice, NOTHING) if isinstance(v, Constant)]
            keys = list(chosen) or ["*"]
        for owner in owners:
            for each in keys:
                found |= self._item(owner, each)
        return frozenset(found)

    # Containers.

    def _collection(self, node: ast.List | ast.Tuple | ast.Set) -> Values:
        for index, element in enumerate(node.elts):
            values = self.eval(element)
            if isinstance(element, ast.Starred):
                for value in values:
                    self._put(node, "*", self.elements(value), (element,))
            else:
                self._put(node, index, values, (element,))
        return frozenset({Collection(node)})

    def _dict(self, node: ast.Dict) -> Values:
        for key, value in zip(node.keys, node.values, strict=True):
            values = self.eval(value)
            if key is None:
                self._put_named(node, None, values, value)
                continue
            self.eval(key)
            self._put(node, self._literal(key), values, (value,))
        return frozenset({Collection(node)})

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Values:
        for generator in node.generators:
            self._assign_elements(generator.target, self.eval(generator.iter))
            for condition in generator.ifs:
                self.eval(condition)
        if isinstance(node, ast.DictComp):
            keys = self.eval(node.key)
            values = self.eval(node.value)
            constants = [v.value for v in keys if isinstance(v, Constant)]
            for key in constants or ["*"]:
                self._put(node, key, values)
            return frozenset({Collection(node)}) | only(values, Element)
        values = self.eval(node.elt)
        self._put(node, "*", values)
        return frozenset({Collection(node)}) | only(values, (Parameters, Element))

    # Operators.

    def _binary(self, node: ast.BinOp) -> Values:
        both = self.eval(node.left) | self.eval(node.right)
        # the project's own losses add up to one of their kind
        own = {v for v in both if isinstance(v, Instance) and isinstance(node.op, ast.Add) and self._adds_up(v)}
        return only(both, (Parameters, Collection, Element)) | own or device_of(node.left)

    def _adds_up(self, value: Instance) -> bool:
        return any(self.method(value.cls, name) is not None for name in ("__add__", "__radd__"))

    def _joined(self, node: ast.JoinedStr) -> Values:
        self._children(node)
        return device_of(node.values[0]) if len(node.values) > 1 else NOTHING

    def _unary(self, node: ast.UnaryOp) -> Values:
        return only(self.eval(node.operand), Element)

    def _compare(self, node: ast.Compare) -> Values:
        found: set[Value] = set()
        for part in [node.left, *node.comparators]:
            found |= self.eval(part)
        return only(frozenset(found), Element)

    def _boolean(self, node: ast.BoolOp) -> Values:
        found: set[Value] = set()
        for part in node.values:
            found |= self.eval(part)
        return frozenset(found)

    def _conditional(self, node: ast.IfExp) -> Values:
        self.eval(node.test)
        return self.eval(node.body) | self.eval(node.orelse)

    def _walrus(self, node: ast.NamedExpr) -> Values:
        values = self.eval(node.value)
        self._assign(node.target, values, node.value)
        return values

    def _starred(self, node: ast.Starred) -> Values:
        return self.eval(node.value)

    # Functions.

    def _lambda(self, node: ast.Lambda) -> Values:
        return frozenset({FunctionValue(self.made_by[node])})

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> Values:
        scope = self._frame(node)
        scope.generates = True
        if node.value is not None:
            values = self.eval(node.value)
            if isinstance(node, ast.YieldFrom):
                for value in values:
                    self._add(("yield", scope), self.elements(value))
            else:
                self._add(("yield", scope), values)
        return NOTHING

    def _await(self, node: ast.Await) -> Values:
        return self.eval(node.value)

    def _frame(self, node: ast.AST) -> Scope:
        return self.scope_of[node].frame


def _starred_name(name: str, modules: list[str]) -> str | None:
    """The qualified name of what one of the libraries brings by a `*`; None where none is known to.

    The last library that is known to have it wins, as in Python. A builtin stays what it is where none has its name.
    """
    known = [m for m in modules if table.is_listed(f"{m}.{name}")]
    if not known and not hasattr(builtins, name):
        known = [m for m in reversed(modules) if m.startswith(("torch", "transformers"))]
    return f"{known[-1]}.{name}" if known else None


def _statement(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST:
    while not isinstance(node, ast.stmt):
        node = parents[node]
    return node


_EVALUATORS: dict[type, Callable[[Expressions, Any], Values]] = {
    ast.Constant: Expressions._constant,
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.Subscript: Expressions._subscript,
    ast.List: Expressions._collection,
    ast.Tuple: Expressions._collection,
    ast.Set: Expressions._collection,
    ast.Dict: Expressions._dict,
    ast.ListComp: Expressions._comprehension,
    ast.SetComp: Expressions._comprehension,
    ast.GeneratorExp: Expressions._comprehension,
    ast.DictComp: Expressions._comprehension,
    ast.BinOp: Expressions._binary,
    ast.JoinedStr: Expressions._joined,
    ast.UnaryOp: Expressions._unary,
    ast.Compare: Expressions._compare,
    ast.BoolOp: Expressions._boolean,
    ast.IfExp: Expressions._conditional,
    ast.NamedExpr: Expressions._walrus,
    ast.Starred: Expressions._starred,
    ast.Lambda: Expressions._lambda,
    ast.Yield: Expressions._yield,
    ast.YieldFrom: Expressions._yield,
    ast.Await: Expressions._await,
    ast.Call: Expressions._call,
}
