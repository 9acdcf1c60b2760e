"""Values made from what some calls return, as from an environment's results: the experience of one process."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Set
from functools import cached_property, partial

from accelify.codemod.libraries import methods, names
from accelify.codemod.libraries.row import Effect
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.kinds import tells_about
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.randomness.draws import asks_environment
from accelify.codemod.training.randomness.workers import asks_environments

Slot = tuple[Scope | None, str]  # a variable; an attribute, of whatever object; what a function gives
_SHOWS = frozenset({Effect.PRINTS, Effect.LOGS, Effect.SHOWS})
_RESULT = "return"  # no variable can be called so


class Results:
    """What some calls return, followed through variables, attributes, containers, parameters and results."""

    def __init__(self, program: Program, tracer: Tracer, is_source: Callable[[ast.Call], bool]) -> None:
        self.program = program
        self.tracer = tracer
        self.is_source = is_source

    def holds(self, node: ast.AST) -> bool:
        """Whether an expression reads what such a call returned, or what was made of it."""
        return bool(self._observed) and (self._asks(node) or any(slot in self._observed for slot in self._read(node)))

    @cached_property
    def asks(self) -> bool:
        """Whether a script has such a call at all."""
        return any(map(self.is_source, self.program.calls))

    @cached_property
    def shown(self) -> tuple[ast.Call, ...]:
        """The calls of libraries that print or log what an environment returned, or what was made of it."""
        if not self.asks:
            return ()
        effects = self.program.once(Effects)
        calls = [call for call in self.program.calls if not self.program.flow.callees.get(call)]
        showing = [call for call in calls if effects.of_call(call).effects & _SHOWS]
        return tuple(c for c in showing if any(map(self.holds, [*c.args, *(k.value for k in c.keywords)])))

    @cached_property
    def _observed(self) -> set[Slot]:
        if not self.asks:
            return set()
        leads: dict[Slot, set[Slot]] = defaultdict(set)
        queue: list[Slot] = []
        for value, slot in self._flows():
            for read in self._read(value):
                leads[read].add(slot)
            if self._asks(value):
                queue.append(slot)
        found: set[Slot] = set()
        while queue:
            slot = queue.pop()
            if slot not in found:
                found.add(slot)
                queue.extend(leads[slot])
        return found

    def _asks(self, node: ast.AST) -> bool:
        return any(isinstance(n, ast.Call) and self.is_source(n) for n in _parts(node))

    def _read(self, node: ast.AST) -> Iterator[Slot]:
        for part in _parts(node):
            if isinstance(part, (ast.Name, ast.Attribute)):
                yield from self._slot(part)
            elif isinstance(part, ast.Call):
                yield from ((callee, _RESULT) for callee in self.program.flow.callees.get(part, ()))

    def _slot(self, node: ast.expr) -> Iterator[Slot]:
        """The place that holds an expression's value, or a container that it is part of."""
        while isinstance(node, (ast.Subscript, ast.Starred)):
            node = node.value
        if isinstance(node, ast.Attribute):
            yield None, node.attr
        elif isinstance(node, ast.Name) and (owner := self.program.scope(node).owner(node.id)) is not None:
            yield owner, node.id
        elif isinstance(node, (ast.Tuple, ast.List)):
            for element in node.elts:
                yield from self._slot(element)

    def _flows(self) -> Iterator[tuple[ast.expr, Slot]]:
        """Each expression with a place that its value gets to."""
        for parsed in self.program.files:
            for node in parsed.parents:
                value, targets = _written(node)
                if value is not None:
                    yield from ((value, slot) for target in targets for slot in self._slot(target))
                if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) and node.value is not None:
                    yield node.value, (self.program.frame(node), _RESULT)
        for call in self.program.calls:
            yield from self._given(call)

    def _given(self, call: ast.Call) -> Iterator[tuple[ast.expr, Slot]]:
        callees = self.program.flow.callees.get(call, ())
        for callee in callees:
            for parameter in callee.parameters:
                argument = self.tracer.argument(call, callee, parameter.arg)
                if argument is not None:
                    yield argument, (callee, parameter.arg)
        if (
            not callees
            and isinstance(call.func, ast.Attribute)
            and (methods.puts_in(call.func.attr) or call.func.attr == "copy_")
        ):
            yield from ((argument, slot) for argument in call.args for slot in self._slot(call.func.value))


