"""Which learning rates follow a count of steps?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.files.nodes import walk
from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.steps.lengths import counts_all, has_length
from accelify.codemod.metrics.steps.limits import Limits
from accelify.codemod.metrics.steps.places import is_sharded
from accelify.codemod.semantics.conditions import Conditions
from accelify.codemod.semantics.definitions import Kind
from accelify.codemod.semantics.values import ClassValue, Instance, Made

_DEPTH = 3  # Units: functions between what sets a rate and the condition under which it does


class Rates:
    """Look at what sets a learning rate: the script itself, and schedulers."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._counts = limits.counts
        self._metrics = limits.counts.metrics
        self._program = limits.counts.program
        self._chains = limits.counts.chains

    def learning_rates(self) -> Iterator[ast.AST]:
        """Where a learning rate is set from a count of steps, and the schedulers that count steps for themselves."""
        for node in self.rates_set():
            place = self._steps_behind(node)
            if place is not None:
                yield place
        yield from self._given_rates()
        for call, steps in _stepped_schedulers(self._metrics).items():
            fewer = [s for s in steps if self._limits.fixed_rounds.isdisjoint(self._program.loops_round(s))]
            if any(is_sharded(self._metrics, s) and self._counts_each(s) for s in fewer):
                given = _given(call)
                overlong = [g for g in given if has_length(self._metrics, g) and counts_all(self._metrics, g)]
                if overlong or not any(self._counts.is_count(g) or self._limits.ends_training(g) for g in given):
                    yield overlong[0] if overlong else call

    def shrunken_schedules(self) -> Iterator[ast.expr]:
        """The `T_max=len(loader)` of schedulers that step once an epoch: one process has N times as many batches."""
        for call, steps in _stepped_schedulers(self._metrics).items():
            if not any(is_sharded(self._metrics, step) for step in steps):
                yield from filter(self._is_shrunken, _given(call))

    def _is_shrunken(self, given: ast.expr) -> bool:
        is_shorter = has_length(self._metrics, given) and not counts_all(self._metrics, given)
        return is_shorter and not self._counts.is_epochs(given)

    def rates_set(self) -> Iterator[ast.Assign | ast.AugAssign]:
        """The statements that set the learning rate of an optimizer."""
        for node in (n for parsed in self._program.files for n in parsed.parents):
            if isinstance(node, (ast.Assign, ast.AugAssign)) and self._sets_learning_rate(node):
                yield from [node] if self._program.frame(node) in self._program.reachable else []

    def _given_rates(self) -> Iterator[ast.expr]:
        """The learning rates that optimizers are made with, and that follow a count of steps."""
        for call in self._program.calls:
            rates = [k.value for k in call.keywords if k.arg == "lr"]
            is_made = bool(rates) and any(map(self._metrics.measured.roles.is_optimizer, self._program.values(call)))
            yield from (rate for rate in rates if is_made and self._counts.counts(rate))

    def _counts_each(self, step: ast.Call) -> bool:
        """Whether `scheduler.step()` counts by itself, or is given a count of steps."""
        return not step.args or self._counts.counts(step.args[0])

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
        found = self._chains.definitions(node) if isinstance(node, ast.Name) else frozenset()
        holders = (self._program.parent(d.node) for d in found if d.kind in (Kind.LOOP, Kind.ASSIGNMENT))
        heads = [h.iter if isinstance(h, ast.For) else h.value for h in holders if isinstance(h, (ast.For, ast.Assign))]
        return any(isinstance(n, ast.Attribute) and n.attr == "param_groups" for h in heads for n in walk(h))

    def _steps_behind(self, node: ast.Assign | ast.AugAssign, depth: int = _DEPTH) -> ast.AST | None:
        """Where a count of steps says what is set, or whether: the place itself, or a call under a condition."""
        each_step = isinstance(node, ast.AugAssign) and is_sharded(self._metrics, node, depth)
        if each_step and not self._is_chosen(node):
            return None if self._counts.is_part_of_count(node.value) else node
        if self._counts.counts(node.value):
            return node
        return self._condition_behind(node, depth)

    def _is_chosen(self, node: ast.AST) -> bool:
        return any(True for _ in self._program.branches_round(node))

    def _condition_behind(self, node: ast.AST, depth: int) -> ast.AST | None:
        if any(self._counts.counts_within(branching.test) for branching, _ in self._program.branches_round(node)):
            return node
        calls = self._program.calls_of(self._program.frame(node)) if depth else []
        return next((n for call in calls if (n := self._condition_behind(call, depth - 1)) is not None), None)


def _stepped_schedulers(metrics: Metrics) -> dict[ast.Call, list[ast.Call]]:
    """The calls that make schedulers, with those of their `step` that some call of their function reaches."""
    program = metrics.measured.program
    conditions = program.once(Conditions)
    steps: dict[ast.Call, list[ast.Call]] = {}
    for step in program.calls:
        if isinstance(step.func, ast.Attribute) and step.func.attr == "step":
            for value in filter(metrics.measured.roles.is_scheduler, program.values(step.func.value)):
                made = [value.node] if isinstance(value, Made) and _is_there(metrics, step.func.value, value) else []
                if isinstance(value, Instance):  # of the project's own class
                    made += [c for c in program.calls if ClassValue(value.cls) in program.values(c.func)]
                for call in made:
                    if isinstance(call, ast.Call) and conditions.worlds(step):
                        steps.setdefault(call, []).append(step)
    return steps


def _is_there(metrics: Metrics, read: ast.expr, made: Made) -> bool:
    """Whether a variable may still hold what a call has made, and was not bound anew before it is read."""
    program, tracer = metrics.measured.program, metrics.measured.tracer
    owner = program.scope(read).owner(read.id) if isinstance(read, ast.Name) else None
    if not isinstance(read, ast.Name) or owner is not program.frame(read):
        return True
    writes = tracer.writes(owner, read.id)
    own = [w for w in writes if isinstance(w, ast.Name) and tracer.assigned(w) is made.node]
    return not own or any(w in own for w in program.reaching(read, writes))


def _given(call: ast.Call) -> list[ast.expr]:
    """A scheduler's arguments beside its optimizer."""
    return [*call.args[1:], *(k.value for k in call.keywords)]
