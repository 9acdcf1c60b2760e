"""Which loops train where a condition holds, and evaluate where it does not?

for x, y in loader:
    loss = criterion(model(x), y)
    if training:
        loss.backward()
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelify.codemod.libraries import methods
from accelify.codemod.semantics.call_conditions import Way, Ways
from accelify.codemod.semantics.conditions import WORLDS, Conditions, implied
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, method_of_call, names_in
from accelify.codemod.semantics.values import Constant

_PLAIN = (
    *(ast.Name, ast.Attribute, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Load, ast.Tuple, ast.List),
    *(ast.cmpop, ast.boolop, ast.unaryop),
)
_DEPTH = 3
_Branching = ast.If | ast.IfExp


@dataclass(frozen=True)
class Phase:
    """The condition on which a loop trains: what `test` says there. key: that of the loader, where each has one."""

    loop: ast.For
    test: ast.expr
    trains: bool
    key: object = None

    @property
    def text(self) -> str:
        """The condition as code."""
        text = ast.unparse(self.test)
        return text if self.trains else f"not {text}" if isinstance(self.test, ast.Name) else f"not ({text})"

    def said(self, test: ast.expr) -> bool | None:
        """The truth of a condition where the loop evaluates; None where that is not known."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.said(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            decisive = isinstance(test.op, ast.Or)
            values = [self.said(v) for v in test.values]
            return decisive if decisive in values else None if None in values else not decisive
        return (not self.trains) if ast.unparse(test) == ast.unparse(self.test) else None

    def is_over(self, test: ast.expr, holds: bool) -> bool:
        """Whether the loop evaluates, where a condition holds or does not: in `if phase == "val":`, in its `else`."""
        return any(self._is_over(each, is_so) for each, is_so in implied(test, holds))

    def _is_over(self, test: ast.expr, holds: bool) -> bool:
        if ast.unparse(test) == ast.unparse(self.test):
            return holds is not self.trains
        asked, own = _equality(test), _equality(self.test)
        if asked is None or own is None or asked[0] != own[0]:
            return False
        is_there, trains_there = holds is asked[2], self.trains is own[2]  # where the two sides are equal
        return is_there is not trains_there if asked[1] == own[1] else is_there and trains_there

    def dead(self, node: _Branching) -> list[ast.AST]:
        """The branch of a condition that is not run where the loop evaluates."""
        said = self.said(node.test)
        branch = [] if said is None else node.orelse if said else node.body
        return list(branch) if isinstance(branch, list) else [branch]

    def live(self, *nodes: ast.AST) -> Iterator[ast.AST]:
        """The parts of some nodes that run where the loop evaluates."""
        for node in nodes:
            yield node
            dead = self.dead(node) if isinstance(node, (ast.If, ast.IfExp)) else []
            yield from self.live(*(c for c in ast.iter_child_nodes(node) if c not in dead))


