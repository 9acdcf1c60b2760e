"""Which variables may hold the same object, and which an object inside another's?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from accelify.codemod.semantics.reaching.variables import Names, Variable

_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict)


class Objects:
    """Which variables may hold the same object, and which an object inside another's?"""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.outer: dict[Variable, dict[Variable, None]] = {}  # dictionaries for their order
        self.inner: dict[Variable, dict[Variable, frozenset[str | None]]] = {}  # under which keys; None for any

    def copy(self) -> Objects:
        """One to which connections can be added."""
        copied = Objects(self.names)
        copied.outer = {variable: {**others} for variable, others in self.outer.items()}
        copied.inner = {variable: {**others} for variable, others in self.inner.items()}
        return copied

    def connect(self, node: ast.AST) -> None:
        """Follow what a node hands from one variable to another."""
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self.assign(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            self.assign(node.target, node.value)
        elif isinstance(node, ast.comprehension):
            self.loop(node.target, node.iter)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self.assign(node.optional_vars, node.context_expr)
        elif isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None), ast.Store):
            parent = self.names.flow.parents.get(node)
            if isinstance(parent, (ast.For, ast.AsyncFor)):
                self.loop(node, parent.iter)

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                for each, part in zip(target.elts, value.elts, strict=True):
                    self.assign(each, part)
            else:
                for each in target.elts:
                    self.take(each, value)
            return
        if isinstance(target, ast.Starred):
            self.take(target.value, value)
        elif isinstance(target, ast.Subscript):
            self.put(value, target.value, _key(target.slice))
        else:
            self.bind(target, value)

    def bind(self, target: ast.expr, value: ast.expr) -> None:
        """A name or an attribute gets a value."""
        into = self.names.variable(target)
        if into is None:
            return
        for each in _alternatives(value):
            if isinstance(each, _DISPLAYS):
                for key, part in _items(each):
                    self.put(part, target, key)
            elif isinstance(each, ast.Subscript):
                self.take(target, each.value, self._first_key(each))
            else:
                same = self.names.variable(each)
                if same is not None and isinstance(each, (ast.Name, ast.Attribute)):
                    self.hold(into, same)
                    self.hold(same, into)
                if isinstance(each, ast.Attribute):
                    self.take(target, each.value)
        if isinstance(target, ast.Attribute):
            self.put(value, target.value)

    def loop(self, target: ast.expr, listed: ast.expr) -> None:
        sources = [listed]
        if isinstance(listed, ast.Call):  # `enumerate(rows)`, `table.items()`
            sources = [*listed.args, *([listed.func.value] if isinstance(listed.func, ast.Attribute) else [])]
        for source in sources:
            self.take(target, source)

    def take(self, target: ast.expr, container: ast.expr, key: str | None = None) -> None:
        """A target gets a part of a container, what it has under a key if that is known."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for each in target.elts:
                self.take(each, container)
            return
        into = self.names.variable(target.value if isinstance(target, ast.Starred) else target)
        for each in _alternatives(container):
            parts = _parts(each) if isinstance(each, _DISPLAYS) else ()
            for part in parts:
                self.assign(target, part)
            for at, holder in enumerate(self.path(each)):
                if into is not None:
                    self.hold(holder, into, None if at else key)

    def put(self, value: ast.expr, container: ast.expr, key: str | None = None) -> None:
        """A value becomes a part of a container, under a key if that is known."""
        key = key if self.names.variable(container) is not None else self._first_key(container)
        for each in _alternatives(value):
            for part in _parts(each) if isinstance(each, _DISPLAYS) else ():
                self.put(part, container, key)
            for root in self.path(each)[:1]:
                for at, holder in enumerate(self.path(container)):
                    self.hold(holder, root, None if at else key)

    def hold(self, outer: Variable, inner: Variable, key: str | None = None) -> None:
        if outer != inner:
            self.outer.setdefault(inner, {})[outer] = None
            held = self.inner.setdefault(outer, {})
            held[inner] = held.get(inner, frozenset()) | {key}

    def path(self, node: ast.expr) -> list[Variable]:
        """The variables on the way to an object: `c`, `b` and `a` for `a.b[0].c`; not `self`."""
        found: list[Variable] = []
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred, ast.Name)):
            variable = self.names.variable(node) if self.names.class_of_self(node) is None else None
            if variable is not None:
                found.append(variable)
            if isinstance(node, ast.Name):
                break
            node = node.value
        return found

    def touched(self, changed: ast.expr) -> list[Variable]:
        """The variables whose object may be another after a change of an object in place."""
        found: dict[Variable, None] = {}
        for each in _alternatives(changed):
            path = self.path(each)
            is_part = isinstance(each, (ast.Subscript, ast.Starred))
            inner = self._held_by(path[0], self._first_key(each)) if is_part and path else path
            found.update(dict.fromkeys(closure(inner, self.outer)))
        return list(found)

    def _held_by(self, holder: Variable, key: str | None) -> list[Variable]:
        """A variable and all that its object may hold under a key."""
        parts = self.inner.get(holder, {})
        return [holder, *closure((v for v, keys in parts.items() if not key or keys & {key, None}), self.inner)]

    def _first_key(self, node: ast.expr) -> str | None:
        """`a` of `held["a"][0].b`"""
        key = None
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)) and self.names.variable(node) is None:
            key = _key(node.slice) if isinstance(node, ast.Subscript) else None
            node = node.value
        return key


def closure(start: Iterable[Variable], edges: Mapping[Variable, Iterable[Variable]]) -> list[Variable]:
    found: dict[Variable, None] = {}
    stack = list(start)
    while stack:
        variable = stack.pop()
        if variable not in found:
            found[variable] = None
            stack.extend(edges.get(variable, ()))
    return list(found)


def _alternatives(node: ast.expr) -> list[ast.expr]:
    """The expressions one of which an expression comes to."""
    if isinstance(node, ast.IfExp):
        return [*_alternatives(node.body), *_alternatives(node.orelse)]
    if isinstance(node, ast.BoolOp):
        return [each for value in node.values for each in _alternatives(value)]
    if isinstance(node, (ast.NamedExpr, ast.Await)):
        return _alternatives(node.value)
    return [node]


def _key(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _items(node: ast.List | ast.Tuple | ast.Set | ast.Dict) -> list[tuple[str | None, ast.expr]]:
    """The parts of a display with their keys."""
    keys = [_key(key) for key in node.keys] if isinstance(node, ast.Dict) else [None for _ in node.elts]
    return [*zip(keys, _parts(node), strict=True)]


def _parts(node: ast.List | ast.Tuple | ast.Set | ast.Dict) -> list[ast.expr]:
    return node.values if isinstance(node, ast.Dict) else node.elts
