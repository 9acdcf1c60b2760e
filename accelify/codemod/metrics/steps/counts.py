"""What is a count of steps, of which an epoch has fewer the more processes there are, and what follows one?"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from functools import cached_property
from typing import TypeGuard

from accelify.codemod.files.nodes import walk
from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.steps.lengths import counts_all
from accelify.codemod.metrics.steps.ranges import rounds_of
from accelify.codemod.metrics.updates import assigned_to
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.definitions import Definition, Kind
from accelify.codemod.semantics.program import LOOPS
from accelify.codemod.semantics.scopes import parts, returned
from accelify.codemod.semantics.values import Instance

_DEPTH = 3  # Units: steps back from a value to what it is made from


class StepCounts:
    """Find what follows a count of steps: not by the part of an epoch, `step / len(loader)`."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.program = metrics.measured.program
        self.chains = metrics.measured.chains
        self._followed: dict[tuple[ast.AST, bool], bool] = {}  # False while it is looked at
        self._asked = 0  # questions that wait for others

    def is_count(self, node: ast.expr) -> bool:
        """Whether a value is worked out from the number of this process's steps."""
        return bool(self.metrics.ranks.of(node).of(Mark.STEPS))

    def counts(self, node: ast.expr) -> bool:
        """Whether a value depends on a count of steps in another way than by its part of such a count."""
        return self._follows(node, whole=True)

    def counts_within(self, node: ast.expr) -> bool:
        """Whether a value depends on a count of steps, be it one within an epoch alone."""
        return self.counts(node) or any(self._goes_by_epoch(n) for n in walk(node) if isinstance(n, ast.expr))

    def is_part(self, node: ast.expr) -> bool:
        """Whether two counts of steps are divided or compared, which comes out the same for any number of processes."""
        sides: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod)):
            sides = [node.left, node.right]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        is_part = bool(sides) and all(self._follows(side, whole=False) for side in sides)
        return is_part or self.is_mean_so_far(node)

    def is_mean_so_far(self, node: ast.expr) -> TypeGuard[ast.BinOp]:
        """`total / n`: a sum over the steps so far is divided by their number, so that it is none of the two."""
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or not self.is_count(node.right):
            return False
        is_reduced = self.is_sum(node.left) and not self.is_count(node.left)
        return is_reduced or any(not origin.is_count for origin in self.metrics.ranks.of(node.left).of(Mark.RUNNING))

    def is_at_counts(self, test: ast.expr) -> bool:
        """Whether a condition counts steps, and not only up to the first."""
        for node in walk(test):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and self.counts_within(node):
                return True
            if isinstance(node, ast.Compare) and not is_remainder(node.left) and self.counts(node):
                limits = [getattr(c, "value", None) for c in [node.left, *node.comparators]]
                if not any(limit in (0, 1) for limit in limits):
                    return True
        return False

    def is_epochs(self, number: ast.expr) -> bool:
        """Whether a number follows the count of steps by how many epochs there are, and not beside it."""
        return any(n in self.quotients for n in self._sources(number)) and not self.counts(number)

    @cached_property
    def quotients(self) -> dict[ast.BinOp, ast.expr]:
        """The quotients of some number by the length of a prepared loader that say how many epochs there are."""
        passes = self.metrics.measured.prepared.loops.intersection(self.metrics.shared_loops)
        found: dict[ast.BinOp, ast.expr] = {}
        for around in self.metrics.measured.training.loops.values():
            inner = next((i for i, loop in enumerate(around) if loop in passes), len(around))
            for loop in (n for n in around[inner + 1 :] if isinstance(n, (ast.For, ast.AsyncFor))):
                for node in self._sources(rounds_of(self.metrics, loop)):
                    divided = self._divided_by_length(node)
                    if divided is not None and isinstance(node, ast.BinOp):
                        found.setdefault(node, divided)
        return found

    def _sources(self, number: ast.expr | None) -> Iterator[ast.expr]:
        """The expressions that a number which follows the steps is worked out from, by all its variables."""
        waiting = [] if number is None else [number]
        seen: set[ast.expr] = set()
        while waiting:
            node = waiting.pop()
            if node not in seen and self.is_count(node):
                seen.add(node)
                yield node
                waiting.extend(self.made_of(node))

    def _divided_by_length(self, node: ast.expr) -> ast.expr | None:
        """`n` of `n / len(loader)` and of `(n + len(loader) - 1) // len(loader)`, the same for all processes."""
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Div, ast.FloorDiv)):
            return None
        lengths = self.metrics.ranks.of(node.right).of(Mark.STEPS)
        if not lengths or any(isinstance(origin.node, LOOPS) for origin in lengths):
            return None
        terms = [t for t in _terms(node.left) if not self.is_count(t)]
        named = (t for t in terms if not isinstance(t, ast.Constant))
        return next(named, terms[0] if len(terms) == 1 and terms[0] is node.left else None)

    def made_of(self, node: ast.expr) -> Iterator[ast.expr]:
        """The expressions that a value is computed from, one step back; not which item of the data it is."""
        if self.program.iterator(node) is not None or self._is_beside_count(node):
            return
        if isinstance(node, ast.Subscript):
            yield node.value
            if self.metrics.ranks.of(node.value).of(Mark.BATCH):  # no data that are worked through by places
                yield from (n for n in _bounds(node.slice) if self.is_count(n) and not any(map(is_remainder, walk(n))))
        elif isinstance(node, (ast.Name, ast.Attribute)) and (found := self.chains.definitions(node)):
            for definition in found:
                if definition.kind is Kind.PARAMETER and isinstance(definition.node, ast.arg):
                    function = self.program.scope(definition.node)
                    given = (
                        self.chains.given(c, function, definition.node.arg) for c in self.program.calls_of(function)
                    )
                    yield from (g for g in given if g is not None)
                elif isinstance(definition.node, ast.Call):
                    continue  # what a call that changes an object gives is another value
                elif _is_of_a_part(definition) and self.is_passed_whole(node):
                    continue  # the function that gets the object reads the attribute
                elif (value := assigned_to(self.program, definition.node)) is not None:
                    yield value
        else:
            yield from parts(node)
            callees = self.program.flow.callees.get(node, ()) if isinstance(node, ast.Call) else ()
            yield from (value for value in returned(callees) if value is not None)

    def is_passed_whole(self, node: ast.expr) -> bool:
        """Whether a value is an argument for a function of the project's own."""
        parent = self.program.parent(node)
        parent = self.program.parent(parent) if isinstance(parent, ast.keyword) else parent
        return isinstance(parent, ast.Call) and parent.func is not node and bool(self.program.flow.callees.get(parent))

    def _is_beside_count(self, node: ast.expr) -> bool:
        """`args.weight` or `state["model"]`, where `args.steps` or `state["step"]` is what counts in the object."""
        if not isinstance(node, (ast.Attribute, ast.Subscript)):
            return False
        return self.is_count(node.value) and not self.is_count(node)

    def divides_sum(self, read: ast.expr) -> bool:
        """`total / n` or `total /= n`, where `total` is a sum over the rounds of a loop."""
        parent = self.program.parent(read)
        if isinstance(parent, ast.AugAssign) and isinstance(parent.op, ast.Div) and parent.value is read:
            return self.is_sum(parent.target)
        if not isinstance(parent, ast.BinOp) or not isinstance(parent.op, ast.Div) or parent.right is not read:
            return False
        return self.is_sum(parent.left)

    def is_sum(self, node: ast.expr) -> bool:
        """Whether a variable in an expression is a sum over the rounds of a loop."""
        parts = (n for n in walk(node) if isinstance(n, (ast.Name, ast.Attribute)))
        found = (d for part in parts for d in self.chains.definitions(part))
        return any(self.metrics.ranks.running.loop_in(d) is not None for d in found)

    def _goes_by_epoch(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a count goes on by the size of all data with each epoch: `len(rows) // size * epoch + i`.

        It comes to a number in the same epoch for any number of processes.
        """
        if isinstance(node, (ast.Name, ast.Attribute)):
            found = self.chains.definitions(node) if depth and self.is_count(node) else ()
            values = [assigned_to(self.program, d.node) for d in found if d.kind is Kind.ASSIGNMENT]
            return any(value is not None and self._goes_by_epoch(value, depth - 1) for value in values)
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
            return False
        sides = ((node.left, node.right), (node.right, node.left))
        return any(self._begins_anew(count, place) for sizes, count in sides for place in self._epochs(sizes))

    def _epochs(self, node: ast.expr) -> Iterator[ast.AST]:
        """The loop over the epochs, or the function that one calls, of `epoch * n`, where all data say what `n` is."""
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult) or self.is_count(node):
            return
        for epoch, size in ((node.left, node.right), (node.right, node.left)):
            if isinstance(epoch, ast.Name) and counts_all(self.metrics, size):
                yield from self._rounds_numbered(epoch)

    def _rounds_numbered(self, node: ast.Name) -> Iterator[ast.AST]:
        """The loops whose rounds a variable numbers, or the function that they give it to."""
        for definition in self.chains.definitions(node):
            if definition.kind is Kind.LOOP:
                loops = (a for a in self.program.ancestors(definition.node) if isinstance(a, LOOPS))
                yield from itertools.islice(loops, 1)
            elif definition.kind is Kind.PARAMETER and isinstance(definition.node, ast.arg):
                function, name = self.program.scope(definition.node), definition.node.arg
                given = [self.chains.given(call, function, name) for call in self.program.calls_of(function)]
                found = [self.chains.definitions(g) if isinstance(g, ast.Name) else frozenset() for g in given]
                if any(d.kind is Kind.LOOP for each in found for d in each):
                    yield function.node

    def _begins_anew(self, count: ast.expr, place: ast.AST) -> bool:
        """Whether the counts of steps in an expression begin anew in each round of a loop, or call of a function."""
        counts = [n for n in walk(count) if isinstance(n, (ast.Name, ast.Attribute)) and self.is_count(n)]
        for read in counts:
            owner = self.program.scope(read).owner(read.id) if isinstance(read, ast.Name) else None
            writes = owner.writes.get(read.id, ()) if owner is not None and isinstance(read, ast.Name) else ()
            if not writes or not all(self.program.inside(write, place) for write in writes):
                return False
        return bool(counts)

    def _follows(self, node: ast.expr, *, whole: bool) -> bool:
        """Whether a value comes from a count of steps.

        whole: not from a part of one, `step / len(loader)`, nor from one that goes by the epoch.
        """
        key = node, whole
        if key not in self._followed:
            self._followed[key] = False
            self._asked += 1
            is_part = whole and (self.is_part(node) or self._goes_by_epoch(node) or node in self.quotients)
            is_whole = self.is_count(node) and not is_part
            self._followed[key] = is_whole and self._is_made_from(node, whole)
            self._asked -= 1
            if not self._asked and self._followed[key]:  # what was not, on the way there, may be by another way
                self._followed = {known: True for known, found in self._followed.items() if found}
                return True
        return self._followed[key]

    def _is_made_from(self, node: ast.expr, whole: bool) -> bool:
        if isinstance(node, (ast.Name, ast.Attribute)) and (found := self.chains.definitions(node)):
            return any(self._is_given(d, whole) for d in found)
        if isinstance(node, ast.Call):
            callees = self.program.flow.callees.get(node, ())
            if callees:
                returned = (n.value for c in callees for n in walk(c.node) if isinstance(n, ast.Return))
                return any(value is not None and self._follows(value, whole=whole) for value in returned)
            if (of := sizes.measured(node)) is not None:
                return self._grows(of)
        return any(self._follows(n, whole=whole) for n in parts(node))

    def _grows(self, node: ast.expr, depth: int = 3 * _DEPTH) -> bool:
        """Whether the number of steps says how many items something has: a loader, a list that its rounds fill."""
        held = [v for v in self.program.values(node) if isinstance(v, Instance)]
        if held or self.metrics.measured.prepared.is_loader(node):
            return not held or any(self.program.flow.method(v.cls, "__len__") is not None for v in held)
        if not depth or sizes.shaped(node) is not None:
            return False
        if isinstance(node, (ast.Name, ast.Attribute)) and (found := self.chains.definitions(node)):
            return any(self._is_filled(definition, depth) for definition in found)
        made_of = [*parts(node)]
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            made_of = [part.value for part in made_of if isinstance(part, ast.Starred)]
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            made_of = [generator.iter for generator in node.generators]
        elif isinstance(node, ast.Call) and (callees := self.program.flow.callees.get(node)):
            made_of = [value for value in returned(callees) if value is not None]
        return any(self._grows(part, depth - 1) for part in made_of)

    def _is_filled(self, definition: Definition, depth: int) -> bool:
        """Whether a definition adds items in the rounds of a sharded loop, or gives something that has as many."""
        if self.metrics.ranks.running.loop_in(definition) is not None:
            return True
        values = [assigned_to(self.program, definition.node)]
        if definition.kind is Kind.PARAMETER and isinstance(definition.node, ast.arg):
            function = self.program.scope(definition.node)
            values = [self.chains.given(c, function, definition.node.arg) for c in self.program.calls_of(function)]
        return any(value is not None and self._grows(value, depth - 1) for value in values)

    def _is_given(self, definition: Definition, whole: bool) -> bool:
        """Whether a definition gives a count of steps."""
        ranks, node = self.metrics.ranks, definition.node
        if ranks.running.loop_in(definition) is not None:
            added = self.program.parent(node)
            return not (isinstance(added, (ast.Assign, ast.AugAssign)) and self.is_part_of_count(added.value))
        if definition.kind is Kind.LOOP:
            return any(a in ranks.rounds for a in self.program.ancestors(node))
        if definition.kind is Kind.PARAMETER and isinstance(node, ast.arg):
            function = self.program.scope(node)
            given = [self.chains.given(c, function, node.arg) for c in self.program.calls_of(function)]
            return any(g is not None and self._follows(g, whole=whole) for g in given)
        parent = self.program.parent(node)
        assigned = self.metrics.measured.tracer.assigned(node) if isinstance(node, ast.expr) else None
        value = parent.value if isinstance(parent, ast.AugAssign) else assigned
        return value is not None and self._follows(value, whole=whole)

    def is_part_of_count(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a value is one part of as many as there are steps: `(high / low) ** (1 / len(loader))`."""
        for part in walk(node):
            is_ratio = isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div)
            if isinstance(part, ast.BinOp) and is_ratio and self.is_count(part.right):
                return not self.is_count(part.left)
            found = self.chains.definitions(part) if isinstance(part, ast.Name) and depth else frozenset()
            values = [self.metrics.measured.tracer.assigned(d.node) for d in found if isinstance(d.node, ast.expr)]
            if any(value is not None and self.is_part_of_count(value, depth - 1) for value in values):
                return True
        return False


def _is_of_a_part(definition: Definition) -> bool:
    """Whether an attribute of an object is set: `args.step = step`, of `args`."""
    return definition.kind is Kind.IN_PLACE and isinstance(definition.node, ast.Attribute)


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """The terms of a sum: `n` and `k` of `n + k` and of `-n - k`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from (term for side in (node.left, node.right) for term in _terms(side))
    else:
        yield node.operand if isinstance(node, ast.UnaryOp) else node


def _bounds(index: ast.expr) -> Iterator[ast.expr]:
    """The numbers in an index: `n` and `k` of `[:, :n, k]`."""
    for part in index.elts if isinstance(index, ast.Tuple) else [index]:
        yield from filter(None, (part.lower, part.upper, part.step)) if isinstance(part, ast.Slice) else [part]


def is_remainder(node: ast.AST) -> bool:
    """`step % 100`"""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)


def is_threshold(node: ast.Compare) -> bool:
    """Whether a comparison asks which of two numbers is greater, and not in turns: `step % 3 > 1`."""
    is_ordered = any(isinstance(op, (ast.Gt, ast.GtE, ast.Lt, ast.LtE)) for op in node.ops)
    return is_ordered and not any(map(is_remainder, walk(node)))
