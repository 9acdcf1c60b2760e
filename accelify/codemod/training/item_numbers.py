"""What does a script decide by the number of an item or of a round, in a loop whose items are sharded?

Each process has items of its own, so what asks for an item's number (`i` of `for i in range(0, n, 8)`) says something
else on every rank. And each counts fewer rounds than one process would: a round's number never gets to `len(data)`.
What the iterator sets while it makes an item, too, is that of a later item by the time the item is used.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods, names
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.summary import Place
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, method_of_call, names_in
from accelify.codemod.semantics.values import Element, Generated, Instance, Made, Value, Values, View
from accelify.codemod.training.loops.bodies import Loop, assigned_in, calculated, nodes_in
from accelify.codemod.training.loops.iterables import Iterables
from accelify.codemod.training.loops.own_data import OwnData
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.roles import Roles

_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Raise)
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Whole:
    """A condition that waits for as many rounds as there are items, or batches, in all.

    steers: whether the training is steered by it. batches: what it compares with, where that is how many full batches
    there are, and the loop does nothing but end there.
    """

    node: ast.If
    steers: bool
    batches: ast.expr | None = None


@dataclass(frozen=True, slots=True)
class Skipping:
    """A number that is worked out from this process's rounds of a loop and from more rounds than it takes.

    tests: the conditions that ask for one of its values.
    """

    node: ast.BinOp
    tests: Sequence[ast.If]


def read_behind(program: Program, loop: Loop, source: ast.expr) -> Iterator[ast.Name | ast.Attribute]:
    """The state of an iterator that a loop reads and that is already at later items: `data.where`."""
    making = set(_making(program, source))
    written = {(maker, place) for maker in making for place in _set_for_each(program, maker)}
    calls = (n for s in loop.body for n in walk(s) if isinstance(n, ast.Call))
    called = {f for call in calls for f in program.flow.callees.get(call, ())}
    frames = sorted(program.run_from(called) - making, key=lambda f: f.qualified_name) if written else []
    nodes = dict.fromkeys(n for part in (*loop.body, *(f.node for f in frames)) for n in walk(part))
    for node in (n for n in nodes if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Load)):
        if any(_is_at(program, node, maker, place) for maker, place in written):
            yield node


def _making(program: Program, source: ast.expr) -> Iterator[Scope]:
    """The project's functions that make the items of something."""
    for value in (v for n in walk(source) if isinstance(n, ast.expr) for v in program.values(n)):
        if isinstance(value, Generated):
            yield value.scope
        elif isinstance(value, Instance):
            found = (program.flow.method(value.cls, name) for name in ("__iter__", "__next__", "__getitem__"))
            yield from (method for method in found if method is not None)


def _set_for_each(program: Program, maker: Scope) -> frozenset[Place]:
    """The state that a function writes for each item: a generator in its loops, `__next__` altogether."""
    loops = [n for s in maker.body for n in walk(s) if isinstance(n, LOOPS)] if maker.generates else maker.body
    return program.once(Effects).of(*loops).writes if maker.generates or maker.name != "__iter__" else frozenset()


def _is_at(program: Program, node: ast.Name | ast.Attribute, maker: Scope, place: Place) -> bool:
    """Whether a read is of a place that a function writes: an attribute of its object, a variable of its module."""
    if isinstance(node, ast.Name):
        is_outer = place.scope is not None and place.scope is not maker and not place.path
        return is_outer and node.id == place.name and program.scope(node).owner(node.id) is place.scope
    is_attribute = place.scope is maker and place.path[:1] == (f".{node.attr}",) and maker.is_method
    objects = [v for v in program.values(node.value) if isinstance(v, Instance)] if is_attribute else []
    return any(program.flow.method(v.cls, maker.name) is maker for v in objects)


