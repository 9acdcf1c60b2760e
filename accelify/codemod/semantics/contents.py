"""Elements put into containers after they are made: `rows.append(x)`, `rows[k] = x`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from accelify.codemod.libraries import methods, table
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope


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
        for parsed in self.program.files:
            for node in parsed.parents:
                if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                    statement = self.program.statement(node)
                    if isinstance(statement, (ast.Assign, ast.AugAssign)):
                        yield node.value, statement.value
