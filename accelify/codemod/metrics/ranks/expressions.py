"""What the values of expressions are made of: names, attributes, items, and calls."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import Effect, Role, Row, Rows, Same, Trait
from accelify.codemod.metrics.ranks.functions import Functions
from accelify.codemod.metrics.ranks.labels import (
    NONE,
    Given,
    Label,
    Labels,
    Mark,
    Origin,
)
from accelify.codemod.metrics.ranks.own_gradients import OwnGradients
from accelify.codemod.metrics.ranks.shards import Shards
from accelify.codemod.metrics.ranks.solver import Filled, Joined, Outside, OwnArgument, Returned
from accelify.codemod.metrics.sinks import leaves
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Definition, Kind, Variable
from accelify.codemod.semantics.effects.kinds import UNKNOWN
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import ClassValue, FunctionValue, Instance, ModuleValue, View

_OPTIMIZERS = frozenset({"optimizer", "closure_optimizer"})
Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


class Expressions(Functions):
    """The labels of expressions."""

    def __init__(self, chains: Chains, shards: Shards) -> None:
        super().__init__(chains, shards)
        self._seen_at = cache(self._find_seen)
        self.own_gradients = OwnGradients(chains, self.rounds)

    def _of(self, node: ast.expr) -> Labels:
        if isinstance(node, ast.Constant) or node in self.shards.whole or self.shards.is_alike(node):
            return NONE
        if self._asks_for_plot(node):
            return NONE
        if isinstance(node, (ast.Name, ast.Attribute)):
            labels = self._read(node) if isinstance(node, ast.Name) else self._attribute(node)
            return self._without_count(labels) if labels and self._is_object(node) else labels
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Call):
            return self._without_stamp(self._called(node, None), node)
        if isinstance(node, ast.IfExp):
            return self._of(node.body) | self._of(node.orelse) | self._chosen(self._of(node.test), node)
        if isinstance(node, ast.Compare) and self._asks_for_object(node):
            return NONE
        if isinstance(node, ast.Compare) and self._asks_for_key(node):
            return self._of(node.left) | self._of_keys(self._of(node.comparators[0]))
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return self._comprehension(node, [node.elt])
        if isinstance(node, ast.DictComp):
            return self._comprehension(node, [node.key, node.value])
        if isinstance(node, ast.Lambda):
            scope = self.program.flow.bindings[self.program.path(node)].made_by.get(node)
            labels = self._get(Returned(scope, None)) if scope is not None else NONE
            return frozenset(la for la in labels if not isinstance(la, Given) or la.scope is not scope)
        if isinstance(node, ast.Dict):
            return self._displayed(node)
        labels = self._all(n for n in ast.iter_child_nodes(node) if isinstance(n, (ast.expr, ast.keyword)))
        return self._without_stamp(labels, node) if isinstance(node, (ast.BinOp, ast.JoinedStr)) else labels

    def _asks_for_object(self, node: ast.Compare) -> bool:
        """Whether a comparison asks which object it is, as `x is None`; of numbers, `n is not 32` asks for values."""
        if not all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            return False
        return not any(self.chains.kinds.of(side) == {"number"} for side in (node.left, *node.comparators))

    def _asks_for_key(self, node: ast.Compare) -> bool:
        """Whether a comparison asks for a key of a dict: `"labels" in data`."""
        is_membership = len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn))
        return is_membership and self.chains.kinds.of(node.comparators[0]) == {"dict"}

    @staticmethod
    def _of_keys(labels: Labels) -> Labels:
        """The labels of a dict's keys: not of what is at one of them, unless a rank chooses whether it is there."""
        chosen = (Mark.CHOSEN, Mark.PICKED)
        return frozenset(la for la in labels if isinstance(la, Given) or la.at is None or la.mark in chosen)

    def _asks_for_plot(self, node: ast.expr) -> bool:
        """Whether something is only asked whether it is a plot yet, whatever that shows: `if not image:`."""
        parent = self.program.parent(node)
        is_denied = isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)
        if not is_denied and getattr(parent, "test", None) is not node:
            return False
        kinds = self.chains.kinds.of(node)
        return any(map(methods.is_plot, kinds)) and all(methods.is_plot(kind) or kind == "none" for kind in kinds)

    def _without_stamp(self, labels: Labels, node: ast.expr) -> Labels:
        """The labels of a value; a text that has the time in it names a file, and decides nothing by the clock."""
        clocks = frozenset(la for la in labels if isinstance(la, Origin) and la.mark is Mark.CLOCK)
        return labels - clocks if clocks and self.chains.kinds.of(node) == {"string"} else labels

    def _displayed(self, node: ast.Dict) -> Labels:
        """A dict whose items are known by their keys."""
        found = NONE
        for key, value in zip(node.keys, node.values, strict=True):
            labels = self._of(value) | (self._of(key) if key is not None else NONE)
            is_known = isinstance(key, ast.Constant) and isinstance(key.value, str)
            found |= self._at(self._without_place(labels), key.value) if is_known else labels  # type: ignore[union-attr]
        return found

    def _comprehension(self, node: Comprehension, parts: list[ast.expr]) -> Labels:
        """The labels of what a comprehension collects: over a sharded loader, a running value like that of a loop."""
        found = self._all(parts)
        for generator in node.generators:
            for test in generator.ifs:
                found |= self._chosen(self._of(test), node)
        over = node.generators[0]
        if not self.shards.is_loader(over.iter) or (isinstance(node, ast.GeneratorExp) and not self._is_used_up(node)):
            return found
        return self._updated(found, node) | {Origin(Mark.STEPS, over, differs=False)}

    def _is_used_up(self, node: ast.expr) -> bool:
        """Whether a call goes over all that a generator gives, at once: `sum(...)`, not `enumerate(...)`."""
        user = self.program.parent(node)
        return isinstance(user, ast.Call) and not any(map(names.iteration, self.program.called(user)))

    def _read(self, node: ast.expr) -> Labels:
        """The labels of the definitions that reach a name or an attribute."""
        near, far = self._seen_at(node)
        found: Labels = self._get(far) if far is not None else NONE
        return found.union(*(self._seen_from(node, definition) for definition in near))

    def _find_seen(self, node: ast.expr) -> tuple[list[Definition], Joined | None]:
        """The definitions that reach a name or an attribute; of the latter, those by other functions are joined."""
        every = (*self.chains.definitions(node), *self._made_in_other_files(node))
        seen, frame = [d for d in every if not self.settled(d, node)], self.program.frame(node)
        far = {d for d in seen if d.variable.is_attribute and self.program.frame(d.node) is not frame}
        return [d for d in seen if d not in far], Joined(frozenset(map(Outside, far))) if far else None

    def _made_in_other_files(self, node: ast.expr) -> Iterator[Definition]:
        """The definitions of an attribute by methods of a relative of its object's class, or by others, elsewhere."""
        if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Store):
            return
        named = (self.program.attribute_writes.get(node.attr, ()), self.program.attribute_reads.get(node.attr, ()))
        others = [n for nodes in named for n in nodes if not self._is_in_file_of(n, node)]
        classes = {v.cls for v in self.program.values(node.value) if isinstance(v, Instance)} if others else set()
        seen: set[Definition] = set()
        asked: set[Variable] = set()  # of classes, whose objects are all of one kind
        for other in others:
            variable = self.chains.variable(other)
            if variable is None or variable in asked:
                continue
            if variable.scope is not None:
                asked.add(variable)
            made = [d for d in self.chains.facts(other).all_of(variable) if d not in seen]
            held = {v.cls for v in self.program.values(other.value) if isinstance(v, Instance)} if made else set()
            if any(self.chains.are_relatives(one, another) for one in held for another in classes):
                seen.update(made)
                yield from (d for d in made if self._may_be_set_by(node, d) and self.program.may_follow(node, d.node))

    def _may_be_set_by(self, node: ast.Attribute, definition: Definition) -> bool:
        """Whether a definition by no method sets the attribute of an object that may be the one that is read."""
        target = definition.node
        if definition.variable.scope is None and isinstance(target, ast.Attribute):
            return self.program.may_be_same(target.value, node.value)
        return True

    def _is_in_file_of(self, node: ast.AST, other: ast.AST) -> bool:
        return self.program.path(node) == self.program.path(other)

    def _seen_from(self, node: ast.expr, definition: Definition) -> Labels:
        """The labels of a definition, in terms of the function that reads it."""
        is_near = self.program.frame(definition.node) is self.program.frame(node)
        if definition.variable.is_attribute and not is_near:
            return self._get(Outside(definition))
        labels = self._get(definition)
        given = self._given_in(labels)
        if not given or is_near:
            return labels
        outside = frozenset(la for la in given if not self._is_enclosing(la.scope, node))
        return labels - outside | self._resolved(outside)

    def _of_outside(self, key: Outside) -> Labels:
        labels = self._get(key.definition)
        given = self._given_in(labels)
        return labels - given | self._filled_in(given, lambda scope, name: self._get(OwnArgument(scope, name)))

    def _is_enclosing(self, scope: Scope, node: ast.AST) -> bool:
        """Whether a node stands in a function inside another, whose parameters it sees."""
        frame: Scope | None = self.program.frame(node)
        while frame is not None and frame is not scope:
            frame = frame.parent
        return frame is scope

    def _of_own_argument(self, key: OwnArgument) -> Labels:
        """The labels of the values that calls by the object itself, or by a model, pass for a parameter of a method."""
        found = NONE
        for call in self.program.calls_of(key.scope):
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            is_own = isinstance(receiver, ast.Name) and is_self(self.program, receiver)
            if is_own or any(self.shards.is_alike(n) for n in (receiver, call.func) if n is not None):
                found |= self._resolved(self._passed(call, key.scope, key.name))
        return found

    def _attribute(self, node: ast.Attribute) -> Labels:
        base = node.value
        if _says_of_what_sort(node.attr):
            return NONE
        owners = self.program.values(base)
        if node.attr == "grad" and (around := self.own_gradients.loop_of(node)) is not None:
            return frozenset({Origin(Mark.BATCH, around)})
        module = next((v for v in owners if isinstance(v, ModuleValue)), None)
        if module is not None:
            return self._of_global(module.root, node.attr)
        if is_self(self.program, base):
            return self._of_self(node, base)
        labels = self._of_options(base) if self.running.is_options(base) else self._of(base)
        rows = self._rows_of_batch(base, node.attr, labels) or self.chains.kinds.rows(base, node.attr)
        if rows and labels and all(r.has(Trait.SHAPE_ONLY) for r in rows):
            return self._counted(labels, node)
        getter = self._property(owners, node.attr)
        if getter is not None:
            return self._for_receiver(self._get(Returned(getter, None)), getter, base)
        if self.running.is_options(base) or node.attr in self.program.attribute_writes or self._is_put_anywhere(node):
            found, read = self._part(labels, node.attr), self._read(node)
            is_known = self._is_tracked(base) and not self.shards.is_alike(base)
            signalled = frozenset(la for la in read if isinstance(la, Origin) and la.mark is Mark.SIGNAL)
            return found | signalled if is_known else found | read
        return self._without_place(frozenset(la for la in labels if not self._is_of_another(la, node)))

    def _is_of_another(self, label: Label, node: ast.Attribute) -> bool:
        """Whether a value was put into another attribute than the one that is read; a method may read any of them."""
        parent = self.program.parent(node)
        is_method = isinstance(parent, ast.Call) and parent.func is node
        at = label.into if isinstance(label, Given) else label.at
        return at is not None and at != node.attr and at in self.program.attribute_writes and not is_method

    def _of_options(self, base: ast.expr) -> Labels:
        """The labels of options by their names; a value put into an object that holds options is none."""
        if not isinstance(base, ast.Name):
            return self._of(base)
        found = NONE
        for definition in self.chains.definitions(base):
            names = {n.id for n in ast.walk(definition.node) if isinstance(n, ast.Name)}
            is_theirs = not isinstance(definition.node, ast.Call) or definition.variable.name in names
            if is_theirs and not self.settled(definition, base):
                found |= self._seen_from(base, definition)
        return found

    def _is_put_anywhere(self, node: ast.Attribute) -> bool:
        return bool(self.chains.definitions(node))

    def _of_self(self, node: ast.Attribute, base: ast.expr) -> Labels:
        """An attribute of the object whose method reads it."""
        getter = self._property(self.program.values(base), node.attr)
        if getter is not None:
            return self._for_receiver(self._get(Returned(getter, None)), getter, base)
        found = self._read(node)
        for label in () if self._is_set_before(node) else self._of(base):
            if isinstance(label, Given):
                found |= {replace(label, at=node.attr)}
        return found

    def _is_set_before(self, node: ast.Attribute) -> bool:
        """Whether the method that reads an attribute has set it by then, so that what it was given does not matter."""
        frame = self.program.frame(node)
        stores = [d.node for d in self.chains.definitions(node) if d.kind is Kind.ASSIGNMENT]
        own = [store for store in stores if self.program.frame(store) is frame]
        return bool(own) and self.chains.flow(node).is_covered(own, node)

    def _property(self, owners: Iterable[object], name: str) -> Scope | None:
        for value in owners:
            method = self.program.flow.method(value.cls, name) if isinstance(value, Instance) else None
            if method is not None and method.is_property:
                return method
        return None

    def _for_receiver(self, labels: Labels, method: Scope, base: ast.expr) -> Labels:
        found: set[Label] = set()
        for label in labels:
            found |= self._part(self._of(base), label.at) if _is_of(label, method) else {label}
        return frozenset(found)

    def _subscript(self, node: ast.Subscript) -> Labels:
        labels, key = self._of(node.value), node.slice
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            return self._part(labels, key.value)
        if isinstance(key, ast.Constant) and isinstance(key.value, int):
            item = self._of_item(node.value, (key.value,))
            labels = labels if item is None else item
        return self._without_place(labels) | self._chosen(self._of(key), node)

    # Parts, and items of loops.

    def _of_part(self, value: ast.expr | None, path: tuple[int, ...]) -> Labels:
        """The labels of one part of what an expression gives."""
        if value is None:
            return NONE
        if path and isinstance(value, (ast.Tuple, ast.List)):
            is_plain = path[0] < len(value.elts) and not any(isinstance(e, ast.Starred) for e in value.elts)
            return self._of_part(value.elts[path[0]], path[1:]) if is_plain else self._of(value)
        if path and isinstance(value, ast.Call) and self.program.flow.callees.get(value):
            return self._called(value, path[0])
        return self._of(value) if (item := self._of_item(value, path)) is None else item

    def _of_item(self, value: ast.expr, path: tuple[int, ...]) -> Labels | None:
        """The labels of one part of what a loop is given in each round: of `i` in `for pair in loader: i, x = pair`."""
        definitions = self.chains.definitions(value) if path and isinstance(value, ast.Name) else ()
        given = [self.program.binding(d.node) for d in definitions if d.kind is Kind.LOOP]
        if len(given) != 1 or len(definitions) != 1:
            return None
        before, holder = given[0]
        assert isinstance(holder, (ast.For, ast.AsyncFor, ast.comprehension))
        return self._item(holder.iter, (*before, *path), holder)

    def _looped(self, node: ast.AST) -> Labels:
        """The labels of a variable of a loop or of a comprehension."""
        path, holder = self.program.binding(node)
        assert isinstance(holder, (ast.For, ast.AsyncFor, ast.comprehension))
        return self._item(holder.iter, path, holder)

    def _item(self, source: ast.expr, path: tuple[int, ...], holder: ast.AST) -> Labels:
        """The labels of the elements that iterating over an expression yields, or of one part of them."""
        called = self.program.called(source) if isinstance(source, ast.Call) else set()
        if isinstance(source, ast.Call) and source.args and path:
            if "enumerate" in called and path[0] == 0:
                return frozenset({Origin(Mark.STEPS, holder, differs=False)}) if holder in self.loops else NONE
            if "enumerate" in called:
                return self._item(source.args[0], path[1:], holder)
            if "zip" in called and path[0] < len(source.args):
                part = source.args[path[0]]
                if holder not in self.loops:
                    return self._item(part, path[1:], holder)
                if self.chains.tracer.is_counter(part):
                    return frozenset({Origin(Mark.STEPS, holder, differs=False)})
                if self.chains.kinds.of(part) == {"loader"} and not self.shards.is_loader(part):
                    return self._of(part)  # a loader that gives every rank all of its data
            if self.chains.tracer.is_progress(source):
                return self._item(source.args[0], path, holder)
        if holder in self.loops:
            is_number = holder not in self.shards.sequences and self.chains.tracer.numbers(source, path)
            return frozenset({Origin(Mark.STEPS, holder, differs=False) if is_number else Origin(Mark.BATCH, holder)})
        if isinstance(holder, ast.comprehension) and self.shards.is_loader(source):
            return frozenset({Origin(Mark.BATCH, holder)})
        return self._of(source) | self.draws.item(source, holder)

    def _imported(self, node: ast.AST) -> Labels:
        """The labels of a variable of another module."""
        statement = self.program.statement(node)
        if not isinstance(statement, ast.ImportFrom) or not isinstance(node, ast.alias):
            return NONE
        flow = self.program.flow
        root = flow.module_named(self.program.path(node), statement.module or "", statement.level)
        return NONE if root is None else self._of_global(root, node.name)

    def _of_global(self, root: Scope, name: str) -> Labels:
        found = NONE
        for definition in self.chains.facts(root.node).all_of(Variable(root, name)):
            found |= self._get(definition)
        return self._resolved(found)

    # Calls.

    def _of_arguments(self, call: ast.Call) -> Labels:
        return self._without_place(self._all([*call.args, *call.keywords]))

    def _called(self, call: ast.Call, position: int | None) -> Labels:
        labels, iterator = self._result(call, position), self.program.iterator(call)
        if not labels or iterator is None or self._may_count(iterator):
            return labels
        return frozenset(la for la in labels if isinstance(la, Given) or la.mark is not Mark.STEPS)

    def _may_count(self, iterator: ast.expr) -> bool:
        """Whether an iterator numbers the rounds in which it is asked: `itertools.count()`, a generator of our own."""
        made = [chain[-1].value for chain in self.chains.tracer.chains(iterator)]
        calls = [n for value in made if value is not None for n in ast.walk(value) if isinstance(n, ast.Call)]
        views = [v.node for v in self.program.values(iterator) if isinstance(v, View)]
        called = {name for n in (*calls, *views) if isinstance(n, ast.Call) for name in self.program.called(n)}
        is_own = any(self.program.flow.callees.get(call) for call in calls)
        counts = any(names.is_counter(name) or names.iteration(name) == "enumerate" for name in called)
        return None in made or not calls or is_own or counts

    def _result(self, call: ast.Call, position: int | None) -> Labels:
        if self._takes_a_batch(call):
            return frozenset({Origin(Mark.BATCH, call)})
        iterator = self.program.iterator(call)
        if iterator is not None and (drawn := self.draws.item(iterator, call)):
            return drawn
        if self._is_length_of_loader(call):
            return frozenset({Origin(Mark.STEPS, call, differs=False)})
        if "map" in self.program.called(call) and self._is_used_up(call) and any(map(self.shards.is_loader, call.args)):
            return frozenset({Origin(Mark.RUNNING, call), Origin(Mark.STEPS, call, differs=False)})
        callees = self.program.flow.callees.get(call, set())
        if callees and not self.shards.is_alike(call.func):
            is_of_module = any(isinstance(v, Instance) for v in self.program.values(call.func))
            drawn = self.draws.by_model(call, callees) if is_of_module else NONE  # a loss, or another without weights
            return self._run(call, callees, position) | drawn
        if "getattr" in self.program.called(call) and len(call.args) > 1 and not self._is_run(call):
            return self._of_arguments(call) | self._by_name(call)
        if "dict" in self.program.called(call) and all(k.arg for k in call.keywords) and not call.args:
            return self._displayed(
                ast.Dict([ast.Constant(k.arg) for k in call.keywords], [k.value for k in call.keywords])
            )
        rows = self.chains.kinds.called(call)
        functions = [row for row in rows or () if not row.has(Trait.ATTRIBUTE)]  # what is read only is not called
        if functions and not (call.args or call.keywords) and all(f.has(Trait.ASKED_ALONE) for f in functions):
            return NONE
        labels = self._state_of(callees, position) | self.draws.by_model(call, callees)
        method = self.chains.kinds.method(call)
        if not (method is not None and rows and all(row.has(Trait.SAME_VALUES) for row in rows)):
            labels |= self._of_arguments(call)  # `a.type_as(b)` has the values of `a` alone
        if not isinstance(call.func, ast.Attribute):
            labels |= self._without_place(self._of(call.func))
        elif method is not None:
            held = self._of(method if self._is_own_value(method) else method.value)
            labels |= self._without_place(held)
            rows = self._rows_of_batch(method.value, method.attr, held) or rows
        if rows is None:
            return labels
        found = self._of_closure(call)
        for row in rows:
            found |= self._by_row(row, labels, call)
        return found

    def _of_closure(self, call: ast.Call) -> Labels:
        """What `optimizer.step(closure)` gives back: the loss that the closure does."""
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if owner is None or not self.chains.kinds.of(owner) & _OPTIMIZERS:
            return NONE
        held = [v for a in (*call.args, *(k.value for k in call.keywords)) for v in self.program.values(a)]
        return self._run(call, [v.scope for v in held if isinstance(v, FunctionValue)], None)

    def _is_own_value(self, function: ast.Attribute) -> bool:
        """Whether what is called was put into an attribute of the object whose method calls it: `self.net(x)`."""
        return is_self(self.program, function.value) and function.attr in self.program.attribute_writes

    def _state_of(self, models: Iterable[Scope], position: int | None) -> Labels:
        """The labels of the state that earlier calls of a model's methods have left in it."""
        labels = (la for method in models for la in self._get(Returned(method, position)))
        kept = frozenset(la for la in labels if isinstance(la, Origin) or la.update is not None)
        return frozenset(la for la in self._resolved(kept) if isinstance(la, Origin) and la.mark is Mark.RUNNING)

    def _is_run(self, node: ast.expr) -> bool:
        """Whether what an expression gives is called: a method is, and a value is not."""
        parent = self.program.parent(node)
        return isinstance(parent, ast.Call) and parent.func is node

    def _by_name(self, call: ast.Call) -> Labels:
        """The labels that `getattr(object, name)` reads: of an attribute, or of all that a project's own object has."""
        classes = {v.cls for v in self.program.values(call.args[0]) if isinstance(v, Instance)}
        name, found = call.args[1], NONE
        for attribute, writes in self.program.attribute_writes.items() if classes else ():
            if isinstance(name, ast.Constant) and name.value != attribute:
                continue
            for write in writes:
                if classes & {v.cls for v in self.program.values(write.value) if isinstance(v, Instance)}:
                    for definition in self.chains.facts(write).at(write):
                        found |= self._seen_from(call, definition)
        return found

    def _rows_of_batch(self, node: ast.expr, name: str, labels: Labels) -> tuple[Row, ...]:
        """The rows of the table for a method or attribute of a part of a batch, taken as a tensor."""
        is_of_batch = any(isinstance(la, Origin) and la.mark is Mark.BATCH for la in labels)
        row = table.member("tensor", name) if is_of_batch and UNKNOWN in self.chains.kinds.of(node) else None
        return () if row is None else (row,)

    def _run(self, call: ast.Call, callees: Iterable[Scope], position: int | None) -> Labels:
        found = NONE
        makes = any(isinstance(v, ClassValue) for v in self.program.values(call.func))
        for callee in callees:
            if makes and callee.is_method and callee.parameters:
                made = self._for_call(self._get(Filled(callee, callee.parameters[0].arg)), call, callee)
                found |= made | self._held_from_then_on(call, callee)
                continue
            found |= self._for_call(self._get(Returned(callee, position)), call, callee)
        return found

    def _held_from_then_on(self, call: ast.Call, init: Scope) -> Labels:
        """The labels of running values that objects get, once they have been given to one that keeps them."""
        into = {la.name: la.into for la in self._given_in(self._get(Filled(init, init.parameters[0].arg)))}
        found = NONE
        for name, place in into.items():
            given = self.chains.given(call, init, name)
            for read in (n for n in ast.walk(given) if isinstance(n, ast.Name)) if given is not None else ():
                for change in self._later_changes(call, read):
                    labels = frozenset(la for la in self._get(change) if isinstance(la, Origin))
                    found |= labels if place is None else self._at(self._without_place(labels), place)
        return found

    def _later_changes(self, call: ast.Call, read: ast.Name) -> Iterator[Definition]:
        """The calls that change an object in place after another one was given it."""
        variable = self.chains.variable(read)
        if variable is None or self.shards.is_alike(read):
            return
        frame = self.program.frame(call)
        for change in self.chains.facts(read).all_of(variable):
            is_here = change.kind is Kind.IN_PLACE and self.program.frame(change.node) is frame
            if is_here and change.node is not call and self.program.reaches(call, change.node):
                yield change

    def _by_row(self, row: Row, labels: Labels, call: ast.Call) -> Labels:
        """The labels of the result of a library's function for arguments with some labels."""
        if leaves(row) or (row.role is Role.COLLECTIVE and row.same is Same.YES):
            return NONE
        found = labels
        if row.same is Same.YES:
            found = NONE
        elif row.has(Trait.SHAPE_ONLY):
            found = self._counted(labels, call)
        elif _keeps_some(row, call) and any(isinstance(la, Origin) and la.differs for la in labels):
            found = labels | {Origin(Mark.CHOSEN, call)}
        if row.has(Effect.READS_CLOCK):
            found |= {Origin(Mark.CLOCK, call)}
        elif row.has(Effect.SIMULATES) and self.shards.draws:
            found |= {Origin(Mark.SIMULATION, call)}
        elif self.draws.draws(row, call):
            found |= {Origin(Mark.DRAW, call)}
        elif row.same is Same.NO and Trait.SPREADS in row.traits:
            found |= {Origin(Mark.RANK, call)}
        return found

    def _takes_a_batch(self, call: ast.Call) -> bool:
        """`next(iter(loader))`"""
        iterator = self.program.iterator(call)
        return iterator is not None and self.shards.is_loader(iterator)

    def _is_length_of_loader(self, call: ast.Call) -> bool:
        loader = sizes.measured(call)
        return loader is not None and self.shards.is_loader(loader)


def _keeps_some(row: Row, call: ast.Call) -> bool:
    """Whether a call gives as many rows as its argument's values say: `x.nonzero()`, `where(x > 0)`."""
    given = len(call.args) + len(call.keywords)
    return row.rows is Rows.SELECTS or (row.has(Trait.FINDS) and given <= 1)


@cache
def _says_of_what_sort(attribute: str) -> bool:
    """Whether an attribute says where a tensor is, or of what type, not what is in it: `x.device`, `x.dtype`."""
    rows = [row for row in table.members(attribute) if row.has(Trait.ATTRIBUTE)]
    return any(row.has(Trait.SAYS_WHERE) or row.returns == "dtype" for row in rows)


def _is_of(label: Label, method: Scope) -> bool:
    first = method.parameters[:1]
    return isinstance(label, Given) and label.scope is method and bool(first) and label.name == first[0].arg


def is_self(program: Program, node: ast.expr) -> bool:
    """Whether an expression is the object whose method it stands in: `self`."""
    if not isinstance(node, ast.Name):
        return False
    owner = program.scope(node).owner(node.id)
    if owner is None or not owner.is_method or owner.is_static:
        return False
    return bool(owner.parameters) and owner.parameters[0].arg == node.id