class Experience(Results):
    """What an environment returned to this process, and what was made of it."""

    def __init__(self, program: Program, tracer: Tracer) -> None:
        super().__init__(program, tracer, partial(_asks, program))

    def normalized(self) -> Iterator[ast.expr]:
        """What divides an environment's results by statistics that it carries on from them: `x / (self.std + 1e-8)`.

        Also the calls that make wrappers of libraries that do so.
        """
        calls = (c for c in self.program.calls if self.program.frame(c) in self.program.reachable)
        yield from (c for c in calls if any(map(names.normalizes_observations, self.program.called(c))))
        running = self._running if self.asks else frozenset()
        for parsed in self.program.files if running else ():
            nodes = (n for n in parsed.parents if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div))
            yield from (n for n in nodes if self._divides_by(n.right, running) and self.holds(n.left))

    def _divides_by(self, divisor: ast.expr, running: Set[str]) -> bool:
        """`self.std + 1e-8`, `np.sqrt(self.var + 1e-8)`"""
        parts = list(ast.walk(divisor))
        called = {n.func for n in parts if isinstance(n, ast.Call)}
        reads = (n for n in parts if isinstance(n, ast.Attribute) and n not in called)
        return any(isinstance(n, ast.Add) for n in parts) and any(n.attr in running for n in reads)

    @cached_property
    def _running(self) -> frozenset[str]:
        """The attributes, and properties, that classes which are no models work out from results and what they had."""
        found: set[str] = set()
        scopes = [s for parsed in self.program.files for s in self.program.flow.bindings[parsed.path].root.walk()]
        for cls in (s for s in scopes if s.kind == "class" and not self.program.flow.is_module_class(s)):
            own = [s for s in cls.children if s.is_method and s.name != "__init__" and s in self.program.reachable]
            kept = {name: carried for s in own for name, carried in self._kept(s)}
            found |= set(kept) if any(kept.values()) else set()
        read = {s.name: {n.attr for n in _attributes(s)} for s in scopes if s.is_property}
        for _ in read:
            found |= {name for name, attributes in read.items() if attributes & found}
        return frozenset(found)

    def _kept(self, method: Scope) -> Iterator[tuple[str, bool]]:
        """The attributes that a method sets by results, each with whether it reads it, too."""
        read = {n.attr for n in _attributes(method) if isinstance(n.ctx, ast.Load)}
        for node in ast.walk(method.node):
            value, targets = _written(node)
            slots = [slot for t in targets for slot in self._slot(t)] if value is not None and self.holds(value) else []
            yield from ((name, name in read) for owner, name in slots if owner is None)


def _asks(program: Program, call: ast.Call) -> bool:
    """Whether a call asks an environment, or a process beside the script that does."""
    receives = isinstance(call.func, ast.Attribute) and methods.receives(call.func.attr)
    return asks_environment(program, call) or (receives and program.once(asks_environments))


def _attributes(scope: Scope) -> Iterator[ast.Attribute]:
    return (n for n in ast.walk(scope.node) if isinstance(n, ast.Attribute))


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all in it, but for what only tells of sizes and kinds."""
    is_size = sizes.measured(node) is not None or (isinstance(node, ast.Call) and _asks_tensor_for_size(node.func))
    if not is_size and not (isinstance(node, ast.expr) and tells_about(node)):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _parts(child)


def _written(node: ast.AST) -> tuple[ast.expr | None, list[ast.expr]]:
    """The names that a node gives a value, and the values."""
    if isinstance(node, ast.Assign):
        return node.value, node.targets
    if isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
        return node.value, [node.target]
    if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        return node.iter, [node.target]
    return None, []


def _asks_tensor_for_size(function: ast.expr) -> bool:
    """`x.size`, `x.numel`"""
    return isinstance(function, ast.Attribute) and methods.is_size(function.attr)
