"""What follows a count of steps, of which an epoch has fewer the more processes there are: schedules, intervals?"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import TypeGuard

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries.row import SHOWN
from accelify.codemod.metrics.facts import Loop, Metrics
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.rounds import stops
from accelify.codemod.metrics.steps.lengths import counts_all, given_values, has_length
from accelify.codemod.metrics.steps.ranges import is_overlong, is_range, rounds_of
from accelify.codemod.metrics.updates import assigned_to
from accelify.codemod.preparing.batch_sizes import is_same_size
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.conditions import Conditions
from accelify.codemod.semantics.definitions import Definition, Kind
from accelify.codemod.semantics.program import LOOPS
from accelify.codemod.semantics.scopes import parts, returned
from accelify.codemod.semantics.values import ClassValue, Instance, Made
from accelify.codemod.training.loops.training import Data
from accelify.codemod.training.losses import all_losses

_DEPTH = 3  # Units: functions between a loop and what it calls in the end


def shrunken_schedules(metrics: Metrics) -> Iterator[ast.expr]:
    """The `T_max=len(loader)` of schedulers that step once an epoch: in one process the loader is N times as long."""
    counts = StepCounts(metrics)
    for given, is_by_batch in _scheduler_arguments(metrics):
        is_shorter = has_length(metrics, given) and not counts_all(metrics, given)
        if is_shorter and not any(is_by_batch) and not counts.is_epochs(given):
            yield given


def _scheduler_arguments(metrics: Metrics) -> Iterator[tuple[ast.expr, list[bool]]]:
    """A scheduler's arguments beside its optimizer, and of each of its steps, whether it is in a loop sharded."""
    for call, steps in _stepped_schedulers(metrics).items():
        are_sharded = [_is_sharded(metrics, step, _DEPTH) for step in steps]
        yield from ((given, are_sharded) for given in [*call.args[1:], *(k.value for k in call.keywords)])


def _is_sharded(metrics: Metrics, call: ast.AST, depth: int) -> bool:
    """Whether a loop that is sharded makes a call, itself or by functions that it calls."""
    if any(metrics.measured.program.inside(call, loop) for loop in metrics.shared_loops):
        return True
    callers = metrics.measured.program.flow.callers.get(metrics.measured.program.frame(call), ()) if depth else ()
    return any(_is_sharded(metrics, caller, depth - 1) for caller in callers)


def goes_over_all(metrics: Metrics, node: ast.AST, loop: ast.AST) -> bool:
    """Whether a place in a loop over `loaders[phase]` is for a phase whose loader is whole in every process."""
    measured, program = metrics.measured, metrics.measured.program
    phase = measured.training.phases.get(loop)
    source = measured.tracer.inside(phase.loop.iter) if phase is not None else None
    if phase is None or any(d.loop is loop for d in metrics.sharded) or not isinstance(source, ast.Subscript):
        return False
    if not isinstance(phase.test, ast.Compare) or ast.unparse(source.slice) != ast.unparse(phase.test.left):
        return False
    rounds = (loop, *program.loops_round(loop)[:1])  # that of the phases round it
    around = [b for b in program.branches_round(node) if any(program.inside(b[0], r) for r in rounds)]
    asked = [(branching.test, holds) for branching, holds in around]
    asked += [(node.test, True)] if isinstance(node, ast.If) else []
    for test in (a for a in program.ancestors(node) if isinstance(a, ast.BoolOp) and isinstance(a.op, ast.And)):
        asked += [(v, True) for v in itertools.takewhile(lambda v: not program.inside(node, v), test.values)]
    return any(phase.is_over(test, holds) for test, holds in asked)


