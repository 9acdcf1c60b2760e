"""What each point of a graph reads, defines, hides and calls, and all definitions of a file, numbered."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from accelify.codemod.semantics.control_flow import ControlFlow, evaluation_order
from accelify.codemod.semantics.flow_graph import Graph
from accelify.codemod.semantics.reaching.objects import Objects
from accelify.codemod.semantics.reaching.variables import Definition, Kind, Names, Variable


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """One effect of a point, at one node: reads come before what is written there."""

    node: ast.AST
    reads: Variable | None = None
    hides: Variable | None = None  # the variable whose earlier definitions are gone
    calls: ast.Call | None = None
    is_unknown_code: bool = False  # runs code that no call names: an iterator's, a context manager's
    is_resumed_later: bool = False  # `yield` and `await` let others run
    in_comprehension: bool = False


@dataclass(slots=True)
class Collected:
    """All definitions of a file, numbered, and the events of each point."""

    definitions: list[Definition] = field(default_factory=list)
    frames: list[ast.AST] = field(default_factory=list)  # of each definition
    points: list[tuple[int, ...]] = field(default_factory=list)  # of each definition
    by_variable: dict[Variable, int] = field(default_factory=dict)  # bit sets
    by_attribute: dict[str, int] = field(default_factory=dict)
    by_node: dict[ast.AST, list[Definition]] = field(default_factory=dict)
    numbers: dict[Definition, int] = field(default_factory=dict)
    gives: dict[Event, tuple[int, ...]] = field(default_factory=dict)  # the numbers of what an event defines
    events: dict[ast.AST, dict[int, list[Event]]] = field(default_factory=dict)
    reads: dict[ast.Name | ast.Attribute, ast.AST] = field(default_factory=dict)  # with the frame they are in

    def copy(self) -> Collected:
        """One to which definitions can be added; events and reads are the same."""
        return Collected(
            definitions=[*self.definitions],
            frames=[*self.frames],
            points=[*self.points],
            by_variable={**self.by_variable},
            by_attribute={**self.by_attribute},
            by_node={node: [*made] for node, made in self.by_node.items()},
            numbers={**self.numbers},
            gives={**self.gives},
            events=self.events,
            reads=self.reads,
        )

    def add(self, event: Event, definition: Definition, frame: ast.AST, point: int) -> None:
        """Number a definition, and note where it is made."""
        number = self.numbers.setdefault(definition, len(self.definitions))
        if number < len(self.definitions):  # a copy of `finally`
            self.points[number] = (*self.points[number], point)
        else:
            self.by_node.setdefault(definition.node, []).append(definition)
            self.definitions.append(definition)
            self.frames.append(frame)
            self.points.append((point,))
            variable = definition.variable
            self.by_variable[variable] = self.by_variable.get(variable, 0) | 1 << number
            if variable.is_attribute:
                self.by_attribute[variable.name] = self.by_attribute.get(variable.name, 0) | 1 << number
        self.gives[event] = (*self.gives.get(event, ()), number)

    def mask(self, variable: Variable) -> int:
        """The definitions that a variable may have, as bits."""
        if not variable.is_attribute:
            return self.by_variable.get(variable, 0)
        if variable.scope is None:
            return self.by_attribute.get(variable.name, 0)
        unknown = Variable(None, variable.name, is_attribute=True)
        return self.by_variable.get(variable, 0) | self.by_variable.get(unknown, 0)

    def of_name(self, variable: Variable) -> list[Definition]:
        return [self.definitions[i] for i in bits(self.mask(variable))]


def bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Collector:
    """Go through all graphs once; what calls change in place is asked for, and added, afterwards."""

    def __init__(self, flow: ControlFlow, names: Names) -> None:
        self.flow = flow
        self.names = names
        self.found = Collected()
        self.objects = Objects(names)
        self.changes: list[tuple[Event, ast.AST, int, ast.expr | None]] = []  # None: what a call may change
        self.frame: ast.AST = flow.tree
        self.point = 0
        self.events: list[Event] = []

    def add_frame(self, frame: ast.AST) -> None:
        graph = self.flow.graph(frame)  # type: ignore[arg-type]  # a module, function or lambda
        self.frame = frame
        self.found.events[frame] = {}
        for number, point in enumerate(graph.points):
            self.point, self.events = number, []
            if number == Graph.ENTRY:
                self.parameters(frame)
            self.before(point.node, point.role)
            for part in point.parts:
                for node in evaluation_order(part):
                    self.visit(node, point.role)
            self.after(point.node, point.role)
            if self.events:
                self.found.events[frame][number] = self.events

    def parameters(self, frame: ast.AST) -> None:
        if isinstance(frame, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            given = frame.args
            for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
                if each is not None:
                    self.define(Kind.PARAMETER, each, self.names.named(each.arg, each))

    def before(self, node: ast.AST, role: str) -> None:
        if role in ("next", "exit"):
            self.events.append(Event(node, is_unknown_code=True))

    def after(self, node: ast.AST, role: str) -> None:
        if role == "def" and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.define(Kind.FUNCTION, node, self.names.named(node.name, node))
        elif role == "class end" and isinstance(node, ast.ClassDef):
            self.define(Kind.CLASS, node, self.names.named(node.name, node))
        elif role == "except" and isinstance(node, ast.ExceptHandler) and node.name:
            self.define(Kind.EXCEPT, node, self.names.named(node.name, node))
        elif role == "with item":
            self.events.append(Event(node, is_unknown_code=True))

    # Nodes.

    def visit(self, node: ast.AST, role: str) -> None:
        if isinstance(node, (ast.Name, ast.Attribute)):
            self.name(node, role)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            self.change(node, node.value)
        elif isinstance(node, ast.Call):
            self.call(node)
        elif isinstance(node, ast.AugAssign):
            self.augmented(node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                if alias.name != "*":
                    bound = alias.asname or (alias.name.split(".")[0] if isinstance(node, ast.Import) else alias.name)
                    self.define(Kind.IMPORT, alias, self.names.named(bound, alias))
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            self.define(Kind.PATTERN, node, self.names.named(node.name, node), hides=False)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            self.define(Kind.PATTERN, node, self.names.named(node.rest, node), hides=False)
        elif isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
            self.events.append(Event(node, is_unknown_code=True, is_resumed_later=True))
        self.objects.connect(node)

    def name(self, node: ast.Name | ast.Attribute, role: str) -> None:
        variable = self.names.variable(node)
        parent = self.flow.parents.get(node)
        is_augmented = isinstance(parent, ast.AugAssign) and node is parent.target
        if variable is None:
            return
        if isinstance(node.ctx, ast.Load) or is_augmented:
            self.found.reads[node] = self.frame
            self.events.append(Event(node, reads=variable, in_comprehension=self.in_comprehension(node)))
            return
        is_own = not variable.is_attribute or variable.scope is not None
        self.define(self.kind(node, role), node, variable, hides=is_own)
        if isinstance(node, ast.Attribute) and not is_own:
            self.change(node, node.value)

    def kind(self, node: ast.Name | ast.Attribute, role: str) -> Kind:
        if isinstance(node.ctx, ast.Del):
            return Kind.DELETION
        holder: ast.AST | None = node
        while isinstance(holder, (ast.Name, ast.Attribute, ast.Tuple, ast.List, ast.Starred)):
            holder = self.flow.parents.get(holder)
        if role == "target" or isinstance(holder, ast.comprehension):
            return Kind.LOOP
        return Kind.WITH if isinstance(holder, ast.withitem) else Kind.ASSIGNMENT

    def call(self, node: ast.Call) -> None:
        event = Event(node, calls=node, in_comprehension=self.in_comprehension(node))
        self.events.append(event)
        self.changes.append((event, self.frame, self.point, None))

    def augmented(self, node: ast.AugAssign) -> None:
        """`x += 1` binds `x`, and may change its object, which other names may have, too."""
        if isinstance(node.target, (ast.Name, ast.Attribute)):
            variable = self.names.variable(node.target)
            if variable is not None:
                is_own = not variable.is_attribute or variable.scope is not None
                self.define(Kind.AUGMENTED, node.target, variable, hides=is_own)
            self.change(node.target, node.target)

    # Definitions.

    def in_comprehension(self, node: ast.AST) -> bool:
        return self.names.scope(node).kind == "comprehension"

    def define(self, kind: Kind, node: ast.AST, variable: Variable, *, hides: bool = True) -> None:
        inner = self.in_comprehension(node)
        event = Event(node, hides=variable if hides and not inner else None, in_comprehension=inner)
        self.events.append(event)
        self.found.add(event, Definition(kind, node, variable), self.frame, self.point)
        if variable.scope is not None and variable.scope.kind == "class" and not variable.is_attribute:
            attribute = Variable(self.names.family(variable.scope), variable.name, is_attribute=True)
            self.found.add(event, Definition(kind, node, attribute), self.frame, self.point)

    def change(self, node: ast.AST, changed: ast.expr) -> None:
        """Note that an object is changed in place; whose it is, is known once all graphs have been seen."""
        event = Event(node, in_comprehension=self.in_comprehension(node))
        self.events.append(event)
        self.changes.append((event, self.frame, self.point, changed))

    def with_changes(
        self,
        mutates: Callable[[ast.Call], Iterable[ast.expr]],
        held: Callable[[ast.Call, ast.expr], list[ast.expr]],
        owner: Callable[[ast.expr], ast.expr],
    ) -> Collected:
        """All that was seen, with the changes of objects in place."""
        objects, changes = self.objects.copy(), []
        for event, frame, point, changed in self.changes:
            if changed is not None:
                changes.append((event, frame, point, owner(changed)))
            elif event.calls is not None:
                for each in mutates(event.calls):
                    changes.append((event, frame, point, each))
                    for argument in held(event.calls, each):
                        objects.put(argument, each)
        found = self.found.copy()
        for event, frame, point, changed in changes:
            rebound = self.names.variable(changed) if changed is event.node else None
            for variable in objects.touched(changed):
                if variable != rebound:
                    found.add(event, Definition(Kind.IN_PLACE, event.node, variable), frame, point)
        return found