class ItemNumbers:
    """Find the conditions in loops over shards."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, training: Training) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.training = training

    def asked(self, loop: Loop) -> Iterator[tuple[ast.stmt, bool]]:
        """The statements that go by the number of an item, each with whether the training is steered by it."""
        counted = self._item_numbers(loop) if isinstance(loop, ast.For) else set()
        if not counted:
            return
        numbers = calculated(counted, loop)
        sliced = {n for n, value in assigned_in(loop) if isinstance(value, ast.Subscript) and names_in(value) & numbers}
        for node in nodes_in(loop):
            if isinstance(node, ast.If) and (names_in(node.test) & numbers or _sizes(node.test) & sliced):
                steers = self._steers(node, leaving=loop)
                if steers or any(isinstance(n, (ast.Mod, ast.Eq)) for n in walk(node.test)):
                    yield node, steers  # else it only finds where the data end
            elif sets_learning_rate(node) and names_in(node.value) & numbers:
                yield node, True

    def chosen(self, loop: Loop) -> Iterator[ast.Compare]:
        """What picks one batch of a loader by the number of another loop's round: `k == held_out`."""
        sources = OwnData(self.program, self.roles, self.tracer, Iterables(self.program, self.roles, self.tracer))
        for test in sources.chosen(loop):
            sides = [test.left, *test.comparators]
            named = [[n for n in walk(side) if isinstance(n, ast.Name)] for side in sides]
            if all(any(map(self.tracer.is_numbered, each)) for each in named):
                yield test

    def never_counted(
        self, loop: Loop, is_own: Callable[[ast.expr], bool], source: ast.expr | None = None
    ) -> Iterator[Whole]:
        """The conditions that wait for as many rounds as there are items in all; `is_own` knows loaders.

        source: what `shard` is given for the loop: comparisons with its length alone are `own_ends`.
        """
        own = dict(self.own_ends(loop, source)) if source is not None else {}
        rounds = calculated(self._round_numbers(loop), loop)
        told = self._arguments_behind(loop)
        for node in nodes_in(loop):
            if not isinstance(node, ast.If):
                continue
            for test in (n for n in walk(node.test) if isinstance(n, ast.Compare) and len(n.ops) == 1):
                if test in own:
                    continue
                sides = [test.left, test.comparators[0]]
                whole = [s for s in sides if self._named(s) & told or self._is_whole(s, is_own)]
                counted = [s for s in sides if names_in(s) & rounds]
                if len(whole) == len(counted) == 1 and whole != counted:
                    ends = test is node.test and isinstance(counted[0], ast.Name) and self._ends_before(test, counted)
                    is_plain = [type(s) for s in node.body] == [ast.Break] and not node.orelse
                    batches = whole[0] if ends and is_plain and self._is_full_batches(whole[0], is_own) else None
                    yield Whole(node, self._steers(node, leaving=None), batches)
                    break

    def own_ends(self, loop: Loop, source: ast.expr) -> Iterator[tuple[ast.Compare, ast.expr]]:
        """The comparisons of a round's number with that of the items that the loop goes over, each with the latter.

        `i + 1 == len(items)`, `i % len(items) == 0`; source: what `shard` is given for the loop.
        """
        rounds = self._round_numbers(loop)
        for test in nodes_in(loop) if rounds else ():
            if not isinstance(test, ast.Compare) or len(test.ops) != 1:
                continue
            sides = [test.left, test.comparators[0]]
            modulo = next((s for s in sides if isinstance(s, ast.BinOp) and isinstance(s.op, ast.Mod)), None)
            numbers = [_without_constant(s) for s in (sides if modulo is None else (modulo.left, modulo.right))]
            counted = [n for n in numbers if isinstance(n, ast.Name) and n.id in rounds]
            items = [n for n in numbers if self._counts(n, source)]
            if len(counted) == len(items) == 1:
                yield test, items[0]

    def _counts(self, node: ast.expr, source: ast.expr) -> bool:
        """Whether an expression is how many items there are in what a loop goes over: `len(x)`, `n` of `range(n)`."""
        if isinstance(source, ast.Call) and self.program.called(source) == {"range"}:
            return len(source.args) == 1 and self._is_same(node, source.args[0])
        value = node
        if isinstance(node, ast.Name):
            owner = self.program.scope(node).owner(node.id)
            writes = self.tracer.writes(owner, node.id) if owner is self.program.frame(source) else []
            given = self.tracer.assigned(writes[0]) if len(writes) == 1 and isinstance(writes[0], ast.Name) else None
            value = given if given is not None else node
        counted = sizes.measured(value)
        return counted is not None and self._is_same(counted, source)

    def _is_same(self, one: ast.expr, other: ast.expr) -> bool:
        """Whether two expressions are spelled alike, and nothing in them is bound anew between the two."""
        if ast.unparse(one) != ast.unparse(other):
            return False
        named = [[n for n in walk(side) if isinstance(n, ast.Name)] for side in (one, other)]
        if any(self._bound_by(a) != self._bound_by(b) for a, b in zip(*named, strict=True)):
            return False
        attributes = {n.attr for n in walk(other) if isinstance(n, ast.Attribute)}
        stored = (n for n in walk(self.program.frame(other).node) if isinstance(n, ast.Attribute))
        return not any(n.attr in attributes and isinstance(n.ctx, ast.Store) for n in stored)

    def _bound_by(self, name: ast.Name) -> set[ast.AST]:
        owner = self.program.scope(name).owner(name.id)
        return set(self.program.reaching(name, self.tracer.writes(owner, name.id))) if owner is not None else set()

    def skipping(self, loop: Loop, is_own: Callable[[ast.expr], bool], *, is_sequence: bool) -> Iterator[Skipping]:
        """`epoch * batches + i`, where `i` counts a process's rounds and `batches` those of all, in conditions.

        is_sequence: whether `shard` is given what the loop iterates over, so that other numbers are of all processes.
        """
        rounds = self._round_numbers(loop)
        sums = [n for n in nodes_in(loop) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Add)]
        for total in (n for n in sums if self.program.parent(n) not in sums):
            terms = list(_terms(total))
            strides = [t for t in terms if self._counts_outer_rounds(t, rounds)]
            is_mixed = any(isinstance(t, ast.Name) and t.id in rounds for t in terms)
            if not is_mixed or not any(is_sequence or self._is_whole(t, is_own) for t in strides):
                continue
            if any(is_own(of) for t in strides[:1] for of in sizes.measured_in(t)):
                continue
            numbers = {name for name, value in assigned_in(loop) if total in walk(value)}
            held = calculated(numbers, loop) if numbers else numbers
            tests = [n for n in nodes_in(loop) if isinstance(n, ast.If) and _picks(n.test, held, total)]
            if tests:
                yield Skipping(total, tests)

    def _counts_outer_rounds(self, term: ast.expr, rounds: Collection[str]) -> bool:
        """Whether a term multiplies the number of another loop's round: `epoch * batches`, `(epoch - 1) * batches`."""
        if not isinstance(term, ast.BinOp) or not isinstance(term.op, ast.Mult):
            return False
        named = [n for n in walk(term) if isinstance(n, ast.Name)]
        return any(n.id not in rounds and self.tracer.is_numbered(n) for n in named)

    def _named(self, node: ast.expr) -> set[str]:
        """The variables in an expression; not `config` of `config.patience`, which is another of its numbers."""
        named = (n for n in walk(node) if isinstance(n, ast.Name))
        return {n.id for n in named if not isinstance(self.program.parent(n), ast.Attribute)}

    @staticmethod
    def _ends_before(test: ast.Compare, counted: Sequence[ast.expr]) -> bool:
        """Whether a comparison is true from a round on: `i == n`, `i >= n`, `n <= i`."""
        is_left = test.left is counted[0]
        return isinstance(test.ops[0], (ast.Eq, ast.GtE if is_left else ast.LtE))

    def _is_full_batches(self, node: ast.expr, is_own: Callable[[ast.expr], bool], depth: int = _DEPTH) -> bool:
        """Whether an expression says how many full batches there are: `len(data) // 64`, `int(len(data) / 64)`."""
        if isinstance(node, ast.Name) and depth:
            owner = self.program.scope(node).owner(node.id)
            writes = self.tracer.writes(owner, node.id) if owner is not None else []
            value = self.tracer.assigned(writes[0]) if len(writes) == 1 and isinstance(writes[0], ast.Name) else None
            return value is not None and self._is_full_batches(value, is_own, depth - 1)
        called = self.program.called(node) if isinstance(node, ast.Call) else frozenset()
        is_floored = "int" in called or any(name.endswith(".floor") for name in called)
        quotient = node.args[0] if isinstance(node, ast.Call) and is_floored and len(node.args) == 1 else node
        divides = (ast.Div, ast.FloorDiv) if is_floored else ast.FloorDiv
        is_quotient = isinstance(quotient, ast.BinOp) and isinstance(quotient.op, divides)
        return is_quotient and isinstance(quotient, ast.BinOp) and self._is_whole(quotient.left, is_own)

    def _item_numbers(self, loop: ast.For) -> set[str]:
        """The variables that number the items that are sharded: `i` of `for i in bar`, where `bar = tqdm(range(n))`."""
        held = set(self._looked_through(self.program.values(self.tracer.inside(loop.iter, "reversed"))))
        targets = [n for n in walk(loop.target) if isinstance(n, ast.Name)]
        return {t.id for t in targets if _are_numbers(self.program.values(t), held)}

    def _looked_through(self, values: Values, depth: int = _DEPTH) -> Iterator[Value]:
        """Values, and what they only go over; a copy may have been shuffled, so its order is its own."""
        for value in values if depth else ():
            yield value
            called = value.node if isinstance(value, View) and isinstance(value.node, ast.Call) else None
            if isinstance(value, View) and called and not any(map(names.is_copy, self.program.called(called))):
                yield from self._looked_through(self.program.flow.view_source(value), depth - 1)

    def _round_numbers(self, loop: Loop) -> set[str]:
        """`i` of `for i, x in enumerate(xs)`, and what grows by one in each round."""
        found = {name for statement in loop.body if (name := _grown(statement)) is not None}
        if isinstance(loop, ast.For) and isinstance(loop.target, ast.Tuple):
            called = [self.program.called(n) for n in walk(loop.iter) if isinstance(n, ast.Call)]
            found |= names_in(loop.target.elts[0]) if any("enumerate" in names for names in called) else set()
        return found

    def _arguments_behind(self, loop: Loop) -> set[str]:
        """The variables by which what a loop iterates over is made: `n` of `list(batches(n))`."""
        if not isinstance(loop, ast.For):
            return set()
        made = [c[-1].value for c in self.tracer.chains(self.tracer.inside(loop.iter)) if c[-1].value is not None]
        given = [a for m in made for n in walk(m) if isinstance(n, ast.Call) for a in n.args]
        makers = (
            f for m in made for n in walk(m) if isinstance(n, ast.Call) for f in self.program.flow.callees.get(n, ())
        )
        asked = {name for f in makers for name in f.reads if not f.binds(name)}
        is_prepared = any(self.roles.is_loader(v) for m in made for v in self.program.values(m))
        return set() if is_prepared else {n.id for g in given if isinstance(n := g, ast.Name)} | asked

    def _is_whole(self, node: ast.expr, is_own: Callable[[ast.expr], bool], depth: int = _DEPTH) -> bool:
        """Whether an expression counts all the data: it asks for the length of what is no prepared loader."""
        for each in walk(node):
            counted = sizes.measured(each)
            if counted is not None:
                if not is_own(counted) and not self.roles.is_part_of_a_batch(counted):
                    return True
            elif isinstance(each, ast.Name) and depth:
                owner = self.program.scope(each).owner(each.id)
                writes = self.tracer.writes(owner, each.id) if owner is not None else []
                values = [self.tracer.assigned(w) for w in writes if isinstance(w, ast.Name)]
                if len(writes) == 1 and any(v is not None and self._is_whole(v, is_own, depth - 1) for v in values):
                    return True
        return False

    def _steers(self, node: ast.If, *, leaving: Loop | None) -> bool:
        """Whether a branch takes a step, changes the learning rate or, if that is asked for, leaves a loop's round."""
        return any(
            inner in self.training.backwards
            or (leaving is not None and isinstance(inner, _LEAVES) and self._leaves(inner, node, leaving))
            or sets_learning_rate(inner)
            or (isinstance(inner, ast.Call) and self._steps(inner))
            for statement in [*node.body, *node.orelse]
            for inner in walk(statement)
        )

    def _leaves(self, leaving: ast.AST, node: ast.If, loop: Loop) -> bool:
        """Whether a statement leaves a loop's round, or one of a loop in it that trains."""
        around = [a for a in self.program.ancestors(leaving) if isinstance(a, LOOPS)]
        if not isinstance(leaving, (ast.Break, ast.Continue)) or around[0] is loop:
            return True
        calls = (n for n in walk(around[0]) if isinstance(n, ast.Call))
        trains = any(call in self.training.backwards or self._steps(call) for call in calls)
        return trains and not self.program.inside(around[0], node)

    def _steps(self, call: ast.Call) -> bool:
        if call in self.training.steps or self.program.flow.callees.get(call, set()) & self.training.frames:
            return True
        is_step = method_of_call(call) == "step"
        return is_step and any(self.roles.is_scheduler(v) for v in self.program.values(call.func.value))  # type: ignore[attr-defined]  # an attribute


