"""Which loops train, and what do they train on? Where are backward and step?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from accelify.codemod.analysis.bindings import Scope, gone_over, names_in
from accelify.codemod.analysis.effects import draws_at_random, function_draws
from accelify.codemod.analysis.phases import Phase
from accelify.codemod.analysis.program import LOOPS, Program
from accelify.codemod.analysis.roles import Roles, stepped
from accelify.codemod.analysis.trace import Tracer
from accelify.codemod.analysis.values import (
    Argument,
    Collection,
    Element,
    FunctionValue,
    Generated,
    Instance,
    Made,
    Member,
    Value,
    View,
)
from accelify.codemod.analysis.ways import Wanted, Ways

_COUNTERS = ("range", "trange", "tqdm.trange", "tqdm.auto.trange", "numpy.arange", "itertools.count", "torch.arange")
_OF_AN_EPOCH = re.compile(r"(per|each|an|one|in|len)_?epoch(?!s)")  # `steps_per_epoch` counts no epochs
_MOST_WAYS = 3  # conditions under which one function is followed to its callers
Loop = ast.For | ast.AsyncFor | ast.While


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
            for data in self._data(backward, training.loops[backward]):
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
            calls = [c for c in self.flow.callers.get(frame, ()) if self.program.frame(c) in self.program.reachable]
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
        calls = (n for n in self._body_nodes(loop) if isinstance(n, ast.Call))
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

    def is_loader_loop(self, loop: Loop) -> bool:
        """Whether a loop goes over a loader."""
        if not isinstance(loop, (ast.For, ast.AsyncFor)) or self._goes_over_a_part(loop):
            return False
        return any(self.roles.is_loader(v) for v in self.owners(loop.iter))

    def _goes_over_a_part(self, loop: ast.For | ast.AsyncFor) -> bool:
        """Whether a loop goes over what an outer loop deals out: the micro-batches of a batch, its sequences."""
        source = self._unwrapped(loop)
        parts = source.args if isinstance(source, ast.Call) and "zip" in self.program.called(source) else [source]
        held = [self.program.values(_container(part)) for part in parts]
        return all(values and all(isinstance(v, Element) for v in values) for values in held) and bool(held)

    def _data(self, backward: ast.Call, loops: list[Loop]) -> list[Data]:
        found = [
            Data("loaders", loop, (loop.iter,))
            for loop in loops
            if isinstance(loop, ast.For) and self.is_loader_loop(loop)
        ]
        drawn = self._next_calls(loops)
        found.extend(Data("loaders", loops[0], (call.args[0] if call.args else _receiver(call),)) for call in drawn)
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
            source = self._own_source(loop)
            if source is not None and not self._is_within_a_batch(loop):
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
                isinstance(call.func, ast.Attribute) and call.func.attr in ("next", "__next__") and not call.args
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

    def _asks_its_own(self, call: ast.Call) -> bool:
        """Whether `next` is asked of an object of the project's own, which asks the loaders that it holds."""
        values = self.program.values(call.args[0] if call.args else _receiver(call))
        return any(isinstance(v, Instance) and self.flow.method(v.cls, "__next__") for v in values)

    def _own_source(self, loop: Loop) -> tuple[str, ast.expr] | None:
        """What a loop of the script's own takes its data from, if it is the loop that deals out the data."""
        if not isinstance(loop, ast.For):
            return None
        source = self._unwrapped(loop)
        owners = self.owners(source)
        if self._goes_over_a_part(loop):
            return None
        if any(isinstance(o, Made) and o.name in _COUNTERS for o in owners):
            text = _OF_AN_EPOCH.sub("", ast.unparse(source).lower())
            if "epoch" in text or "step" in text.split("(")[0]:
                return None
            return ("sequence", source) if self._deals_out(loop) else None
        if isinstance(source, (ast.List, ast.Tuple, ast.Dict, ast.Constant)) or self._is_literal(owners):
            return None
        kind = self._kind_of(owners)
        return (kind, source) if kind is not None and self._uses_items(loop) else None

    def _is_within_a_batch(self, loop: Loop) -> bool:
        """Whether a loop counts parts of what a generator of the project's own yields to a loop round it."""
        for outer in self.program.loops_round(loop):
            if not isinstance(outer, ast.For) or not any(isinstance(o, Generated) for o in self.owners(outer.iter)):
                continue
            made = (
                v for call in self.program.calls if self.program.inside(call, outer) for v in self.program.values(call)
            )
            if not any(map(self.roles.is_optimizer, made)):  # else it yields folds
                return self._own_source(outer) is not None
        return False

    def _kind_of(self, owners: set[Value]) -> str | None:
        """Whether batches come from a thing that can be prepared, or from one whose items are to be dealt out."""
        own = [o for o in owners if isinstance(o, Instance) and self._yields(o)]
        if own:
            return "loaders" if all(self._is_counted(o) for o in own) else "sequence"
        if any(isinstance(o, (Argument, Member)) for o in owners):
            return "loaders"
        return "sequence" if any(isinstance(o, (Made, Collection, Generated)) for o in owners) else None

    def _yields(self, instance: Instance) -> bool:
        return any(self.flow.method(instance.cls, name) for name in ("__iter__", "__getitem__", "__next__"))

    def _is_counted(self, instance: Instance) -> bool:
        """Whether `prepare` takes it for a source of batches: it can be iterated and counted, but not indexed."""
        iterates, counts, indexes = (
            self.flow.method(instance.cls, name) for name in ("__iter__", "__len__", "__getitem__")
        )
        return iterates is not None and counts is not None and indexes is None

    @staticmethod
    def _is_literal(owners: set[Value]) -> bool:
        listed = [o.node for o in owners if isinstance(o, Collection)]
        return bool(listed) and all(
            isinstance(n, (ast.List, ast.Tuple, ast.Dict)) and getattr(n, "elts", getattr(n, "keys", []))
            for n in listed
        )

    def _unwrapped(self, loop: ast.For | ast.AsyncFor) -> ast.expr:
        """The expression inside `enumerate`, `tqdm` and their like."""
        node = loop.iter
        while isinstance(node, ast.Call) and gone_over(node):
            if not self.program.called(node) & {"enumerate", "reversed"} and not self.tracer.is_progress(node):
                break
            node = gone_over(node)[0]
        return node

    def _deals_out(self, loop: ast.For) -> bool:
        """Whether a counter picks data: it indexes or slices something that is read."""
        counters = _with_derived(names_in(loop.target), list(self._body_nodes(loop)))
        picked = [p for node in self._body_nodes(loop) for p in self._picked(node, counters)]
        if any(self.roles.learns(v) for p in picked for v in self.program.values(p)):
            return False  # which network is trained is no choice of data
        return any(not self.program.inside(p, loop) or not self._is_only_shown(p, loop) for p in picked)

    def _picked(self, node: ast.AST, counters: set[str]) -> Iterator[ast.Subscript]:
        """What a counter indexes or slices, here or in a function that is given it."""
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
        nodes = list(ast.walk(function.node))
        names = _with_derived({name}, nodes)
        for node in nodes:
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and names_in(node.slice) & names:
                yield node

    def _is_only_shown(self, node: ast.AST, loop: ast.For) -> bool:
        for ancestor in self.program.ancestors(node):
            if ancestor is loop:
                return False
            if isinstance(ancestor, ast.JoinedStr):
                return True
            if isinstance(ancestor, ast.Call):
                text = ast.unparse(ancestor.func)
                if text in ("print", "str", "len") or text.endswith(
                    (".format", ".info", ".write", ".add_scalar", ".append", ".plot")
                ):
                    return True
        return False

    def _uses_items(self, loop: ast.For) -> bool:
        targets = [n for n in ast.walk(loop.target) if isinstance(n, ast.Name)]
        held = [v for t in targets for v in self.program.values(t)]
        if any(map(self.roles.learns, held)):
            return False  # a loop over networks, optimizers or weights deals out no data
        names = {n.id for n in targets}
        return any(
            isinstance(n, ast.Name)
            and isinstance(n.ctx, ast.Load)
            and n.id in names
            and not self._is_only_shown(n, loop)
            for n in self._body_nodes(loop)
        )

    def _body_nodes(self, loop: Loop) -> Iterator[ast.AST]:
        for statement in loop.body:
            yield from ast.walk(statement)

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


def _with_derived(names: Iterable[str], nodes: Sequence[ast.AST]) -> set[str]:
    """Names, and those that are calculated from them."""
    found = set(names)
    for _ in range(2):
        for node in nodes:
            if (
                isinstance(node, ast.Assign)
                and len(node.targets) == 1
                and isinstance(node.targets[0], ast.Name)
                and not isinstance(node.value, ast.Call)
                and names_in(node.value) & found
            ):
                found.add(node.targets[0].id)
    return found


def _container(node: ast.expr) -> ast.expr:
    """`batch` of `list(batch.keys())`."""
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "values", "items") and not node.args:
            node = node.func.value
        elif isinstance(node.func, ast.Name) and node.func.id in ("list", "sorted", "tuple") and len(node.args) == 1:
            node = node.args[0]
        else:
            break
    return node


def _receiver(call: ast.Call) -> ast.expr:
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


__all__ = ["LOOPS", "Data", "Loop", "Loops", "Training"]