def _equality(test: ast.expr) -> tuple[str, object, bool] | None:
    """The sides of a comparison with a constant, and whether it asks if they are equal: `phase != "val"`."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], (ast.Eq, ast.NotEq)):
        return None
    side = test.comparators[0]
    is_equal = isinstance(test.ops[0], ast.Eq)
    return (ast.unparse(test.left), side.value, is_equal) if isinstance(side, ast.Constant) else None


class Phases:
    """Find the conditions, and tell where each is given."""

    def __init__(self, program: Program, tracer: Tracer) -> None:
        self.program = program
        self.tracer = tracer
        self.conditions = program.once(Conditions)
        self.ways = Ways(program, tracer)

    def of(self, loop: ast.For, training: list[ast.Call]) -> Phase | None:
        """The condition under which all training calls that a loop makes are made."""
        common: dict[tuple[str, bool], ast.expr] | None = None
        for call in training:
            told = {(ast.unparse(test), trains): test for test, trains in self._conditions(call, loop)}
            common = told if common is None else {k: v for k, v in common.items() if k in told}
        for (_, trains), test in (common or {}).items():
            if self._is_constant(test, loop):
                return Phase(loop, test, trains)
        return None

    def _conditions(self, node: ast.AST, loop: ast.For) -> Iterator[tuple[ast.expr, bool]]:
        """The conditions for a place in a loop to be reached, and which way; the outermost last."""
        for branching, holds in self.program.branches_round(node):
            if isinstance(branching, ast.If) and self.program.inside(branching, loop):
                yield from implied(branching.test, holds)

    def _is_constant(self, test: ast.expr, loop: ast.For) -> bool:
        """Whether a condition is the same in all rounds of a loop, as far as that can be seen."""
        if not all(isinstance(n, _PLAIN) for n in ast.walk(test)):
            return False
        stored = [n for s in loop.body for n in ast.walk(s) if isinstance(getattr(n, "ctx", None), ast.Store)]
        names = {n.id for n in stored if isinstance(n, ast.Name)} | names_in(loop.target)
        attributes = {n.attr for n in stored if isinstance(n, ast.Attribute)}
        read = {n.attr for n in ast.walk(test) if isinstance(n, ast.Attribute)}
        if "training" in read:
            calls = [n.func for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Call)]
            attributes |= {"training"} if any(methods.switches_mode(_name(f)) for f in calls) else set()
        return bool(names_in(test)) and not names_in(test) & names and not read & attributes

    # The iterable of a loop in each phase.

    def key(self, phase: Phase) -> object:
        """The one key of those of several loaders under which a loop trains: of `loaders[phase]`, `phase == "train"`.

        So does a row of `for phase, loader in [("train", a), ("val", b)]`, or of `loaders.items()`.
        """
        source = self.source(phase.loop)
        if isinstance(source, ast.Subscript):
            if isinstance(source.value, ast.Dict):
                return None  # which no variable holds: `loaders` finds what is at its keys
            return self._trained(phase, source.slice, self._held(source.slice))
        return self._in_row(phase, source.id) if isinstance(source, ast.Name) else None

    def _held(self, key: ast.expr) -> list[object]:
        return [v.value for v in self.program.values(key) if isinstance(v, Constant)]

    def _trained(self, phase: Phase, key: ast.expr, keys: Iterable[object]) -> object:
        """The one key for which a loop trains, if it evaluates all others."""
        said = {k: _compared(phase.test, ast.unparse(key), k) for k in keys}
        trained = [k for k, holds in said.items() if holds is phase.trains]
        return trained[0] if len(trained) == 1 and len(said) > 1 and None not in said.values() else None

    def _in_row(self, phase: Phase, loader: str) -> object:
        for outer in self.program.loops_round(phase.loop):
            if isinstance(outer, ast.For) and loader in names_in(outer.target):
                names = [e for e in getattr(outer.target, "elts", ()) if isinstance(e, ast.Name)]
                rows = [e.elts for e in getattr(outer.iter, "elts", ()) if isinstance(e, (ast.Tuple, ast.List))]
                key = next((n for n in names if n.id != loader and n.id in names_in(phase.test)), None)
                if key is None:
                    return None
                if [n.id for n in names] == [key.id, loader] and _gives_items(outer.iter):
                    return self._trained(phase, key, self._held(key))
                listed = [r[names.index(key)] for r in rows if len(r) == len(names)]
                told = self._trained(phase, key, [k.value for k in listed if isinstance(k, ast.Constant)])
                return told if "train" in str(told).lower() else None  # as the provenance of the loader has it
        return None

    def source(self, loop: ast.For) -> ast.expr:
        """The iterable of a loop, inside `enumerate` and progress bars, and the key under which it got its name."""
        source = self.tracer.inside(loop.iter)
        scope = self.program.scope(source).owner(source.id) if isinstance(source, ast.Name) else None
        writes = self.tracer.writes(scope, source.id) if scope is not None and isinstance(source, ast.Name) else []
        value = self.tracer.assigned(writes[0]) if len(writes) == 1 and isinstance(writes[0], ast.Name) else None
        value = self.tracer.inside(value) if value is not None else None
        is_near = isinstance(value, ast.Subscript) and self.program.loops_round(value) == self.program.loops_round(loop)
        return value if is_near and isinstance(value, ast.Subscript) else source

    def loaders(self, phase: Phase) -> tuple[list[ast.expr], list[ast.expr]] | None:
        """The iterables of a loop where it trains, and where it evaluates; None where they cannot be distinguished."""
        return self._stands_for(phase.loop.iter, phase, _DEPTH)

    def by_callers(
        self, loop: ast.For, training: list[ast.Call], ways: Mapping[Scope, Iterable[Way]]
    ) -> tuple[list[ast.expr], list[ast.expr]] | None:
        """The iterables passed to a loop's function by calls that may have it train, and by those that never do.

        ways: those from each function to a backward pass.
        """
        return self._passed(self.source(loop), [(call,) for call in training], ways, _DEPTH)

    def _passed(
        self, node: ast.expr, places: Sequence[Way], ways: Mapping[Scope, Iterable[Way]], depth: int
    ) -> tuple[list[ast.expr], list[ast.expr]] | None:
        """The values of a parameter, by the calls that may get to some places and on to training, and by the others."""
        frame = self.program.frame(node)
        name = self._inside_names(node)
        if not isinstance(name, ast.Name):
            return None
        if [type(w) for w in self.program.reaching(name, self.tracer.writes(frame, name.id))] != [ast.arg]:
            return None
        trained: list[ast.expr] = []
        evaluated: list[ast.expr] = []
        for call in self.program.flow.callers.get(frame, ()):
            argument = self.tracer.argument(call, frame, name.id)
            if argument is None:
                return None
            longer = [way for place in places if self.ways.is_open(way := (*place, call), WORLDS)]
            if not longer or all(self.ways.through(call, way) is None for way in ways.get(frame, ())):
                evaluated.append(argument)
                continue
            outer = self._passed(argument, longer, ways, depth - 1) if depth else None
            trained += outer[0] if outer and all(outer) else [argument]
            evaluated += outer[1] if outer and all(outer) else []
        return trained, evaluated

    def _inside_names(self, node: ast.expr, depth: int = _DEPTH) -> ast.expr:
        """What a name of a function stands for, inside `enumerate` and progress bars."""
        value = self.tracer.value_at(node)
        if value is None or not depth:
            return node
        return self._inside_names(self.tracer.inside(value), depth - 1)

    def _stands_for(self, node: ast.expr, phase: Phase, depth: int) -> tuple[list[ast.expr], list[ast.expr]] | None:
        """The values of an expression where a loop trains, and where it evaluates."""
        node = self.tracer.inside(node)
        if isinstance(node, ast.IfExp) and (said := phase.said(node.test)) is not None:
            return ([node.orelse], [node.body]) if said else ([node.body], [node.orelse])
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict):
            return self._at_keys(node.value, node.slice, phase)
        frame = self.program.frame(phase.loop)
        if not isinstance(node, ast.Name) or self.program.scope(node).owner(node.id) is not frame:
            return None
        writes = self.tracer.writes(frame, node.id)
        if len(writes) == 1 and isinstance(writes[0], ast.arg):
            return self._given(frame, node.id, phase)
        values = [self.tracer.assigned(w) for w in writes if isinstance(w, ast.Name)]
        if len(values) == 1 and len(writes) == 1 and values[0] is not None and depth:
            return self._stands_for(values[0], phase, depth - 1)
        return self._chosen(writes, phase)

    def _at_keys(self, holder: ast.Dict, key: ast.expr, phase: Phase) -> tuple[list[ast.expr], list[ast.expr]] | None:
        """The values of `{"train": a, "val": b}[phase]`."""
        at = [(k.value, v) for k, v in zip(holder.keys, holder.values, strict=True) if isinstance(k, ast.Constant)]
        said = [_compared(phase.test, ast.unparse(key), k) for k, _ in at]
        if None in said or len(at) < len(holder.keys):
            return None
        trains = [holds is phase.trains for holds in said]
        pairs = [(value, is_so) for (_, value), is_so in zip(at, trains, strict=True)]
        return [v for v, is_so in pairs if is_so], [v for v, is_so in pairs if not is_so]

    def _given(self, frame: Scope, name: str, phase: Phase) -> tuple[list[ast.expr], list[ast.expr]] | None:
        """The arguments of callers, those that have it train and those that do not."""
        trained: list[ast.expr] = []
        evaluated: list[ast.expr] = []
        for call in self.program.flow.callers.get(frame, ()):
            argument, trains = self.tracer.argument(call, frame, name), self.trains(call, frame, phase)
            if argument is None or trains is None:
                return None
            (trained if trains else evaluated).append(argument)
        return trained, evaluated

    def trains(self, call: ast.Call, frame: Scope, phase: Phase) -> bool | None:
        """Whether a call has its callee's loop train; None where that is not known."""
        said = self.conditions.truth_in(phase.test, WORLDS, (call,))
        return None if said is None else said is phase.trains

    def _chosen(self, writes: list[ast.AST], phase: Phase) -> tuple[list[ast.expr], list[ast.expr]] | None:
        """`if training: loader = a`, `else: loader = b`."""
        trained: list[ast.expr] = []
        evaluated: list[ast.expr] = []
        for write in writes:
            value = self.tracer.assigned(write) if isinstance(write, ast.Name) else None
            statement = self.program.statement(write)
            branch = self.program.parent(statement)
            said = phase.said(branch.test) if isinstance(branch, ast.If) else None
            if value is None or said is None or not isinstance(branch, ast.If):
                return None
            (evaluated if (statement in branch.body) is said else trained).append(value)
        return trained, evaluated


def _compared(test: ast.expr, key: str, value: object) -> bool | None:
    """The truth of a condition where a key has a value; None where it asks for something else."""
    if isinstance(test, ast.BoolOp):
        values = [_compared(v, key, value) for v in test.values]
        return None if None in values else any(values) if isinstance(test.op, ast.Or) else all(values)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _compared(test.operand, key, value)
        return None if inner is None else not inner
    if not isinstance(test, ast.Compare) or len(test.ops) > 1 or ast.unparse(test.left) != key:
        return None
    op, told = test.ops[0], test.comparators[0]
    if isinstance(told, ast.Constant) and isinstance(op, (ast.Eq, ast.NotEq)):
        return (value == told.value) is isinstance(op, ast.Eq)
    listed = [e.value for e in getattr(told, "elts", ()) if isinstance(e, ast.Constant)]
    if listed and len(listed) == len(told.elts) and isinstance(op, (ast.In, ast.NotIn)):  # type: ignore[attr-defined]
        return (value in listed) is isinstance(op, ast.In)
    return None


def _gives_items(node: ast.expr) -> bool:
    """`loaders.items()`"""
    return method_of_call(node) == "items"


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else ""
