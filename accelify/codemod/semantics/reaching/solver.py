"""Which definitions arrive at each point: the equations of all functions of a file, solved when they are asked for."""

from __future__ import annotations

import ast
import heapq
from collections.abc import Callable
from functools import partial

from accelify.codemod.semantics.control_flow import ControlFlow
from accelify.codemod.semantics.flow_graph import Graph
from accelify.codemod.semantics.reaching.events import Collected, Event, bits
from accelify.codemod.semantics.reaching.variables import Definition, Names, Variable
from accelify.codemod.semantics.scopes import Scope


class Solver:
    """Solve the equations of one function when it is first asked about, after those of the functions round it."""

    def __init__(
        self,
        flow: ControlFlow,
        names: Names,
        collected: Collected,
        runs: Callable[[ast.Call | None], frozenset[Scope] | None],
    ) -> None:
        self.flow = flow
        self.names = names
        self.collected = collected
        self.runs = runs
        self.arriving: dict[ast.AST, list[int]] = {}
        self.found: dict[ast.expr, int] = {}
        self.made_in: dict[ast.AST, int] = {}
        self.made_by: dict[frozenset[Scope], int] = {}
        self.made_after: dict[ast.AST, list[int]] = {}
        self.own: dict[ast.AST, list[int]] = {}
        self.shown_to: dict[tuple[ast.AST, ast.AST], tuple[int, bool]] = {}
        self.run_in: dict[ast.AST, list[tuple[int, int, Event]]] = {}
        self.remote = 0  # made outside the function whose variable it is; all of attributes
        for number, definition in enumerate(collected.definitions):
            frame = collected.frames[number]
            self.made_in[frame] = self.made_in.get(frame, 0) | 1 << number
            if names.home(definition.variable) is not frame:
                self.remote |= 1 << number

    def reaching(self, read: ast.expr) -> frozenset[Definition]:
        """The definitions that reach a name or an attribute; none in unreachable code."""
        frame = self.collected.reads.get(read)  # type: ignore[call-overload]  # other nodes are not in it
        if frame is None:
            return frozenset()
        self.arriving_in(frame)
        return frozenset(self.collected.definitions[i] for i in bits(self.found.get(read, 0)))

    def arriving_in(self, frame: ast.AST) -> list[int]:
        """The definitions that arrive at each point of a function or of the module."""
        if frame not in self.arriving:
            graph = self.flow.graph(frame)  # type: ignore[arg-type]  # a module, function or lambda
            events = self.collected.events[frame]
            effects = {point: self.effect(listed, partial(self.given, frame)) for point, listed in events.items()}
            self.arriving[frame] = arriving = _propagate(graph, self.at_entry(frame, events), effects)
            for point, listed in events.items():
                if graph.is_reachable(point):
                    self.read(frame, point, listed, arriving[point])
        return self.arriving[frame]

    def read(self, frame: ast.AST, point: int, events: list[Event], state: int) -> None:
        """Note what reaches the reads of a point; what a comprehension does, its next round sees."""
        for event in events:
            if event.in_comprehension:
                state |= self.given(frame, event)
        for event in events:
            if event.reads is not None and isinstance(event.node, ast.expr):
                mask = self.collected.mask(event.reads)
                late = self.running_after(frame, (point,), mask) if self.is_late(event.node) else 0
                self.found[event.node] = self.found.get(event.node, 0) | (state & mask) | late
            if event.hides is not None and not self.flow.is_conditional(event.node):
                state &= ~self.collected.mask(event.hides)
            state |= self.given(frame, event)

    def effect(self, events: list[Event], given: Callable[[Event], int]) -> tuple[int, int]:
        """The definitions that a point takes away, and those that it adds, as bits."""
        gone = added = 0
        for event in events:
            if event.hides is not None and not self.flow.is_conditional(event.node):
                mask = self.collected.mask(event.hides)
                gone, added = gone | mask, added & ~mask
            added |= given(event)
        return gone, added

    def made_at(self, event: Event) -> int:
        """The definitions that an event makes itself."""
        mask = 0
        for number in self.collected.gives.get(event, ()):
            mask |= 1 << number
        return mask

    def given(self, frame: ast.AST, event: Event) -> int:
        mask = self.made_at(event)
        if event.calls is not None or event.is_unknown_code:
            mask |= self.from_outside(frame, event)
        return mask

    def from_outside(self, frame: ast.AST, event: Event) -> int:
        """The definitions that other functions may make while a call runs."""
        if event.is_resumed_later:
            return ((1 << len(self.collected.definitions)) - 1) & ~(self.made_in.get(frame, 0) & ~self.remote)
        run = self.runs(event.calls)
        if run is None:
            return self.remote
        if run not in self.made_by:
            mask = 0
            for scope in run:
                mask |= self.made_in.get(scope.node, 0)
            self.made_by[run] = mask & self.remote
        return self.made_by[run]

    def at_entry(self, frame: ast.AST, events: dict[int, list[Event]]) -> int:
        """The definitions that may be there when a function is called."""
        read = {e.reads for listed in events.values() for e in listed if e.reads is not None}
        mask = 0
        for variable in read:
            home = self.names.home(variable)
            if home is None:
                mask |= self.attribute_at_entry(frame, variable)
            elif home is not frame:
                mask |= self.seen_from(frame, home, variable)
        return mask

    def attribute_at_entry(self, frame: ast.AST, variable: Variable) -> int:
        mask = self.collected.mask(variable)
        if isinstance(frame, ast.Module):
            return 0
        if isinstance(frame, ast.FunctionDef) and frame.name == "__init__":
            outer = self.made_in.get(self.names.enclosing(frame), 0)
            return mask & outer & ~self.remote_names(variable)
        found = 0
        for maker in {self.collected.frames[number] for number in bits(mask)}:
            found |= mask & self.made_in[maker] & self.shown(maker, frame)[0]
        return found

    def remote_names(self, variable: Variable) -> int:
        return self.collected.by_variable.get(Variable(None, variable.name, is_attribute=True), 0)

    def seen_from(self, frame: ast.AST, home: ast.AST, variable: Variable) -> int:
        """The definitions of an outer variable that a function may see."""
        mask = self.collected.mask(variable)
        own = self.made_in.get(home, 0)
        shown, is_called = self.shown(home, frame)
        if is_called and not self.is_run_without_call(frame):
            return mask & (shown | ~own)
        definition = frame
        while self.names.enclosing(definition) is not home:
            definition = self.names.enclosing(definition)
        points = self.flow.points(definition)[1]
        alive = 0
        for point in points:
            alive |= self.arriving_in(home)[point] & mask
        return alive | self.running_after(home, points, mask) | (mask & ~own)

    def shown(self, maker: ast.AST, reader: ast.AST) -> tuple[int, bool]:
        """What is alive of a function's own definitions at its end and where it may run another; whether it does so.

        Exceptions that nothing raises by name are left out: they are taken to end the script.
        """
        if (maker, reader) not in self.shown_to:
            graph, states = self.flow.graph(maker), self.own_states(maker)  # type: ignore[arg-type]  # a frame
            found, is_called = states[graph.END] | states[graph.RAISED], False
            for point, number, event in self._running(maker):
                if self.may_run(event, reader):
                    gone, added = self.effect(self.collected.events[maker][point][:number], self.made_at)
                    found, is_called = found | (states[point] & ~gone) | added, True
            self.shown_to[maker, reader] = found, is_called
        return self.shown_to[maker, reader]

    def own_states(self, frame: ast.AST) -> list[int]:
        """The definitions that a function makes itself, as they arrive at each of its points."""
        if frame not in self.own:
            events = self.collected.events[frame]
            effects = {point: self.effect(listed, self.made_at) for point, listed in events.items()}
            self.own[frame] = _propagate(self.flow.graph(frame), 0, effects)  # type: ignore[arg-type]  # a frame
        return self.own[frame]

    def _running(self, maker: ast.AST) -> list[tuple[int, int, Event]]:
        """The events of a function that run code, each with its point and its number there."""
        if maker not in self.run_in:
            events = self.collected.events[maker].items()
            found = [(point, number, event) for point, listed in events for number, event in enumerate(listed)]
            self.run_in[maker] = [f for f in found if f[2].calls is not None or f[2].is_unknown_code]
        return self.run_in[maker]

    def may_run(self, event: Event, frame: ast.AST) -> bool:
        """Whether an event that runs code may run a function: one that a call reaches, or that has the called name."""
        run = self.runs(event.calls)
        if run is None or self.names.function(frame) in run:
            return True
        called = event.calls.func if event.calls is not None else None
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
        return isinstance(frame, ast.FunctionDef) and frame.name == name

    def is_run_without_call(self, frame: ast.AST) -> bool:
        """Whether no call names a function where it runs, as with properties and generators."""
        function = self.names.function(frame)
        if not isinstance(frame, ast.FunctionDef) or function is None or function.generates:
            return True
        is_special = frame.name.startswith("__") and frame.name.endswith("__")
        decorators = map(ast.unparse, frame.decorator_list)
        return (is_special and frame.name != "__call__") or any(d.endswith(("property", "setter")) for d in decorators)

    def running_after(self, frame: ast.AST, points: tuple[int, ...], mask: int) -> int:
        """Of some definitions, those that their function may make at or after some points."""
        if frame not in self.made_after:
            self.made_after[frame] = self.made_from_each_point_on(frame)
        found = 0
        for point in points:
            found |= self.made_after[frame][point]
        return found & mask

    def made_from_each_point_on(self, frame: ast.AST) -> list[int]:
        """The definitions that a function may make at or after each of its points."""
        graph = self.flow.graph(frame)  # type: ignore[arg-type]  # a module, function or lambda
        found = [0] * len(graph.points)
        for number in bits(self.made_in.get(frame, 0)):
            for point in self.collected.points[number]:
                found[point] |= 1 << number
        grows = True
        while grows:
            grows = False
            for point in reversed(range(len(found))):
                mask = found[point]
                for following in graph.successors[point]:
                    mask |= found[following]
                grows, found[point] = grows or mask != found[point], mask
        return found

    def is_late(self, node: ast.expr) -> bool:
        """Whether a name is read when somebody iterates over a generator expression, which may be much later."""
        child: ast.AST = node
        parent = self.flow.parents.get(child)
        while parent is not None and not isinstance(parent, (ast.stmt, ast.Lambda)):
            if isinstance(parent, ast.GeneratorExp) and not self.flow.inside(node, parent.generators[0].iter):
                holder = self.flow.parents.get(parent)
                if not (isinstance(holder, ast.Call) and parent in holder.args):
                    return True
            child, parent = parent, self.flow.parents.get(parent)
        return False


def _propagate(graph: Graph, entry: int, effects: dict[int, tuple[int, int]]) -> list[int]:
    """The definitions that arrive at each point: the smallest solution, by a work list in the order of the text."""
    size = len(graph.points)
    arriving, leaving = [0] * size, [0] * size
    arriving[graph.ENTRY] = entry
    queue, queued = [graph.ENTRY], bytearray(size)
    successors = graph.successors
    visited = bytearray(size)
    while queue:
        point = heapq.heappop(queue)
        queued[point] = 0
        gone, added = effects.get(point, (0, 0))
        left = (arriving[point] & ~gone) | added
        if visited[point] and left == leaving[point]:
            continue
        visited[point], leaving[point] = 1, left
        for following in successors[point]:
            merged = arriving[following] | left
            if (merged != arriving[following] or not visited[following]) and not queued[following]:
                queued[following] = 1
                heapq.heappush(queue, following)
            arriving[following] = merged
    return arriving