def _are_numbers(values: Values, held: Collection[Value]) -> bool:
    """Whether values come from a counter that a loop goes over, or number what an `enumerate` there yields."""
    numbered = {v.node for v in held if isinstance(v, View) and v.kind == "enumerate"}
    counters = {v for v in held if isinstance(v, Made) and names.is_counter(v.name)}
    return bool(values) and all(
        v.owner in counters if isinstance(v, Element) else isinstance(v, Made) and v.node in numbered for v in values
    )


def _grown(statement: ast.stmt) -> str | None:
    """`i` of `i += 1`, `i = i + 1` and `i = 1 + i`."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        is_by_one = isinstance(statement.op, ast.Add) and ast.unparse(statement.value) == "1"
        return statement.target.id if is_by_one else None
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = ast.unparse(statement.targets[0])
    is_by_one = ast.unparse(statement.value) in (f"{target} + 1", f"1 + {target}")
    return target if is_by_one and isinstance(statement.targets[0], ast.Name) else None


def _without_constant(node: ast.expr) -> ast.expr:
    """`i` of `i + 1`, `n` of `n - 1`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Add, ast.Sub)):
        return node
    return node.left if isinstance(node.right, ast.Constant) else node


def _terms(total: ast.expr) -> Iterator[ast.expr]:
    """The terms of a sum."""
    if isinstance(total, ast.BinOp) and isinstance(total.op, ast.Add):
        yield from _terms(total.left)
        yield from _terms(total.right)
    else:
        yield total


def _picks(test: ast.expr, numbers: Collection[str], total: ast.AST) -> bool:
    """Whether a condition holds for some values of a number alone: `step % 100 == 0`."""
    nodes = list(walk(test))
    is_asked = total in nodes or not names_in(test).isdisjoint(numbers)
    return is_asked and any(isinstance(n, (ast.Mod, ast.Eq)) for n in nodes)


def _sizes(test: ast.expr) -> set[str]:
    """The variables whose length a condition asks for: `len(x)`, `x.shape[0]`, `x.size(0)`."""
    found: set[str] = set()
    for node in walk(test):
        if isinstance(node, ast.Attribute) and (methods.is_about(node.attr) or methods.is_size(node.attr)):
            found |= names_in(node.value)
        elif (rows := sizes.measured(node)) is not None:
            found |= names_in(rows)
    return found


def sets_learning_rate(node: ast.AST) -> TypeGuard[ast.Assign | ast.AugAssign]:
    """`group["lr"] = ...`"""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    return any(
        isinstance(t, ast.Subscript) and isinstance(t.slice, ast.Constant) and t.slice.value == "lr" for t in targets
    )
