"""What do loops over a script's own data shard: indices, slices, items of lists and arrays?"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import Effect, Role
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, method_of_call, names_in
from accelify.codemod.semantics.values import (
    Argument,
    Collection,
    Element,
    Generated,
    Instance,
    Made,
    Member,
    Value,
    View,
)
from accelify.codemod.training.experience import Experience
from accelify.codemod.training.loops.bodies import CALCULATES, Loop, assigned_in, calculated, nodes_in, with_derived
from accelify.codemod.training.loops.iterables import Iterables
from accelify.codemod.training.losses import without_gradients
from accelify.codemod.training.roles import Roles

_ARRAYS = frozenset({"tensor", "ndarray"})
_CHECKS = (ast.If, ast.IfExp, ast.While, ast.Assert)
_SAME = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
_OF_AN_EPOCH = re.compile(r"(per|each|an|one|in|len)_?epoch(?!s)")  # `steps_per_epoch` counts no epochs


class OwnData:
    """Find the data of a loop that has no loader, and tell them from counters, folds and settings."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, iterables: Iterables) -> None:
        self.program = program
        self.flow = program.flow
        self.roles = roles
        self.tracer = tracer
        self.iterables = iterables
        self.chains = program.once(Chains)
        self.experience = Experience(program, tracer)

    def own(self, loop: Loop) -> tuple[str, ast.expr] | None:
        """The source of the data of a loop of the script's own, if it is the loop that shards the data."""
        if not isinstance(loop, ast.For):
            return None
        source = self.tracer.inside(loop.iter, "reversed")
        owners = self.iterables.owners(source)
        if self.iterables.is_part_of_a_batch(loop):
            return None
        if any(isinstance(o, Made) and names.is_counter(o.name) for o in owners):
            text = _OF_AN_EPOCH.sub("", ast.unparse(source).lower())
            if "epoch" in text or "step" in text.split("(")[0]:
                return None
            is_shared = self._picks_data(loop) and not self._leaves_out(loop, names_in(loop.target))
            return ("sequence", source) if is_shared else None
        if isinstance(source, (ast.List, ast.Tuple, ast.Dict, ast.Constant)) or self._is_literal(owners):
            return None
        if any(map(self._is_of_folds, owners)) or self._leaves_out(loop, self._counters(loop)):
            return None
        kind = "sequence" if self._may_be_a_list(source) else self._kind_of(owners)
        return (kind, source) if kind is not None and self._uses_items(loop) else None

    def chosen(self, loop: Loop) -> Iterator[ast.Compare]:
        """What decides by an item's number whether a loop trains on the item: `if k == held_out: continue`.

        By the order of two numbers only `enumerate` tells: a range's or a count's may be where the data, or a run, end.
        """
        counted = set(self._counters(loop))
        ordered = counted - names_in(*(t.target for t in nodes_in(loop) if isinstance(t, ast.AugAssign)))
        is_range = isinstance(loop, ast.For) and self.tracer.is_counter(self.tracer.inside(loop.iter))
        ordered = set() if is_range else ordered
        values = dict(assigned_in(loop))
        for node in (n for n in nodes_in(loop) if isinstance(n, ast.If) and counted):
            leaves = any(isinstance(s, ast.Continue) for s in [*node.body, *node.orelse])
            leaves = leaves and self.program.loops_round(node)[0] is loop
            if leaves or any(isinstance(n, ast.Call) and self._goes_back(n) for n in walk(node)):
                tests = [node.test, *(values[name] for name in names_in(node.test) & values.keys())]
                for test in (n for t in tests for n in walk(t) if isinstance(n, ast.Compare)):
                    numbers = calculated(counted if isinstance(test.ops[0], _SAME) else ordered, loop)
                    if _chooses(test, numbers, leaves=leaves):
                        yield test

    def _counters(self, loop: Loop) -> Iterator[str]:
        """The variables that number a loop's items: of `enumerate(x)`, `range(n)`, `zip(range(n), x)`, `k += 1`."""
        if not isinstance(loop, ast.For):
            return
        for target in (n for n in walk(loop.target) if isinstance(n, ast.Name)):
            if self.tracer.is_numbered(target):
                yield target.id
        for node in loop.body:
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and ast.unparse(node.value) == "1":
                yield node.target.id

    def _goes_back(self, call: ast.Call) -> bool:
        return method_of_call(call) == "backward" or self._trains(call)

    def is_own_experience(self, loop: Loop, source: ast.expr) -> bool:
        """Whether what a loop shards is what this process's own environment returned."""
        if not isinstance(loop, ast.For):
            return False
        counters = with_derived(names_in(loop.target), list(nodes_in(loop)))
        picked = [p.value for node in nodes_in(loop) for p in self._picked(node, counters)]
        return any(map(self.experience.holds, [source, *picked]))

    def walks(self, loop: Loop) -> bool:
        """Whether rounds of a `while` take one piece of data after the other, however long: `x[i : i + n]; i += n`."""
        if not isinstance(loop, ast.While):
            return False
        moved = (n.target for n in nodes_in(loop) if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add))
        ends = (n.test for n in nodes_in(loop) if isinstance(n, ast.If) and isinstance(n.body[-1], ast.Break))
        positions = {n.id for n in moved if isinstance(n, ast.Name)} & names_in(loop.test, *ends)
        picked = [p for node in nodes_in(loop) for p in self._picked(node, positions)] if positions else []
        slices = [p.slice for p in picked if isinstance(p.slice, ast.Slice) and p.slice.lower is not None]
        return any(isinstance(s.lower, ast.Name) for s in slices)

    def is_within_a_batch(self, loop: Loop) -> bool:
        """Whether a loop counts parts of what a generator of the project's own yields to a loop round it."""
        for outer in self.program.loops_round(loop):
            if not isinstance(outer, ast.For) or not any(
                isinstance(o, Generated) for o in self.iterables.owners(outer.iter)
            ):
                continue
            made = (
                v for call in self.program.calls if self.program.inside(call, outer) for v in self.program.values(call)
            )
            if not any(map(self.roles.is_optimizer, made)):  # else it yields folds
                return self.own(outer) is not None
        return False

    def _kind_of(self, owners: set[Value]) -> str | None:
        """Whether batches come from an object that can be prepared, or from one whose items are to be sharded."""
        own = [o for o in owners if isinstance(o, Instance) and self._yields(o)]
        if own:
            return "loaders" if all(self._is_counted(o) for o in own) else "sequence"
        are_known = any(map(_is_of_data, owners))  # `prepare` refuses these: `shard` takes them, and a loader, too
        if any(isinstance(o, (Argument, Member)) for o in owners) and not are_known:
            return "loaders"
        return "sequence" if are_known or any(isinstance(o, (Made, Collection, Generated)) for o in owners) else None

    def _yields(self, instance: Instance) -> bool:
        return any(self.flow.method(instance.cls, name) for name in ("__iter__", "__getitem__", "__next__"))

    def _is_counted(self, instance: Instance) -> bool:
        """Whether `prepare` takes it for a source of batches: it can be iterated and counted, but not indexed."""
        iterates, counts, indexes = (
            self.flow.method(instance.cls, name) for name in ("__iter__", "__len__", "__getitem__")
        )
        return iterates is not None and counts is not None and indexes is None

    def _may_be_a_list(self, source: ast.expr) -> bool:
        """Whether a loop goes over a list that the script makes, at times: `prepare` refuses it, `shard` takes both."""
        return any(map(self._is_listed, self.program.values(source)))

    def _is_listed(self, value: Value) -> bool:
        """Whether the script makes a list, apart from one of all batches of what may be a loader."""
        if isinstance(value, Collection):
            return bool(self.flow.elements(value))
        if not isinstance(value, View) or not isinstance(value.node, ast.Call):
            return False
        is_copy = not {"list", "sorted"}.isdisjoint(self.program.called(value.node))
        return is_copy and not any(isinstance(v, (Argument, Member)) for v in self.flow.view_source(value))

    def _is_literal(self, owners: set[Value]) -> bool:
        """Whether what a loop goes over is written out, or combined from lists that are: settings."""
        listed = [o.node for o in owners if isinstance(o, Collection)]
        return bool(listed) and all(map(self._is_written_out, listed))

    def _is_written_out(self, node: ast.AST) -> bool:
        """`[0.1, 0.01]`, and `[(a, b) for a in rates for b in sizes]` of such lists."""
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            is_combined = not any(isinstance(n, ast.Call) for n in walk(node.elt))
            return is_combined and all(self._is_literal(self.iterables.owners(g.iter)) for g in node.generators)
        is_display = isinstance(node, (ast.List, ast.Tuple, ast.Dict))
        return is_display and bool(getattr(node, "elts", getattr(node, "keys", [])))

    def _picks_data(self, loop: ast.For) -> bool:
        """Whether a counter picks data: it indexes or slices something that is read."""
        counters = with_derived(names_in(loop.target), list(nodes_in(loop)))
        nodes = (n for n in nodes_in(loop) if not self._evaluates(n, loop))
        picked = [p for node in nodes for p in self._picked(node, counters) if self._is_numbered(p, loop)]
        if any(self.roles.learns(v) for p in picked for v in self.program.values(p)):
            return False  # which network is trained is no choice of data
        if any(self._is_of_folds(o) for p in picked for o in self.iterables.owners(p.value)):
            return False
        results = self._results(loop)
        picked = [p for p in picked if ast.unparse(p.value) not in results]
        return any(not self.program.inside(p, loop) or not self._is_only_shown(p, loop) for p in picked)

    def _results(self, loop: ast.For) -> set[str]:
        """The containers into which a loop puts what its training gives: `losses[i + 1] = losses[i] + train()`."""
        assigned = [n for n in nodes_in(loop) if isinstance(n, ast.Assign)]
        given = [n for n in assigned if any(isinstance(c, ast.Call) and self._trains(c) for c in walk(n.value))]
        return {ast.unparse(t.value) for n in given for t in n.targets if isinstance(t, ast.Subscript)}

    @staticmethod
    def _is_of_folds(owner: Value) -> bool:
        """Whether items are the folds of a cross-validation: nearly all data, on which each process has to train."""
        return isinstance(owner, Made) and names.makes_folds(owner.name)

    def _leaves_out(self, loop: ast.For, counted: Iterable[str]) -> bool:
        """Whether a round takes all rows but those of its number: `x[group != k]`, `x[:k] + x[k + 1 :]`."""
        counted = set(counted)
        derived = with_derived(counted, list(nodes_in(loop)))
        if _leaves_gap(p for node in nodes_in(loop) for p in self._picked(node, derived)):
            return True
        tests = {n for each in nodes_in(loop) if isinstance(each, _CHECKS) for n in walk(each.test)}
        for node in nodes_in(loop):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotEq) and node not in tests:
                numbers = [s for s in (node.left, *node.comparators) if isinstance(s, ast.Name) and s.id in counted]
                others = [s for s in (node.left, *node.comparators) if not names_in(s) & counted]
                if numbers and others:
                    return True
        return False

    def _is_numbered(self, picked: ast.Subscript, loop: ast.For) -> bool:
        """Whether what indexes an item may come from the loop's number where it is read; elsewhere it is not known."""
        if not self.program.inside(picked, loop):
            return True
        waiting, seen = [n for n in walk(picked.slice) if isinstance(n, ast.Name)], set[ast.AST]()
        while waiting:
            for node in (d.node for d in self.chains.definitions(waiting.pop())):
                if self.program.inside(node, loop.target):
                    return True
                if node not in seen and self.program.inside(node, loop):
                    waiting += [n for n in walk(self.program.statement(node)) if isinstance(n, ast.Name)]
                seen.add(node)
        return False

    def _evaluates(self, node: ast.AST, loop: ast.For) -> bool:
        """Whether a node is in a block without gradients, or of some rounds, that gives the rest of the loop nothing.

        `with torch.no_grad():`, or `if i % 100 == 0:` round code that does not train.
        """
        around = itertools.takewhile(lambda a: a is not loop, self.program.ancestors(node))
        blocks: list[ast.AST] = [a for a in around if isinstance(a, ast.If) and node is not a.test]
        block = without_gradients(self.program, node)
        blocks += [block] if isinstance(block, ast.With) and self.program.inside(block, loop) else []
        return any(not self._gives(block, loop) for block in blocks)

    def _gives(self, block: ast.AST, loop: ast.For) -> bool:
        """Whether a block of a loop trains, or sets or changes what the rest of the loop reads."""
        for node in walk(block):
            is_kept = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            if is_kept or (isinstance(node, ast.Call) and self._goes_back(node)):
                return True
        names = (n for n in nodes_in(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
        reads = (n for n in names if not self.program.inside(n, block) and not self._is_only_shown(n, loop))
        data = (n for n in reads if not any(map(self.roles.learns, self.program.values(n))))
        return any(self.program.inside(d.node, block) for n in data for d in self.chains.definitions(n))

    def _picked(self, node: ast.AST, counters: set[str]) -> Iterator[ast.Subscript]:
        """The expressions that a counter indexes or slices, here or in a function that is given it."""
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and names_in(node.slice) & counters:
            yield node
        elif isinstance(node, ast.Call):
            for callee in self.flow.callees.get(node, ()):
                for parameter in callee.parameters:
                    argument = self.tracer.argument(node, callee, parameter.arg)
                    if argument is not None and names_in(argument) & counters:
                        yield from self._indexed_by(callee, parameter.arg)

    @staticmethod
    def _indexed_by(function: Scope, name: str) -> Iterator[ast.Subscript]:
        nodes = list(walk(function.node))
        names = with_derived({name}, nodes)
        for node in nodes:
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and names_in(node.slice) & names:
                yield node

    def _is_only_shown(self, node: ast.AST, within: ast.AST) -> bool:
        for ancestor in self.program.ancestors(node):
            if ancestor is within:
                return False
            if isinstance(ancestor, ast.JoinedStr):
                return True
            if isinstance(ancestor, ast.Call) and not self.program.inside(node, ancestor.func):
                if self._trains(ancestor) or self._is_asked_for_more(ancestor):
                    return False
                function = ancestor.func
                if isinstance(function, ast.Attribute):
                    is_shown = methods.shows(function.attr) or methods.is_of("string", function.attr)
                    if is_shown or methods.puts_in(function.attr):
                        return True
                elif names.says(ast.unparse(function)) or names.describes(ast.unparse(function)):
                    return True
        return False

    def _is_asked_for_more(self, call: ast.Call) -> bool:
        """Whether a function of the project's own gives something back that is used: `loss = self.step(batch)`."""
        return bool(self.flow.callees.get(call)) and not isinstance(self.program.parent(call), ast.Expr)

    def _trains(self, call: ast.Call) -> bool:
        """Whether a call runs a backward pass in functions of the project's own, whatever these are called."""
        run = self.program.run_through([call])
        return any(method_of_call(c) == "backward" for function in run for c in self.program.calls_in(function))

    def _uses_items(self, loop: ast.For) -> bool:
        targets = [n for n in walk(loop.target) if isinstance(n, ast.Name)]
        held = [v for t in targets for v in self.program.values(t)]
        if any(map(self.roles.learns, held)) and not any(map(self.roles.is_part_of_a_batch, targets)):
            return False  # a loop over networks, optimizers or weights shards no data
        names = {n.id for n in targets}
        return any(
            isinstance(n, ast.Name)
            and isinstance(n.ctx, ast.Load)
            and n.id in names
            and not self._is_only_shown(n, loop)
            and not self._is_setting(n)
            for n in nodes_in(loop)
        )

    def _is_setting(self, node: ast.expr, depth: int = 3) -> bool:
        """Whether an item only says how to make a network or an optimizer, here or in functions: a learning rate."""
        for call in self.program.ancestors(node):
            if isinstance(call, ast.stmt):
                return False
            if not isinstance(call, ast.Call) or self.program.inside(node, call.func):
                continue
            if any(map(self.roles.learns, self.program.values(call))):
                return True
            reads = [r for f in self.flow.callees.get(call, ()) for r in self._reads_given(f, call, node)]
            return bool(reads) and depth > 0 and all(self._is_setting(r, depth - 1) for r in reads)
        return False

    def _reads_given(self, function: Scope, call: ast.Call, node: ast.expr) -> Iterator[ast.Name]:
        """Where a function reads what a call gives it with an expression; not where it only shows that."""
        given = {p.arg for p in function.parameters if node is self.tracer.argument(call, function, p.arg)}
        for name in given:
            reads = self.program.reads_of(function, name)
            yield from (r for r in reads if not self._is_only_shown(r, function.node))


def _is_of_data(value: Value) -> bool:
    """Whether a library's call makes data that are no loader, or has read them, or a part of them, from a file."""
    while isinstance(value, (Element, Member)):
        value = value.owner
    row = table.function(value.name) if isinstance(value, Made) else None
    if row is None or row.role is Role.LOADER:
        return False
    return row.has(Effect.READS_FILES) or row.returns in _ARRAYS


def _chooses(test: ast.Compare, numbers: set[str], *, leaves: bool) -> bool:
    """Whether a comparison tells one number from others; every n-th round (`k % 4 == 0`) is no choice of items."""
    sides = [test.left, *test.comparators]
    counted = [s for s in sides if names_in(s) & numbers and all(isinstance(n, CALCULATES) for n in walk(s))]
    others = [s for s in sides if not names_in(s) & numbers]
    if len(counted) != 1 or len(others) != 1:
        return False
    named = names_in(others[0])
    if not named:
        return leaves and isinstance(test.ops[0], _SAME) and isinstance(counted[0], ast.Name)
    every = [n.right for n in walk(counted[0]) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)]
    return not any(named <= names_in(e) for e in every)


def _leaves_gap(picked: Iterable[ast.Subscript]) -> bool:
    """Whether of something all is taken that stands before one place, and all that stands behind another."""
    ends, starts = set(), set()
    for node in picked:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for axis, part in ((n, p) for n, p in enumerate(parts) if isinstance(p, ast.Slice) and p.step is None):
            if part.lower is None and part.upper is not None and not isinstance(part.upper, ast.UnaryOp):
                ends.add((ast.unparse(node.value), axis, ast.unparse(part.upper)))
            elif part.upper is None and part.lower is not None:
                starts.add((ast.unparse(node.value), axis, ast.unparse(part.lower)))
    return any(end[:2] == start[:2] and end[2] != start[2] for end in ends for start in starts)
