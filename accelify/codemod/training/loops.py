"""Which loops train, and what do they train on? Where are backward and step?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from accelify.codemod.libraries import methods
from accelify.codemod.semantics.call_conditions import Wanted, Ways
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.purity import draws_at_random, function_draws
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import (
    Argument,
    Element,
    FunctionValue,
    Generated,
    Instance,
    Member,
    Value,
    View,
)
from accelify.codemod.training.own_data import Loop, Sources, nodes_in
from accelify.codemod.training.phases import Phase
from accelify.codemod.training.restarts import Anew
from accelify.codemod.training.roles import Roles, stepped

_MOST_WAYS = 3  # conditions under which one function is followed to its callers


@dataclass(frozen=True)
class Data:
    """What one training loop learns from.

    kind: `loaders`; `sequence`, a loop over indices, slices or items of the script's own; `random`, drawn anew in each
    step; `full`, the same data in every step.
    """

    kind: str
    loop: Loop | None = None
    sources: tuple[ast.expr, ...] = ()


@dataclass
class Training:
    """The training code of a program.

    phases: the loops that do more than train, with what tells when they do. told: what the parameters of functions must
    be for them to train.
    """

    backwards: list[ast.Call] = field(default_factory=list)
    steps: list[ast.Call] = field(default_factory=list)
    loops: dict[ast.Call, list[Loop]] = field(default_factory=dict)
    data: list[Data] = field(default_factory=list)
    frames: set[Scope] = field(default_factory=set)
    phases: dict[ast.AST, Phase] = field(default_factory=dict)
    told: dict[Scope, set[frozenset[Wanted]]] = field(default_factory=dict)


class Loops:
    """Find the training code."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.flow = program.flow
        self.ways = Ways(program, tracer)
        self.sources = Sources(program, roles, tracer, self.owners)
        self.anew = Anew(program, roles, lambda node, loop: loop in self.stack(node))

    def find(self) -> Training:
        """The backward passes that the named files may run, and all that hangs on them."""
        training = Training()
        reachable = self.program.reachable
        for call in sorted(self.program.calls, key=lambda c: (self.program.path(c), c.lineno, c.col_offset)):
            if not isinstance(call.func, ast.Attribute) or self.program.frame(call) not in reachable:
                continue
            if call.func.attr == "backward" and self._is_tensor_backward(call):
                training.backwards.append(call)
            elif call.func.attr == "step" and self._is_optimizer_step(call):
                training.steps.append(call)
        for backward in training.backwards:
            training.loops[backward] = self.stack(backward, training)
            for data in self._data(backward, training.loops[backward], training.steps):
                if data not in training.data:
                    training.data.append(data)
        placed = [d for d in training.data if d.loop is not None]  # the others belong to helpers that nothing calls
        training.data = placed or training.data
        return training

    def _is_tensor_backward(self, call: ast.Call) -> bool:
        assert isinstance(call.func, ast.Attribute)
        if any(isinstance(v, FunctionValue) for v in self.program.values(call.func)) or self._gives_something(call):
            return False
        text = ast.unparse(call.func.value)
        return not text.startswith("super()") and not text.endswith("accelerator")

    def _gives_something(self, call: ast.Call) -> bool:
        """Whether what a call returns is kept: `x, log_det = flow.backward(z)`; a tensor's backward gives nothing."""
        parent = self.program.parent(call)
        if not isinstance(parent, ast.Assign):
            return False
        return bool(call.args) or any(isinstance(t, (ast.Tuple, ast.List)) for t in parent.targets)

    def _is_optimizer_step(self, call: ast.Call) -> bool:
        return any(self.roles.is_optimizer(v) for v in self.program.values(stepped(call)))

    # Loops round a place, through callers.

    def stack(self, node: ast.AST, training: Training | None = None) -> list[Loop]:
        """The loops that hold a node, in its function and in those that call it, from the inside out."""
        found: list[Loop] = []
        seen: set[tuple[Scope, frozenset[Wanted]]] = set()
        queue: list[tuple[ast.AST, frozenset[Wanted]]] = [(node, self.ways.to(node))]
        while queue:
            current, wanted = queue.pop(0)
            for loop in self.program.loops_round(current):
                if loop not in found:
                    found.append(loop)
            frame = self._function_round(current)
            if training is not None:
                training.frames.add(self.program.frame(current))
                training.told.setdefault(self.program.frame(current), set()).add(wanted)
            if frame is not None and sum(f is frame for f, _ in seen) >= _MOST_WAYS:
                wanted = frozenset()  # conditions upon conditions: any call may get here
            if frame is None or (frame, wanted) in seen:
                continue
            seen.add((frame, wanted))
            calls = self.program.calls_of(frame)
            ways = ((call, self.ways.through(call, frame, wanted)) for call in calls)
            queue.extend((call, way) for call, way in ways if way is not None)
            if frame in self.flow.escaped:
                queue.extend((use, self.ways.to(use)) for use in self._uses_of(frame))
        return found

    def _function_round(self, node: ast.AST) -> Scope | None:
        scope: Scope | None = self.program.scope(node)
        while scope is not None and scope.kind not in ("function", "lambda"):
            scope = scope.parent
        return scope

    def _uses_of(self, function: Scope) -> Iterator[ast.AST]:
        """Where a closure is mentioned: `optimizer.step(closure)`."""
        assert function.parent is not None
        yield from function.parent.reads.get(function.name, ())

    def _runs_a_model(self, loop: Loop) -> bool:
        """Whether a model is called in a loop."""
        calls = (n for n in nodes_in(loop) if isinstance(n, ast.Call))
        return any(self.roles.is_model(v) for call in calls for v in self.program.values(call.func))

    @staticmethod
    def _is_given(value: Value) -> bool:
        """Whether a thing comes from a caller who is not known."""
        while isinstance(value, Member):
            value = value.owner
        return isinstance(value, Argument)

    # What a loop goes over.

    def owners(self, node: ast.expr) -> set[Value]:
        """The things whose items a loop over an expression yields."""
        found: set[Value] = set()
        for value in self.program.values(node):
            self._owners_of(value, found, 4)
        generated = {v for v in found if isinstance(v, Generated)}
        return (found - generated).union(*(self._handed_on(g, node) for g in generated))

    def _handed_on(self, generated: Generated, node: ast.expr) -> set[Value]:
        """The loaders whose batches a generator yields, if it is given them where it is called; else itself."""
        items = self.flow.elements(generated)
        loaders = {i.owner for i in items if isinstance(i, Element) and self.roles.is_loader(i.owner)}
        ends = [chain[-1] for chain in self.tracer.chains(node)]
        is_given = all(b.kind != "inline" or generated not in self.program.values(b.value) for b in ends if b.value)
        return loaders if loaders and ends and is_given else {generated}

    def _owners_of(self, value: Value, found: set[Value], depth: int) -> None:
        if not depth:
            return
        if isinstance(value, View):
            for inner in self.flow.view_source(value):
                self._owners_of(inner, found, depth - 1)
        elif isinstance(value, Element):
            found.add(value.owner)
        else:
            found.add(value)

    def generators(self, node: ast.expr) -> list[Generated]:
        """The generators that an expression yields from, if they are called where it gets its name."""
        found: set[Value] = set()
        for value in self.program.values(node):
            self._owners_of(value, found, 4)
        made = [b.value for chain in self.tracer.chains(node) for b in chain[-1:] if b.value is not None]
        held = {v for value in made for v in self.program.values(value)} if made else found
        return [v for v in found if isinstance(v, Generated) and v in held]

    def yielded_from(self, generator: Scope) -> Iterator[ast.expr]:
        """The loaders whose batches a generator function yields, as it names them."""
        for node in ast.walk(generator.node):
            if isinstance(node, ast.YieldFrom) and any(self.roles.is_loader(v) for v in self.owners(node.value)):
                yield node.value
            elif isinstance(node, (ast.For, ast.AsyncFor)) and self.is_loader_loop(node) and _yields(node):
                yield node.iter

    def is_loader_loop(self, loop: Loop) -> bool:
        """Whether a loop goes over a loader."""
        if not isinstance(loop, (ast.For, ast.AsyncFor)) or self.sources.is_part_of_a_batch(loop):
            return False
        return any(self.roles.is_loader(v) for v in self.owners(loop.iter))

    def _data(self, backward: ast.Call, loops: list[Loop], steps: list[ast.Call]) -> list[Data]:
        found = [
            Data("loaders", loop, (loop.iter,))
            for loop in loops
            if isinstance(loop, ast.For) and self.is_loader_loop(loop)
        ]
        drawn = self._next_calls(loops)
        asked = [call for call in drawn if not self._searches(call, loops)]
        found.extend(Data("loaders", loops[0], (call.args[0] if call.args else _receiver(call),)) for call in asked)
        dealt = [d for d in found if not any(map(self.sources.experience.holds, d.sources))]
        if (drawn or found) and not dealt:
            return [Data("random", loops[0])]
        found = dealt
        if found:
            return (
                found[:1]
                + [
                    d
                    for d in found[1:]
                    if d.sources and d.loop is not found[0].loop and not self._holds(d.loop, found[0].loop)
                ]
                + [d for d in found[1:] if d.loop is found[0].loop]
            )
        for loop in loops:
            source = self.sources.own(loop)
            if source is not None and not self.sources.is_within_a_batch(loop):
                if self.sources.is_own_experience(loop, source[1]):
                    return [Data("random", loops[0])]
                if self.anew.begins(loop, [stepped(s) for s in steps if loop in self.stack(s)]):
                    break
                return [Data(source[0], loop, (source[1],))]
        if self._draws(loops, backward):
            return [Data("random", loops[0] if loops else None)]
        return [Data("full", loops[0] if loops else None)]

    def _holds(self, outer: Loop | None, inner: Loop | None) -> bool:
        return outer is not None and inner is not None and self.program.inside(inner, outer)

    def _next_calls(self, loops: list[Loop]) -> list[ast.Call]:
        """`next(iterator)` of a loader, in the loops or in what they call."""
        found = []
        for call in self.program.calls:
            is_next = (isinstance(call.func, ast.Name) and call.func.id == "next" and call.args) or (
                isinstance(call.func, ast.Attribute) and methods.takes_the_next(call.func.attr) and not call.args
            )
            if not is_next or not any(
                isinstance(v, Element) and (self.roles.is_loader(v.owner) or self._is_given(v.owner))
                for v in self.program.values(call)
            ):
                continue
            own = self.program.loops_round(call)
            if own and own[0] not in loops and self._runs_a_model(own[0]):
                continue  # an evaluation, with a loop of its own
            if any(loop in loops for loop in self.stack(call)):
                found.append(call)
        within = [c for c in found if not self._asks_its_own(c)]
        return within or found

    def _searches(self, call: ast.Call, loops: list[Loop]) -> bool:
        """Whether `next(iter(loader))` is asked until enough was found, which no two processes ask equally often."""
        is_anew = bool(call.args) and isinstance(call.args[0], ast.Call) and "iter" in self.program.called(call.args[0])
        own = self.program.loops_round(call)
        return is_anew and bool(own) and isinstance(own[0], ast.While) and own[0] not in loops

    def _asks_its_own(self, call: ast.Call) -> bool:
        """Whether `next` is asked of an object of the project's own, which asks the loaders that it holds."""
        asked = "__next__" if call.args or not isinstance(call.func, ast.Attribute) else call.func.attr
        values = self.program.values(call.args[0] if call.args else _receiver(call))
        return any(isinstance(v, Instance) and self.flow.method(v.cls, asked) for v in values)

    def _draws(self, loops: list[Loop], backward: ast.Call) -> bool:
        """Whether the data of a step are drawn at random or come from an environment."""
        inside = set(loops)
        for call in self.program.calls:
            if (
                draws_at_random(self.program, call)
                and self.program.frame(call) in self.program.reachable
                and any(loop in inside for loop in self.stack(call))
            ):
                return True
        frame = self.program.frame(backward)
        is_called_elsewhere = frame.is_function and not self.flow.callers.get(frame)
        return not loops and is_called_elsewhere and function_draws(self.program, frame)


def _receiver(call: ast.Call) -> ast.expr:
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


__all__ = ["LOOPS", "Data", "Loop", "Loops", "Training"]


def _yields(loop: ast.For | ast.AsyncFor) -> bool:
    return any(isinstance(n, ast.Yield) for n in ast.walk(loop))
