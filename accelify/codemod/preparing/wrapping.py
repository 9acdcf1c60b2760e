"""Where a prepared model is its wrapper, for a runtime whose `prepare` gives back another object than it gets."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from accelify.codemod.libraries import names, vocabulary
from accelify.codemod.preparing.grouping import Group, Item
from accelify.codemod.preparing.objects.preparation import Preparation
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Collection, External, Instance

_MOST_STEPS = 40
Held = frozenset[Item | None]  # the prepared items that something may be; None for anything that is not prepared
UNPREPARED: Held = frozenset({None})


class Wrapping:
    """Tells where a model has been replaced by its wrapper, and which code means the model inside."""

    def __init__(self, program: Program, tracer: Tracer, preparation: Preparation) -> None:
        self.program = program
        self.tracer = tracer
        groups = [replace(g, items=tuple(self._as_it_is_kept(i, g) for i in g.items)) for g in preparation.groups]
        self.preparation = replace(preparation, groups=tuple(groups))
        self._models = [(i, g) for g in groups for i in g.items if i.kind == "model"]

    def _as_it_is_kept(self, item: Item, group: Group) -> Item:
        """`self.model` rather than `model`, where an attribute took the model over before it is prepared."""
        if item.kind != "model" or group.anchor is None:
            return item
        for writes in self.program.attribute_writes.values():
            for write in writes:
                value = self.tracer.assigned(write)
                if (
                    self.program.frame(write) is item.frame
                    and self.program.before_end(write, group.anchor)
                    and value is not None
                    and self.tracer.is_pass_through(value)
                    and ast.unparse(_root(value)) == item.text
                ):
                    return replace(item, text=ast.unparse(write))
        return item

    # The meaning of an expression.

    def held(self, node: ast.expr, seen: tuple[object, ...] = ()) -> Held:
        """The prepared models that an expression may be."""
        if len(seen) > _MOST_STEPS:
            return UNPREPARED
        if isinstance(node, ast.Name):
            return self._name(node, seen)
        if isinstance(node, ast.Attribute):
            return self.held(node.value, seen) if node.attr == "module" else self._attribute(node, seen)
        if isinstance(node, ast.Subscript):
            text, frame = ast.unparse(node), self.program.frame(node)
            here = {i for i, g in self._models if i.text == text and i.frame is frame and self._is_after(node, g)}
            return frozenset(here) or UNPREPARED
        if isinstance(node, (ast.IfExp, ast.BoolOp)):
            parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
            return frozenset(h for part in parts for h in self.held(part, seen))
        if isinstance(node, ast.Call):
            handed = self.tracer.handed_on(node) or ()
            return frozenset(h for part in handed for h in self.held(part, (*seen, node))) or UNPREPARED
        return UNPREPARED

    def _name(self, node: ast.Name, seen: tuple[object, ...]) -> Held:
        owner = self.program.scope(node).owner(node.id)
        if owner is None or (owner, node.id) in seen:
            return UNPREPARED
        seen = (*seen, (owner, node.id))
        frame = self.program.frame(node)
        found: set[Item | None] = set()
        for item, group in self._models:
            is_it = item.text == node.id and item.frame.owner(node.id) is owner
            if is_it and (item.frame is not frame or self._is_after(node, group)):
                found.add(item)
        if found:
            return frozenset(found | self._later(owner, node, seen))
        for write in self.tracer.writes(owner, node.id):
            found |= self._written(owner, write, seen)
        return frozenset(found) or UNPREPARED

    def _later(self, owner: Scope, node: ast.Name, seen: tuple[object, ...]) -> Held:
        """The values that a name is given after it was prepared, and before it is read."""
        found: set[Item | None] = set()
        anchors = [g.anchor for i, g in self._models if i.text == node.id and g.anchor and i.frame is owner]
        for write in self.program.reaching(node, self.tracer.writes(owner, node.id)) if anchors else ():
            is_later = all(self.program.is_after(write, anchor) for anchor in anchors)
            if is_later and self.program.frame(write) is owner:
                found |= self._written(owner, write, seen)
        return frozenset(found)

    def _written(self, owner: Scope, write: ast.AST, seen: tuple[object, ...]) -> Held:
        if isinstance(write, ast.arg):
            return self._given(owner, write, seen)
        if not isinstance(write, ast.Name):
            return self._imported(write, seen) if isinstance(write, ast.alias) else UNPREPARED
        value = self.tracer.assigned(write)
        return self.held(value, seen) if value is not None and self.tracer.is_pass_through(value) else UNPREPARED

    def _given(self, function: Scope, parameter: ast.arg, seen: tuple[object, ...]) -> Held:
        found: set[Item | None] = set()
        for call in self.program.flow.callers.get(function, ()):
            argument = self.tracer.argument(call, function, parameter.arg)
            if argument is not None and self.program.frame(call) in self.program.reachable:
                found |= self.held(argument, seen)
        return frozenset(found) or UNPREPARED

    def _imported(self, alias: ast.alias, seen: tuple[object, ...]) -> Held:
        statement = self.program.statement(alias)
        if not isinstance(statement, ast.ImportFrom):
            return UNPREPARED
        root = self.program.flow.module_named(self.program.path(alias), statement.module or "", statement.level)
        if root is None:
            return UNPREPARED
        here = {i for i, _ in self._models if i.text == alias.name and i.frame is root}
        return frozenset(here) or UNPREPARED

    def _attribute(self, node: ast.Attribute, seen: tuple[object, ...]) -> Held:
        owners = self.program.values(node.value)
        classes = {v.cls for v in owners if isinstance(v, Instance)}
        frame, text = self.program.frame(node), ast.unparse(node)
        key = (frozenset(classes), node.attr)
        if key in seen:
            return UNPREPARED
        found: set[Item | None] = set()
        for item, group in self._models:
            holder, _, attribute = item.text.rpartition(".")
            if attribute != node.attr or not holder:
                continue
            if item.frame is frame:
                if item.text == text and self._is_after(node, group):
                    found.add(item)
            elif item.text == text or (item.frame.is_method and self._is_self(holder, item.frame, classes)):
                found.add(item)
        if found:
            return frozenset(found)
        for write in self.program.attribute_writes.get(node.attr, ()):
            holders = self.program.values(write.value)
            if holders & owners or classes & {v.cls for v in holders if isinstance(v, Instance)}:
                value = self.tracer.assigned(write)
                passed = value is not None and self.tracer.is_pass_through(value)
                found |= self.held(value, (*seen, key)) if passed and value is not None else UNPREPARED
        return frozenset(found) or UNPREPARED

    def _is_self(self, holder: str, method: Scope, classes: set[Scope]) -> bool:
        cls = method.parent
        if cls is None or not method.parameters or method.parameters[0].arg != holder:
            return False
        return bool({cls, *self.program.flow.descendants(cls)} & classes)

    def is_wrapper(self, node: ast.expr) -> bool:
        """Whether an expression may be a model that has been prepared."""
        return self.held(node) != UNPREPARED

    @cached_property
    def origins(self) -> set[ast.AST]:
        """Where the prepared models were first given a name."""
        found: set[ast.AST] = set()
        for item, _ in self._models:
            first, _, rest = item.text.partition(".")
            owner = item.frame.owner(first)
            if not rest and owner is not None:
                found |= {c[-1].node for c in self.tracer.variable(owner, first) if c}
            for write in self.program.attribute_writes.get(rest.rpartition(".")[2], ()) if rest else ():
                value = self.tracer.assigned(write)
                chains = self.tracer.chains(value) if value is not None else ()
                if self.program.frame(write) is item.frame and ast.unparse(write) == item.text:
                    found |= {write, *(c[-1].node for c in chains if c)}
        return found

    # Expressions for the model inside.

    @cached_property
    def unwrapped(self) -> tuple[ast.expr, ...]:
        """The expressions that must be the model itself: its own members are used, or a library gets it."""
        return tuple(self._unwrapped())

    def _unwrapped(self) -> Iterator[ast.expr]:
        for node in list(self.program.flow.values):
            if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) or not isinstance(node.ctx, ast.Load):
                continue
            if isinstance(node, ast.Attribute) and node.attr == "module":
                continue
            if not self.program.values(node) & self.preparation.models or not self._means_the_model(node):
                continue
            if self.program.frame(node) in self.program.reachable and self.is_wrapper(node):
                yield node

    def _means_the_model(self, node: ast.expr) -> bool:
        parent = self.program.parent(node)
        while isinstance(parent, ast.Attribute) and parent.attr == "module":
            node, parent = parent, self.program.parent(parent)
        if isinstance(parent, ast.Attribute):
            return self.is_own(parent)
        if isinstance(parent, ast.keyword):
            parent = self.program.parent(parent)
        if not isinstance(parent, ast.Call) or parent.func is node or self.program.flow.callees.get(parent):
            return False
        function = parent.func
        if isinstance(function, ast.Attribute):
            owners = self.program.values(function.value)
            if any(isinstance(v, Collection) for v in owners):
                return False
        called = {v.name for v in self.program.values(function) if isinstance(v, External)}
        return not any(names.iteration(n) or names.returns_its_model(n) or names.is_module(n) for n in called)

    def is_own(self, member: ast.Attribute) -> bool:
        """Whether a member is one that the wrapper does not answer for."""
        if member.attr == "forward":
            return False
        for value in self.program.values(member.value):
            if isinstance(value, Instance) and self.program.flow.method(value.cls, member.attr) is not None:
                return True
        return not vocabulary.is_answered_by_wrapper(member.attr)

    def _is_after(self, node: ast.expr, group: Group) -> bool:
        return group.anchor is None or self.program.is_after(node, group.anchor)


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node