class StepCounts:
    """Find what is decided by a count of steps alone: not by the part of an epoch, `step / len(loader)`."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.program = metrics.measured.program
        self.chains = metrics.measured.chains
        self._followed: dict[tuple[ast.AST, bool], bool] = {}  # False while it is looked at
        self._asked = 0  # questions that wait for others

    def learning_rates(self) -> Iterator[ast.AST]:
        """Where a learning rate is set from a count of steps, and the schedulers that count steps for themselves."""
        for node in self.rates_set():
            place = self._steps_behind(node)
            if place is not None:
                yield place
        yield from self._given_rates()
        for call, steps in _stepped_schedulers(self.metrics).items():
            fewer = [s for s in steps if self.fixed_rounds.isdisjoint(self.program.loops_round(s))]
            if any(_is_sharded(self.metrics, s, _DEPTH) and self._counts_each(s) for s in fewer):
                given = [*call.args[1:], *(k.value for k in call.keywords)]
                overlong = [g for g in given if has_length(self.metrics, g) and counts_all(self.metrics, g)]
                if overlong or not any(self.is_count(g) or self._ends_training(g) for g in given):
                    yield overlong[0] if overlong else call

    def rates_set(self) -> Iterator[ast.Assign | ast.AugAssign]:
        """The statements that set the learning rate of an optimizer."""
        for node in (n for parsed in self.program.files for n in parsed.parents):
            if isinstance(node, (ast.Assign, ast.AugAssign)) and self._sets_learning_rate(node):
                yield from [node] if self.program.frame(node) in self.program.reachable else []

    def _given_rates(self) -> Iterator[ast.expr]:
        """The learning rates that optimizers are made with, and that follow a count of steps."""
        for call in self.program.calls:
            rates = [k.value for k in call.keywords if k.arg == "lr"]
            is_made = bool(rates) and any(map(self.metrics.measured.roles.is_optimizer, self.program.values(call)))
            yield from (rate for rate in rates if is_made and self.counts(rate))

    def intervals(self) -> Iterator[ast.AST]:
        """The conditions in training loops that come true at some counts of steps, but for those that step."""
        for loop in self.metrics.shared_loops:
            for node in walk(loop):
                steps = isinstance(node, ast.If) and any(
                    self.program.inside(s, node) for s in self.metrics.measured.training.steps
                )
                is_asked = isinstance(node, (ast.If, ast.While)) and not steps and self._is_at_counts(node.test)
                if is_asked and not goes_over_all(self.metrics, node, loop):
                    yield node

    def phases(self) -> Iterator[ast.expr]:
        """The conditions under which training begins or stops to take some of its steps: `if step > 500:`."""
        ends = {limit.test for limit in self.limits()}
        choices = (n for parsed in self.program.files for n in parsed.nodes if isinstance(n, ast.If))
        for choice in (c for c in choices if c.test not in ends):
            compared = [n for n in walk(choice.test) if isinstance(n, ast.Compare) and _is_threshold(n)]
            if any(map(self._is_at_counts, compared)) and self._steps(choice):
                yield choice.test

    def _steps(self, choice: ast.If) -> bool:
        """Whether a branch learns, or steps an optimizer."""
        steps = self.metrics.measured.training.steps
        return self._trains(choice) or any(self.program.inside(s, choice) for s in steps)

    def in_losses(self) -> Iterator[ast.expr]:
        """The parts of losses that follow a count of steps: a weight, a temperature, a number for the model.

        And the conditions under which a part is added from some step on: `if step > 500: loss += penalty`.
        """
        waiting = all_losses(self.program, self.metrics.measured.training.backwards)
        seen: set[ast.expr] = set()
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if self._is_mean_so_far(node):
                waiting.append(node.left)
            elif not self._is_of_steps(node):
                yield from self._begun_late(node)
                waiting.extend(self.made_of(node))
            elif self.counts(node):
                yield node

    def _begun_late(self, node: ast.expr) -> Iterator[ast.expr]:
        """The conditions under which a variable gets its value before some count of steps, or after it."""
        found = self.chains.definitions(node) if isinstance(node, (ast.Name, ast.Attribute)) else ()
        for place in (d.node for d in found if d.kind in (Kind.ASSIGNMENT, Kind.AUGMENTED)):
            for branching, _ in self.program.branches_round(place):
                compared = [n for n in ast.walk(branching.test) if isinstance(n, ast.Compare) and _is_threshold(n)]
                if not any(map(self._is_place, compared)) and any(map(self._is_at_counts, compared)):
                    yield branching.test

    def _is_place(self, test: ast.expr) -> bool:
        """Whether a condition asks for a place in the data, of which each process has its own: `if i + 4 > len(x):`."""
        found = (d for n in ast.walk(test) if isinstance(n, ast.Name) for d in self.chains.definitions(n))
        loops = (a for d in found if d.kind is Kind.LOOP for a in self.program.ancestors(d.node))
        return any(map(self.metrics.measured.prepared.is_sharded_sequence, loops))

    def _is_mean_so_far(self, node: ast.expr) -> TypeGuard[ast.BinOp]:
        """`total / n`: a sum over the steps so far is divided by their number, so that it is none of the two."""
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or not self.is_count(node.right):
            return False
        is_reduced = self._is_sum(node.left) and not self.is_count(node.left)
        return is_reduced or any(not origin.is_count for origin in self.metrics.ranks.of(node.left).of(Mark.RUNNING))

    def _is_of_steps(self, node: ast.expr) -> bool:
        """Whether a value is worked out from a counter of steps alone, or a choice from one."""
        rank, parent = self.metrics.ranks.of(node), self.program.parent(node)
        is_chosen = isinstance(parent, ast.IfExp) and parent.test is node
        return (is_chosen or rank.steps) and any(isinstance(o.node, LOOPS) for o in rank.of(Mark.STEPS))

    def made_of(self, node: ast.expr) -> Iterator[ast.expr]:
        """The expressions that a value is computed from, one step back; not which item of the data it is."""
        if self.program.iterator(node) is not None or self._is_beside_count(node):
            return
        if isinstance(node, ast.Subscript):
            yield node.value
            if self.metrics.ranks.of(node.value).of(Mark.BATCH):  # no data that are worked through by places
                yield from (n for n in _bounds(node.slice) if self.is_count(n) and not any(map(_is_remainder, walk(n))))
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
                elif (value := assigned_to(self.program, definition.node)) is not None:
                    yield value
        else:
            yield from parts(node)
            callees = self.program.flow.callees.get(node, ()) if isinstance(node, ast.Call) else ()
            yield from (value for value in returned(callees) if value is not None)

    def _is_beside_count(self, node: ast.expr) -> bool:
        """`args.weight` or `state["model"]`, where `args.steps` or `state["step"]` is what counts in the object."""
        if not isinstance(node, (ast.Attribute, ast.Subscript)):
            return False
        return self.is_count(node.value) and not self.is_count(node)

    def samples(self, sizes: Collection[ast.expr]) -> Iterator[ast.expr]:
        """The counts of samples that are worked out from the size of a batch: `step * size`, `n` of `n += size`."""
        tracer = self.metrics.measured.tracer
        for node in (n for parsed in self.program.files for n in parsed.nodes):
            place: ast.expr
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                factors, place = [node.value], node.target
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                factors, place = [node.left, node.right], node
            else:
                continue
            if not any(is_same_size(tracer, size, factor) for size in sizes for factor in factors):
                continue
            is_count = self.counts(node) if place is node else _is_sharded(self.metrics, node, _DEPTH)
            loop = next((a for a in self.program.loops_round(node) if a in self.metrics.shared_loops), None)
            is_of_all = loop is not None and goes_over_all(self.metrics, node, loop)
            if is_count and not is_of_all and not self._is_only_shown(place) and not self._is_index(place):
                yield place

    def shard_sizes(self, sizes: Collection[ast.expr]) -> Iterator[ast.expr]:
        """The sizes of data by the length of a process's shard: `len(loader) * loader.batch_size`.

        Not those that only divide a sum over the same shard, or are read in its rounds, beside counts of them.
        """
        for node in (n for parsed in self.program.files for n in parsed.parents if isinstance(n, ast.BinOp)):
            if isinstance(node.op, ast.Mult) and self.program.frame(node) in self.program.reachable:
                for length, size in ((node.left, node.right), (node.right, node.left)):
                    if self._is_length(length) and self._is_size(size, sizes) and not self._is_of_rounds(node):
                        yield node

    def _is_length(self, node: ast.expr) -> bool:
        """`len(loader)` of a prepared loader, itself or by its variable."""
        prepared = self.metrics.measured.prepared
        if isinstance(node, ast.Name):
            given = given_values(self.metrics, node)
            return len(given) == 1 and not isinstance(given[0], ast.Name) and self._is_length(given[0])
        loader = sizes.measured(node)
        return loader is not None and prepared.is_loader(loader)

    def _is_size(self, node: ast.expr, sizes: Collection[ast.expr]) -> bool:
        """Whether an expression is the size of a batch: one of the sizes, or `loader.batch_size`."""
        if isinstance(node, ast.Attribute) and self.metrics.measured.prepared.is_loader(node.value):
            return node.attr == "batch_size"
        return any(is_same_size(self.metrics.measured.tracer, size, node, "batch") for size in sizes)

    def _is_of_rounds(self, node: ast.expr) -> bool:
        """Whether a value is read for a sum of the rounds of a loop only, or in the rounds, by its variable too."""
        statement = self.program.statement(node)
        target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is node else None
        owner = self.program.scope(node).owner(target.id) if isinstance(target, ast.Name) else None
        reads: list[ast.expr] = [node]
        if owner is not None and isinstance(target, ast.Name):
            reads = [*self.program.reads_of(owner, target.id)]
        shared = set(self.metrics.shared_loops)
        return all(self.divides_sum(read) or not shared.isdisjoint(self.program.loops_round(read)) for read in reads)

    def _is_index(self, node: ast.expr) -> bool:
        """Whether a variable is a place in what is worked through in parts: `rows[i : i + size]`, then `i += size`."""
        owner = self.program.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        reads = self.program.reads_of(owner, node.id) if owner is not None and isinstance(node, ast.Name) else []
        around = ((read, a) for read in reads for a in self.program.ancestors(read) if isinstance(a, ast.Subscript))
        return any(self.program.inside(read, a.slice) for read, a in around)

    def _is_only_shown(self, node: ast.expr) -> bool:
        """Whether a value goes nowhere but into texts and to what shows them, by its variable too.

        A sum that it divides is one of as many samples.
        """
        while isinstance(around := self.program.parent(node), ast.BinOp):
            node = around
        statement = self.program.statement(node)
        targets = statement.targets if isinstance(statement, ast.Assign) and statement.value is node else [node]
        owner = self.program.scope(node).owner(targets[0].id) if isinstance(targets[0], ast.Name) else None
        if owner is None or not isinstance(targets[0], ast.Name):
            return self._is_shown(node)
        reads = self.program.reads_of(owner, targets[0].id)
        return all(self._is_shown(read) or self.divides_sum(read) for read in reads)

    def divides_sum(self, read: ast.expr) -> bool:
        """`total / n` or `total /= n`, where `total` is a sum over the rounds of a loop."""
        parent = self.program.parent(read)
        if isinstance(parent, ast.AugAssign) and isinstance(parent.op, ast.Div) and parent.value is read:
            return self._is_sum(parent.target)
        if not isinstance(parent, ast.BinOp) or not isinstance(parent.op, ast.Div) or parent.right is not read:
            return False
        return self._is_sum(parent.left)

    def _is_sum(self, node: ast.expr) -> bool:
        """Whether a variable in an expression is a sum over the rounds of a loop."""
        parts = (n for n in walk(node) if isinstance(n, (ast.Name, ast.Attribute)))
        found = (d for part in parts for d in self.chains.definitions(part))
        return any(self.metrics.ranks.running.loop_in(d) is not None for d in found)

    def shown(self) -> Iterator[ast.AST]:
        """Where the number of batches is shown as it is, outside of the loops that count them."""
        for call in self.program.calls:
            loader = sizes.measured(call)
            if loader is not None and self.metrics.measured.prepared.is_loader(loader):
                is_within = any(loop in self.metrics.shared_loops for loop in self.program.loops_round(call))
                if not is_within and self._is_shown(call):
                    yield call

    def _is_shown(self, node: ast.AST) -> bool:
        """Whether a value is put into a text, or handed to what shows it."""
        parent = self.program.parent(node)
        while isinstance(parent, (ast.FormattedValue, ast.JoinedStr, ast.Tuple, ast.keyword)):
            parent = self.program.parent(parent)
        if isinstance(parent, ast.BinOp):
            return self.chains.kinds.of(parent.left) == {"string"} and self._is_shown(parent)
        if not isinstance(parent, ast.Call):
            return False
        rows = self.chains.kinds.called(parent) or ()
        is_text = bool(rows) and all(row.returns == "string" for row in rows)
        return self._is_shown(parent) if is_text else any(row.effects & SHOWN for row in rows)

    def multiplied_epochs(self) -> Iterator[tuple[ast.expr, ast.BinOp]]:
        """What says how many epochs there are by a quotient that grows with the processes: `steps / len(loader)`.

        The number of steps that is divided, and the quotient. Not where a limit ends the training at that number.
        """
        yield from ((n, q) for q, n in self._quotients.items() if not self._ends_training(n))

    def is_epochs(self, number: ast.expr) -> bool:
        """Whether a number follows the count of steps by how many epochs there are, and not beside it."""
        return any(n in self._quotients for n in self._sources(number)) and not self.counts(number)

    @cached_property
    def _quotients(self) -> dict[ast.BinOp, ast.expr]:
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

    def limits(self) -> Iterator[ast.If | ast.While]:
        """The conditions that end a training loop, or one round it, after some count of steps, and such loops."""
        around = (loop for loops in self.metrics.measured.training.loops.values() for loop in loops)
        shared = filter(self._trains, self.metrics.shared_loops)
        within: list[ast.AST] = list(dict.fromkeys([*shared, *around]))
        for node in dict.fromkeys(n for loop in within for n in walk(loop)):
            ends = self._ends(node, within) if isinstance(node, ast.If) else node in within
            if isinstance(node, (ast.If, ast.While)) and ends and self._is_at_counts(node.test):
                yield node

    def _trains(self, loop: ast.AST) -> bool:
        """Whether a round of a loop learns, and does not just look at a batch."""
        program, backwards = self.program, self.metrics.measured.training.backwards
        run = program.run_through([n for n in walk(loop) if isinstance(n, ast.Call)])
        return any(program.inside(b, loop) or program.frame(b) in run for b in backwards)

    def caps(self) -> Iterator[ast.expr]:
        """The numbers of batches, alike in all processes, after which the head of a training loop ends it."""
        for loop in filter(self._trains, self.metrics.shared_loops):
            if not self.metrics.measured.prepared.is_sharded_sequence(loop):
                calls = (n for n in walk(loop.iter) if isinstance(n, ast.Call))
                found = (n for call in calls for n in stops(self.chains, call))
                yield from (n for n in found if not self.is_count(n) and not _is_none(n))

    def _ends_training(self, number: ast.expr) -> bool:
        """Whether the training ends at the very number of steps that a schedule is made for."""
        return not self._last_steps.isdisjoint(self._origins(number))

    @cached_property
    def _last_steps(self) -> frozenset[tuple[ast.AST, str]]:
        """Where the numbers of steps at which the training ends come from."""
        stops = (*(limit.test for limit in self.limits()), *self.caps())
        return frozenset(origin for stop in stops for origin in self._origins(stop))

    def _origins(self, node: ast.expr) -> Iterator[tuple[ast.AST, str]]:
        """Where the numbers in an expression come from, but for counts of steps: an option, or what was assigned."""
        if not isinstance(node, (ast.Name, ast.Attribute)):
            yield from (origin for part in parts(node) for origin in self._origins(part))
        elif not self.is_count(node):
            held, name = (node.value, node.attr) if isinstance(node, ast.Attribute) else (node, "")
            yield from ((chain[-1].node, name) for chain in self.metrics.measured.tracer.chains(held))

    def rounds(self) -> list[ast.stmt]:
        """The training loops with as many steps as in one process, where all are: each finds or draws its batch."""
        loops = dict.fromkeys(d.loop for d in self.metrics.measured.training.data if d.loop is not None)
        if not self.fixed_rounds.issuperset(loops) or any(map(self._is_overlong, loops)):
            return []
        return [*loops]

    def _is_overlong(self, loop: Loop | ast.While) -> bool:
        count = rounds_of(self.metrics, loop)
        return count is not None and is_overlong(self.metrics, loop, count)

    @cached_property
    def fixed_rounds(self) -> set[ast.AST]:
        """The training loops that ask a loader for as many batches in each process as in one, or draw as many."""
        found = {d.loop: self._sets_its_steps(d) for d in self.metrics.measured.training.data if d.loop is not None}
        return {loop for loop, is_fixed in found.items() if is_fixed}

    def _sets_its_steps(self, data: Data) -> bool:
        """Whether a number that is the same in all processes says how many batches a loop asks for, or draws."""
        loop = data.loop
        if data.kind == "random":
            return loop is not None
        if data.kind != "loaders" or loop is None or _ends_with_its_data(loop):
            return False
        if isinstance(loop, ast.While):
            return self._is_at_counts(loop.test)
        parts = [n for n in walk(loop.iter) if isinstance(n, ast.expr)]
        counts = any(isinstance(n, ast.Call) and n.args and is_range(self.metrics, n) for n in parts)
        return counts and loop.iter not in data.sources and not any(map(self.is_count, parts))

    def checks(self) -> Iterator[ast.stmt]:
        """The assertions about the number of batches, and the conditions on it that raise an error."""
        for parsed in self.program.files:
            for node in parsed.parents:
                if not isinstance(node, (ast.Assert, ast.If)) or self.program.frame(node) not in self.program.reachable:
                    continue
                parts = [n for n in walk(node.test) if isinstance(n, ast.expr)]
                is_of_length = any(has_length(self.metrics, part) for part in parts)
                if (isinstance(node, ast.Assert) or _raises(node)) and is_of_length and self._is_at_counts(node.test):
                    yield node

    def _ends(self, node: ast.If, loops: Collection[ast.AST]) -> bool:
        """Whether a branch of a condition leaves one of some loops."""
        leaving = [n for branch in (node.body, node.orelse) for s in branch for n in walk(s)]
        frame = self.program.frame(node)
        return any(
            isinstance(n, (ast.Break, ast.Return))
            and self.program.frame(n) is frame
            and next((a for a in self.program.loops_round(n)), None) in loops
            for n in leaving
        )

    def _is_at_counts(self, test: ast.expr) -> bool:
        """Whether a condition counts steps, and not only up to the first."""
        for node in walk(test):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and self._counts_within(node):
                return True
            if isinstance(node, ast.Compare) and not _is_remainder(node.left) and self.counts(node):
                limits = [getattr(c, "value", None) for c in [node.left, *node.comparators]]
                if not any(limit in (0, 1) for limit in limits):
                    return True
        return False

    def _counts_each(self, step: ast.Call) -> bool:
        """Whether `scheduler.step()` counts by itself, or is given a count of steps."""
        return not step.args or self.counts(step.args[0])

    def _sets_learning_rate(self, node: ast.Assign | ast.AugAssign) -> bool:
        """`group["lr"] = ...` for one of an optimizer's groups."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(
            isinstance(t, ast.Subscript)
            and isinstance(t.slice, ast.Constant)
            and t.slice.value == "lr"
            and self._is_group(t.value)
            for t in targets
        )

    def _is_group(self, node: ast.expr) -> bool:
        if any(isinstance(n, ast.Attribute) and n.attr == "param_groups" for n in walk(node)):
            return True
        found = self.chains.definitions(node) if isinstance(node, ast.Name) else frozenset()
        holders = (self.program.parent(d.node) for d in found if d.kind in (Kind.LOOP, Kind.ASSIGNMENT))
        heads = [h.iter if isinstance(h, ast.For) else h.value for h in holders if isinstance(h, (ast.For, ast.Assign))]
        return any(isinstance(n, ast.Attribute) and n.attr == "param_groups" for h in heads for n in walk(h))

    def _steps_behind(self, node: ast.Assign | ast.AugAssign, depth: int = _DEPTH) -> ast.AST | None:
        """Where a count of steps says what is set, or whether: the place itself, or a call under a condition."""
        each_step = isinstance(node, ast.AugAssign) and _is_sharded(self.metrics, node, depth)
        if each_step and not self._is_chosen(node):
            return None if self._is_by_count(node.value) else node
        if self.counts(node.value):
            return node
        return self._condition_behind(node, depth)

    def _is_chosen(self, node: ast.AST) -> bool:
        return any(True for _ in self.program.branches_round(node))

    def _condition_behind(self, node: ast.AST, depth: int) -> ast.AST | None:
        if any(self._counts_within(branching.test) for branching, _ in self.program.branches_round(node)):
            return node
        calls = self.program.calls_of(self.program.frame(node)) if depth else []
        return next((n for call in calls if (n := self._condition_behind(call, depth - 1)) is not None), None)

    def _is_by_count(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a value is one part of as many as there are steps: `(high / low) ** (1 / len(loader))`."""
        for part in walk(node):
            is_ratio = isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div)
            if isinstance(part, ast.BinOp) and is_ratio and self.is_count(part.right):
                return not self.is_count(part.left)
            found = self.chains.definitions(part) if isinstance(part, ast.Name) and depth else frozenset()
            values = [self.metrics.measured.tracer.assigned(d.node) for d in found if isinstance(d.node, ast.expr)]
            if any(value is not None and self._is_by_count(value, depth - 1) for value in values):
                return True
        return False

    def is_count(self, node: ast.expr) -> bool:
        """Whether a value is worked out from the number of this process's steps."""
        return bool(self.metrics.ranks.of(node).of(Mark.STEPS))

    def counts(self, node: ast.expr) -> bool:
        """Whether a value depends on a count of steps in another way than by its part of such a count."""
        return self._follows(node, whole=True)

    def _counts_within(self, node: ast.expr) -> bool:
        """Whether a value depends on a count of steps, be it one within an epoch alone."""
        return self.counts(node) or any(self._goes_by_epoch(n) for n in walk(node) if isinstance(n, ast.expr))

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
            is_part = whole and (self.is_part(node) or self._goes_by_epoch(node) or node in self._quotients)
            is_whole = self.is_count(node) and not is_part
            self._followed[key] = is_whole and self._is_made_from(node, whole)
            self._asked -= 1
            if not self._asked and self._followed[key]:  # what was not, on the way there, may be by another way
                self._followed = {known: True for known, found in self._followed.items() if found}
                return True
        return self._followed[key]

    def is_part(self, node: ast.expr) -> bool:
        """Whether two counts of steps are divided or compared, which comes out the same for any number of processes."""
        sides: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod)):
            sides = [node.left, node.right]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        is_part = bool(sides) and all(self._follows(side, whole=False) for side in sides)
        return is_part or self._is_mean_so_far(node)

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
            return not (isinstance(added, (ast.Assign, ast.AugAssign)) and self._is_by_count(added.value))
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


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """The terms of a sum: `n` and `k` of `n + k` and of `-n - k`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from (term for side in (node.left, node.right) for term in _terms(side))
    else:
        yield node.operand if isinstance(node, ast.UnaryOp) else node


def _ends_with_its_data(loop: ast.AST) -> bool:
    """Whether what catches the end of an iterator leaves the loop."""
    handlers = (n for n in walk(loop) if isinstance(n, ast.ExceptHandler))
    return any(isinstance(n, (ast.Break, ast.Return)) for handler in handlers for n in walk(handler))


def _bounds(index: ast.expr) -> Iterator[ast.expr]:
    """The numbers in an index: `n` and `k` of `[:, :n, k]`."""
    for part in index.elts if isinstance(index, ast.Tuple) else [index]:
        yield from filter(None, (part.lower, part.upper, part.step)) if isinstance(part, ast.Slice) else [part]


def _raises(node: ast.If) -> bool:
    """Whether a branch of a condition ends in an error."""
    return any(branch and isinstance(branch[-1], ast.Raise) for branch in (node.body, node.orelse))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_threshold(node: ast.Compare) -> bool:
    """Whether a comparison asks which of two numbers is greater, and not in turns: `step % 3 > 1`."""
    is_ordered = any(isinstance(op, (ast.Gt, ast.GtE, ast.Lt, ast.LtE)) for op in node.ops)
    return is_ordered and not any(map(_is_remainder, walk(node)))


def _is_remainder(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)


def _stepped_schedulers(metrics: Metrics) -> dict[ast.Call, list[ast.Call]]:
    """The calls that make schedulers, with those of their `step` that some call of their function reaches."""
    program = metrics.measured.program
    conditions = program.once(Conditions)
    steps: dict[ast.Call, list[ast.Call]] = {}
    for step in program.calls:
        if isinstance(step.func, ast.Attribute) and step.func.attr == "step":
            for value in filter(metrics.measured.roles.is_scheduler, program.values(step.func.value)):
                made = [value.node] if isinstance(value, Made) else []
                if isinstance(value, Instance):  # of the project's own class
                    made += [c for c in program.calls if ClassValue(value.cls) in program.values(c.func)]
                for call in made:
                    if isinstance(call, ast.Call) and conditions.worlds(step):
                        steps.setdefault(call, []).append(step)
    return steps
