"""Elements put into containers after they are made: `rows.append(x)`, `rows[k] = x`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from accelify.codemod.libraries import methods, table
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, method_of_call
from accelify.codemod.semantics.values import Collection, Element, Made, Value


class Kept:
    """Find it by the container's name."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def in_name(self, owner: Scope, name: str) -> list[ast.expr]:
        """The elements put into a variable's container."""
        return self._found.get((owner, name), [])

    def in_attribute(self, node: ast.Attribute) -> list[ast.expr]:
        """The elements put into the container that an attribute holds, of that object or of one of its class."""
        named = self._in_attributes.get(node.attr, ())
        return [value for holder, value in named if self.program.may_be_same(holder, node.value)]

    def keys(self, node: ast.expr) -> list[ast.expr] | None:
        """The keys under which a dict has its items, whichever it is; None where one is not known to be such a dict."""
        values = self.program.values(node)
        is_made = any(isinstance(v, Collection) and isinstance(v.node, ast.DictComp) for v in values)
        made = [_first_keys(v) for v in values if not (is_made and isinstance(v, Element))]  # of which it has made one
        if not made or any(keys is None for keys in made):
            return None
        later = [
            c for method, c in self._filling if c.args and not values.isdisjoint(self.program.values(method.value))
        ]
        if not all(len(call.args) == 2 and method_of_call(call) == "setdefault" for call in later):
            return None
        stored = [s.slice for s in self._subscripts if not values.isdisjoint(self.program.values(s.value))]
        return [*(key for keys in made for key in keys or ()), *stored, *(call.args[0] for call in later)]

    @cached_property
    def _filling(self) -> list[tuple[ast.Attribute, ast.Call]]:
        """The calls that put something into a container, with the methods by which they do."""
        calls = ((c.func, c) for c in self.program.calls if isinstance(c.func, ast.Attribute))
        return [(method, call) for method, call in calls if methods.puts_in(method.attr)]

    @cached_property
    def _subscripts(self) -> list[ast.Subscript]:
        """Where something is stored at a place of a container."""
        nodes = (node for parsed in self.program.files for node in parsed.parents)
        return [n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]

    @cached_property
    def _found(self) -> dict[tuple[Scope, str], list[ast.expr]]:
        found: dict[tuple[Scope, str], list[ast.expr]] = {}
        for container, value in self._named:
            owner = self.program.scope(container).owner(container.id) if isinstance(container, ast.Name) else None
            if isinstance(container, ast.Name) and owner is not None:
                found.setdefault((owner, container.id), []).append(value)
        return found

    @cached_property
    def _in_attributes(self) -> dict[str, list[tuple[ast.expr, ast.expr]]]:
        """By an attribute's name: the object that has it, and what is put into the container that it holds."""
        found: dict[str, list[tuple[ast.expr, ast.expr]]] = {}
        for container, value in self._named:
            if isinstance(container, ast.Attribute):
                found.setdefault(container.attr, []).append((container.value, value))
        return found

    @cached_property
    def _named(self) -> list[tuple[ast.expr, ast.expr]]:
        """The same as `puts`, with what holds the outermost container: `rows` of `rows[0][1] = x`."""
        found: list[tuple[ast.expr, ast.expr]] = []
        for container, value in self.puts():
            while isinstance(container, ast.Subscript):
                container = container.value
            found.append((container, value))
        return found

    def puts(self) -> Iterator[tuple[ast.expr, ast.expr]]:
        """All that is put into a container, each with the expression that the container is held by."""
        for call in self.program.calls:
            is_function = any(map(table.function, self.program.called(call)))  # `np.append(a, b)`
            is_function = is_function or bool(self.program.flow.callees.get(call))  # `agent.update(x)` of an own class
            if isinstance(call.func, ast.Attribute) and methods.puts_in(call.func.attr) and not is_function:
                yield from ((call.func.value, a) for a in call.args)
        yield from self.stored()

    def stored(self) -> Iterator[tuple[ast.expr, ast.expr]]:
        """What is stored at a place of a container or an array: `x` of `rows[k] = x`."""
        for node in self._subscripts:
            statement = self.program.statement(node)
            if isinstance(statement, (ast.Assign, ast.AugAssign)):
                yield node.value, statement.value


def _first_keys(value: Value) -> list[ast.expr] | None:
    """The keys of a dict when it is made, but for those that are names; None of another value."""
    node = value.node if isinstance(value, (Collection, Made)) else None
    if isinstance(node, ast.DictComp):
        return [node.key]
    if isinstance(node, ast.Dict):
        keys = [key for key in node.keys if key is not None]
        return keys if len(keys) == len(node.keys) else None
    if not isinstance(node, ast.Call) or any(k.arg is None for k in node.keywords):
        return None
    kind = table.kind_made_by(value.name) if isinstance(value, Made) else "dict"
    return [] if kind == "defaultdict" or (kind == "dict" and not node.args) else None
