"""Which definitions may have given a variable, attribute or container the value read somewhere, and who reads it?

Reaching definitions over the control-flow graph. A plain assignment hides the earlier ones; a change of the object in
place (`rows[i] = x`, `rows.append(x)`, `config.lr = 1`) adds to them, also for the other names of the object: copies
(`a = b`), containers that hold it, and what was taken out of a container that is changed deeper inside.

- Functions: a variable of an enclosing scope has, in a function, any definition that is alive at a call there that may
  run the function or at the end of that scope, and any that other functions make. Where no call there runs it, it has
  any that is alive where the function is defined, or made later. In its own scope, definitions that other functions
  make arrive with calls: by `runs`, those of the functions that a call may run; without it, all.
- Attributes: those of `self` are followed within a method; at its start any definition of the class, of its relatives
  in this file, and of attributes of that name whose owner is unknown may be there, unless it is gone wherever the
  method that makes it calls this one, and at its end; in `__init__` only those of the class body. Of any other object
  all definitions of the name may be there.
- Results of calls count as new objects.
"""

from __future__ import annotations

import ast
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property, partial

from accelify.codemod.semantics.control_flow import ControlFlow, evaluation_order
from accelify.codemod.semantics.flow_graph import Graph
from accelify.codemod.semantics.scopes import Bindings, Scope

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict)


class Kind(Enum):
    """How a definition comes to be."""

    ASSIGNMENT = auto()
    AUGMENTED = auto()
    LOOP = auto()
    PARAMETER = auto()
    IMPORT = auto()
    WITH = auto()
    EXCEPT = auto()
    PATTERN = auto()
    FUNCTION = auto()
    CLASS = auto()
    DELETION = auto()
    IN_PLACE = auto()


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a scope, or an attribute of the objects of a class and its relatives; or of any object."""

    scope: Scope | None
    name: str
    is_attribute: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """`node` gives `variable` a value or changes its object: a name, attribute, argument, alias, function, call..."""

    kind: Kind
    node: ast.AST
    variable: Variable

    def __hash__(self) -> int:  # quick, and nearly always another for each
        return hash((self.node, self.variable.name))


class Definitions:
    """The definitions and uses of one file."""

    def __init__(
        self,
        flow: ControlFlow,
        bindings: Bindings,
        *,
        mutates: Callable[[ast.Call], Iterable[ast.expr]] | None = None,
        runs: Callable[[ast.Call | None], frozenset[Scope] | None] | None = None,
        held: Callable[[ast.Call, ast.expr], list[ast.expr]] | None = None,
        seen: _Collector | None = None,
    ) -> None:
        self.flow = flow
        self.bindings = bindings
        self._mutates = mutates or (lambda call: ())
        self._runs = runs or (lambda call: None)
        self._held = held or (lambda call, changed: arguments(call))
        self._names = _Names(flow, bindings) if seen is None else seen.names
        self._given = seen
        self._reaching: dict[ast.expr, frozenset[Definition]] = {}

    def changed_by_calls(
        self,
        mutates: Callable[[ast.Call], Iterable[ast.expr]],
        runs: Callable[[ast.Call | None], frozenset[Scope] | None],
        held: Callable[[ast.Call, ast.expr], list[ast.expr]],
    ) -> Definitions:
        """The same file's definitions, with the changes that `mutates` knows of calls; the file is not read again.

        runs: the functions that a call may run; for None, those that run where no call names them.
        held: the arguments of a call that an object which it changes may hold afterwards.
        """
        return Definitions(self.flow, self.bindings, mutates=mutates, runs=runs, held=held, seen=self._seen)

    def definitions(self, read: ast.expr) -> frozenset[Definition]:
        """The definitions that may have given a name, an attribute or an item the value that is read there.

        Also for a name or attribute that `+=` reads. Empty for a builtin, for what a `*` import brings, and in
        unreachable code.
        """
        while isinstance(read, (ast.Subscript, ast.Starred)):
            read = read.value
        if read not in self._reaching:
            self._reaching[read] = self._find_reaching(read)
        return self._reaching[read]

    def _find_reaching(self, read: ast.expr) -> frozenset[Definition]:
        variable = self._names.variable(read)
        if variable is None:
            return frozenset()
        if self._is_unordered(variable):
            return frozenset(self._collected.of_name(variable))
        return self._solver.reaching(read)

    def uses(self, definition: Definition) -> frozenset[ast.expr]:
        """The names and attributes that may read what a definition gave."""
        reads = self._reads_by_name.get(definition.variable.name, ())
        return frozenset(read for read in reads if definition in self.definitions(read))

    def all_of(self, variable: Variable) -> tuple[Definition, ...]:
        """Every definition of a variable in this file, in the order of the text."""
        return tuple(self._collected.of_name(variable))

    def kept(self, function: Scope, by_calls: Iterable[tuple[ast.expr, ast.expr]]) -> frozenset[tuple[str, str]]:
        """Which parameter's object may hold that of which other once a function has run: (held, holder).

        by_calls: the same of the arguments of its calls.
        """
        objects = _Objects(self._names)
        for node in ast.walk(function.node):
            objects.connect(node)
        for held, holder in by_calls:
            objects.put(held, holder)
            variable = self._names.variable(holder)
            if variable is not None and self._names.class_of_self(holder) is not None:
                for root in objects.path(held)[:1]:
                    objects.hold(variable, root)
        named = {Variable(function, parameter.arg): parameter.arg for parameter in function.parameters}
        found: set[tuple[str, str]] = set()
        for variable, name in named.items():
            holders = (self._parameter(each, function, named) for each in _closure([variable], objects.outer))
            found |= {(name, holder) for holder in holders if holder not in (None, name)}
        return frozenset(found)

    def _parameter(self, variable: Variable, function: Scope, named: dict[Variable, str]) -> str | None:
        """The parameter that a variable is, or whose attribute it is: `self`."""
        cls = function.parent if function.is_method else None
        if cls is not None and variable.is_attribute and variable.scope is self._names.family(cls):
            return next(iter(named.values()))
        return named.get(variable)

    def at(self, node: ast.AST) -> tuple[Definition, ...]:
        """The definitions that a node makes: a target, an argument, an alias, a call that changes something."""
        return tuple(self._collected.by_node.get(node, ()))

    def variable(self, node: ast.expr) -> Variable | None:
        """The variable that a name or attribute stands for; None for anything else and for builtins."""
        return self._names.variable(node)

    @staticmethod
    def _is_unordered(variable: Variable) -> bool:
        is_inner = variable.scope is not None and variable.scope.kind == "comprehension"
        return is_inner or (variable.is_attribute and variable.scope is None)

    @cached_property
    def _seen(self) -> _Collector:
        if self._given is not None:
            return self._given
        collector = _Collector(self.flow, self._names)
        for scope in self.bindings.root.walk():
            if scope.kind in ("module", "function", "lambda"):
                collector.add_frame(scope.node)
        return collector

    @cached_property
    def _collected(self) -> _Collected:
        return self._seen.with_changes(self._mutates, self._held)

    @cached_property
    def _solver(self) -> _Solver:
        return _Solver(self.flow, self._names, self._collected, self._runs)

    @cached_property
    def _reads_by_name(self) -> dict[str, list[ast.expr]]:
        found: dict[str, list[ast.expr]] = {}
        for read in self._collected.reads:
            found.setdefault(read.id if isinstance(read, ast.Name) else read.attr, []).append(read)
        return found


# The variable behind each name.


class _Names:
    """The variables of a file's names and attributes."""

    def __init__(self, flow: ControlFlow, bindings: Bindings) -> None:
        self.flow = flow
        self.bindings = bindings
        self._families: dict[Scope, Scope] = {}
        for scope in bindings.root.walk():
            if scope.kind == "class":
                self._families.setdefault(scope, scope)
                for base in getattr(scope.node, "bases", ()):
                    for relative in self._classes(base):
                        self._families[self.family(relative)] = self.family(scope)

    def _classes(self, base: ast.expr) -> list[Scope]:
        if not isinstance(base, ast.Name):
            return []
        writes = self.bindings.scope_of[base].writes_of(base.id)
        return [self.bindings.made_by[w] for w in writes if isinstance(w, ast.ClassDef)]

    def family(self, cls: Scope) -> Scope:
        """One class for all that inherit from each other in this file."""
        while self._families.setdefault(cls, cls) is not cls:
            cls = self._families[cls]
        return cls

    def scope(self, node: ast.AST) -> Scope:
        """The scope in which a node is evaluated."""
        while node not in self.bindings.scope_of:
            node = self.flow.parents[node]
        return self.bindings.scope_of[node]

    def variable(self, node: ast.AST) -> Variable | None:
        if isinstance(node, ast.Name):
            owner = self.scope(node).owner(node.id)
            return None if owner is None else Variable(owner, node.id)
        if isinstance(node, ast.Attribute):
            cls = self.class_of_self(node.value)
            return Variable(None if cls is None else self.family(cls), node.attr, is_attribute=True)
        return None

    def named(self, name: str, node: ast.AST) -> Variable:
        """The variable of a name that a node other than a Name binds."""
        scope = self.scope(node)
        return Variable(scope.owner(name) or scope, name)

    def class_of_self(self, node: ast.expr) -> Scope | None:
        """The class of `self`: of the first parameter of a method, which is never bound again."""
        if not isinstance(node, ast.Name):
            return None
        method = self.scope(node).owner(node.id)
        if method is None or not method.is_method or method.has_decorator("staticmethod"):
            return None
        first = method.parameters[:1]
        is_self = bool(first) and first[0].arg == node.id and method.writes[node.id] == [first[0]]
        return method.parent if is_self else None

    def home(self, variable: Variable) -> ast.AST | None:
        """The function or module in whose graph a variable lives; None for attributes."""
        if variable.is_attribute or variable.scope is None:
            return None
        scope = variable.scope
        while scope.kind in ("class", "comprehension"):
            assert scope.parent is not None
            scope = scope.parent
        return scope.node

    def function(self, frame: ast.AST) -> Scope | None:
        """The scope that a function makes."""
        return self.bindings.made_by.get(frame)

    def enclosing(self, frame: ast.AST) -> ast.AST:
        """The function or module in whose graph a function is defined."""
        return self.flow.frame(frame)


# Reads and writes, and their places.


@dataclass(frozen=True, slots=True, eq=False)
class _Event:
    """One effect of a point, at one node: reads come before what is written there."""

    node: ast.AST
    reads: Variable | None = None
    hides: Variable | None = None  # the variable whose earlier definitions are gone
    calls: ast.Call | None = None
    is_unknown_code: bool = False  # runs code that no call names: an iterator's, a context manager's
    is_resumed_later: bool = False  # `yield` and `await` let others run
    in_comprehension: bool = False


@dataclass(slots=True)
class _Collected:
    """All definitions of a file, numbered, and the events of each point."""

    definitions: list[Definition] = field(default_factory=list)
    frames: list[ast.AST] = field(default_factory=list)  # of each definition
    points: list[tuple[int, ...]] = field(default_factory=list)  # of each definition
    by_variable: dict[Variable, int] = field(default_factory=dict)  # bit sets
    by_attribute: dict[str, int] = field(default_factory=dict)
    by_node: dict[ast.AST, list[Definition]] = field(default_factory=dict)
    numbers: dict[Definition, int] = field(default_factory=dict)
    gives: dict[_Event, tuple[int, ...]] = field(default_factory=dict)  # the numbers of what an event defines
    events: dict[ast.AST, dict[int, list[_Event]]] = field(default_factory=dict)
    reads: dict[ast.Name | ast.Attribute, ast.AST] = field(default_factory=dict)  # with the frame they are in

    def copy(self) -> _Collected:
        """One to which definitions can be added; events and reads are the same."""
        return _Collected(
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

    def add(self, event: _Event, definition: Definition, frame: ast.AST, point: int) -> None:
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
        return [self.definitions[i] for i in _bits(self.mask(variable))]


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class _Collector:
    """Go through all graphs once; what calls change in place is asked for, and added, afterwards."""

    def __init__(self, flow: ControlFlow, names: _Names) -> None:
        self.flow = flow
        self.names = names
        self.found = _Collected()
        self.objects = _Objects(names)
        self.changes: list[tuple[_Event, ast.AST, int, ast.expr | None]] = []  # None: what a call may change
        self.frame: ast.AST = flow.tree
        self.point = 0
        self.events: list[_Event] = []

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
            self.events.append(_Event(node, is_unknown_code=True))

    def after(self, node: ast.AST, role: str) -> None:
        if role == "def" and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.define(Kind.FUNCTION, node, self.names.named(node.name, node))
        elif role == "class end" and isinstance(node, ast.ClassDef):
            self.define(Kind.CLASS, node, self.names.named(node.name, node))
        elif role == "except" and isinstance(node, ast.ExceptHandler) and node.name:
            self.define(Kind.EXCEPT, node, self.names.named(node.name, node))
        elif role == "with item":
            self.events.append(_Event(node, is_unknown_code=True))

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
            self.events.append(_Event(node, is_unknown_code=True, is_resumed_later=True))
        self.objects.connect(node)

    def name(self, node: ast.Name | ast.Attribute, role: str) -> None:
        variable = self.names.variable(node)
        parent = self.flow.parents.get(node)
        is_augmented = isinstance(parent, ast.AugAssign) and node is parent.target
        if variable is None:
            return
        if isinstance(node.ctx, ast.Load) or is_augmented:
            self.found.reads[node] = self.frame
            self.events.append(_Event(node, reads=variable, in_comprehension=self.in_comprehension(node)))
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
        event = _Event(node, calls=node, in_comprehension=self.in_comprehension(node))
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
        event = _Event(node, hides=variable if hides and not inner else None, in_comprehension=inner)
        self.events.append(event)
        self.found.add(event, Definition(kind, node, variable), self.frame, self.point)
        if variable.scope is not None and variable.scope.kind == "class" and not variable.is_attribute:
            attribute = Variable(self.names.family(variable.scope), variable.name, is_attribute=True)
            self.found.add(event, Definition(kind, node, attribute), self.frame, self.point)

    def change(self, node: ast.AST, changed: ast.expr) -> None:
        """Note that an object is changed in place; whose it is, is known once all graphs have been seen."""
        event = _Event(node, in_comprehension=self.in_comprehension(node))
        self.events.append(event)
        self.changes.append((event, self.frame, self.point, changed))

    def with_changes(
        self, mutates: Callable[[ast.Call], Iterable[ast.expr]], held: Callable[[ast.Call, ast.expr], list[ast.expr]]
    ) -> _Collected:
        """All that was seen, with the changes of objects in place."""
        objects, changes = self.objects.copy(), []
        for event, frame, point, changed in self.changes:
            if changed is not None:
                changes.append((event, frame, point, changed))
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


def arguments(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call."""
    return [*call.args, *(k.value for k in call.keywords)]


class _Objects:
    """Which variables may hold the same object, and which an object inside another's?"""

    def __init__(self, names: _Names) -> None:
        self.names = names
        self.outer: dict[Variable, dict[Variable, None]] = {}  # dictionaries for their order
        self.inner: dict[Variable, dict[Variable, frozenset[str | None]]] = {}  # under which keys; None for any

    def copy(self) -> _Objects:
        """One to which connections can be added."""
        copied = _Objects(self.names)
        copied.outer = {variable: {**others} for variable, others in self.outer.items()}
        copied.inner = {variable: {**others} for variable, others in self.inner.items()}
        return copied

    def connect(self, node: ast.AST) -> None:
        """Follow what a node hands from one variable to another."""
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self.assign(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            self.assign(node.target, node.value)
        elif isinstance(node, ast.comprehension):
            self.loop(node.target, node.iter)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self.assign(node.optional_vars, node.context_expr)
        elif isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None), ast.Store):
            parent = self.names.flow.parents.get(node)
            if isinstance(parent, (ast.For, ast.AsyncFor)):
                self.loop(node, parent.iter)

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                for each, part in zip(target.elts, value.elts, strict=True):
                    self.assign(each, part)
            else:
                for each in target.elts:
                    self.take(each, value)
            return
        if isinstance(target, ast.Starred):
            self.take(target.value, value)
        elif isinstance(target, ast.Subscript):
            self.put(value, target.value, _key(target.slice))
        else:
            self.bind(target, value)

    def bind(self, target: ast.expr, value: ast.expr) -> None:
        """A name or an attribute gets a value."""
        into = self.names.variable(target)
        if into is None:
            return
        for each in _alternatives(value):
            if isinstance(each, _DISPLAYS):
                for key, part in _items(each):
                    self.put(part, target, key)
            elif isinstance(each, ast.Subscript):
                self.take(target, each.value, self._first_key(each))
            else:
                same = self.names.variable(each)
                if same is not None and isinstance(each, (ast.Name, ast.Attribute)):
                    self.hold(into, same)
                    self.hold(same, into)
                if isinstance(each, ast.Attribute):
                    self.take(target, each.value)
        if isinstance(target, ast.Attribute):
            self.put(value, target.value)

    def loop(self, target: ast.expr, listed: ast.expr) -> None:
        sources = [listed]
        if isinstance(listed, ast.Call):  # `enumerate(rows)`, `table.items()`
            sources = [*listed.args, *([listed.func.value] if isinstance(listed.func, ast.Attribute) else [])]
        for source in sources:
            self.take(target, source)

    def take(self, target: ast.expr, container: ast.expr, key: str | None = None) -> None:
        """A target gets a part of a container, what it has under a key if that is known."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for each in target.elts:
                self.take(each, container)
            return
        into = self.names.variable(target.value if isinstance(target, ast.Starred) else target)
        for each in _alternatives(container):
            parts = _parts(each) if isinstance(each, _DISPLAYS) else ()
            for part in parts:
                self.assign(target, part)
            for at, holder in enumerate(self.path(each)):
                if into is not None:
                    self.hold(holder, into, None if at else key)

    def put(self, value: ast.expr, container: ast.expr, key: str | None = None) -> None:
        """A value becomes a part of a container, under a key if that is known."""
        key = key if self.names.variable(container) is not None else self._first_key(container)
        for each in _alternatives(value):
            for part in _parts(each) if isinstance(each, _DISPLAYS) else ():
                self.put(part, container, key)
            for root in self.path(each)[:1]:
                for at, holder in enumerate(self.path(container)):
                    self.hold(holder, root, None if at else key)

    def hold(self, outer: Variable, inner: Variable, key: str | None = None) -> None:
        if outer != inner:
            self.outer.setdefault(inner, {})[outer] = None
            held = self.inner.setdefault(outer, {})
            held[inner] = held.get(inner, frozenset()) | {key}

    def path(self, node: ast.expr) -> list[Variable]:
        """The variables on the way to an object: `c`, `b` and `a` for `a.b[0].c`; not `self`."""
        found: list[Variable] = []
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred, ast.Name)):
            variable = self.names.variable(node) if self.names.class_of_self(node) is None else None
            if variable is not None:
                found.append(variable)
            if isinstance(node, ast.Name):
                break
            node = node.value
        return found

    def touched(self, changed: ast.expr) -> list[Variable]:
        """The variables whose object may be another after a change of an object in place."""
        found: dict[Variable, None] = {}
        for each in _alternatives(changed):
            path = self.path(each)
            is_part = isinstance(each, (ast.Subscript, ast.Starred))
            inner = self._held_by(path[0], self._first_key(each)) if is_part and path else path
            found.update(dict.fromkeys(_closure(inner, self.outer)))
        return list(found)

    def _held_by(self, holder: Variable, key: str | None) -> list[Variable]:
        """A variable and all that its object may hold under a key."""
        parts = self.inner.get(holder, {})
        return [holder, *_closure((v for v, keys in parts.items() if not key or keys & {key, None}), self.inner)]

    def _first_key(self, node: ast.expr) -> str | None:
        """`a` of `held["a"][0].b`"""
        key = None
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)) and self.names.variable(node) is None:
            key = _key(node.slice) if isinstance(node, ast.Subscript) else None
            node = node.value
        return key


def _closure(start: Iterable[Variable], edges: Mapping[Variable, Iterable[Variable]]) -> list[Variable]:
    found: dict[Variable, None] = {}
    stack = list(start)
    while stack:
        variable = stack.pop()
        if variable not in found:
            found[variable] = None
            stack.extend(edges.get(variable, ()))
    return list(found)


def _alternatives(node: ast.expr) -> list[ast.expr]:
    """The expressions one of which an expression comes to."""
    if isinstance(node, ast.IfExp):
        return [*_alternatives(node.body), *_alternatives(node.orelse)]
    if isinstance(node, ast.BoolOp):
        return [each for value in node.values for each in _alternatives(value)]
    if isinstance(node, (ast.NamedExpr, ast.Await)):
        return _alternatives(node.value)
    return [node]


def _key(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _items(node: ast.List | ast.Tuple | ast.Set | ast.Dict) -> list[tuple[str | None, ast.expr]]:
    """The parts of a display with their keys."""
    keys = [_key(key) for key in node.keys] if isinstance(node, ast.Dict) else [None for _ in node.elts]
    return [*zip(keys, _parts(node), strict=True)]


def _parts(node: ast.List | ast.Tuple | ast.Set | ast.Dict) -> list[ast.expr]:
    return node.values if isinstance(node, ast.Dict) else node.elts


# Reaching definitions.


class _Solver:
    """Solve the equations of one function when it is first asked about, after those of the functions round it."""

    def __init__(
        self,
        flow: ControlFlow,
        names: _Names,
        collected: _Collected,
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
        return frozenset(self.collected.definitions[i] for i in _bits(self.found.get(read, 0)))

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

    def read(self, frame: ast.AST, point: int, events: list[_Event], state: int) -> None:
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

    def effect(self, events: list[_Event], given: Callable[[_Event], int]) -> tuple[int, int]:
        """The definitions that a point takes away, and those that it adds, as bits."""
        gone = added = 0
        for event in events:
            if event.hides is not None and not self.flow.is_conditional(event.node):
                mask = self.collected.mask(event.hides)
                gone, added = gone | mask, added & ~mask
            added |= given(event)
        return gone, added

    def made_at(self, event: _Event) -> int:
        """The definitions that an event makes itself."""
        mask = 0
        for number in self.collected.gives.get(event, ()):
            mask |= 1 << number
        return mask

    def given(self, frame: ast.AST, event: _Event) -> int:
        mask = self.made_at(event)
        if event.calls is not None or event.is_unknown_code:
            mask |= self.from_outside(frame, event)
        return mask

    def from_outside(self, frame: ast.AST, event: _Event) -> int:
        """The definitions that other functions may make while a call runs."""
        if event.is_resumed_later:
            return ((1 << len(self.collected.definitions)) - 1) & ~(self.made_in.get(frame, 0) & ~self.remote)
        run = self.runs(event.calls) if event.calls is not None else None
        if run is None:
            return self.remote
        if run not in self.made_by:
            mask = 0
            for scope in run:
                mask |= self.made_in.get(scope.node, 0)
            self.made_by[run] = mask & self.remote
        return self.made_by[run]

    def at_entry(self, frame: ast.AST, events: dict[int, list[_Event]]) -> int:
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
        for maker in {self.collected.frames[number] for number in _bits(mask)}:
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
            for point, listed in self.collected.events[maker].items():
                for number, event in enumerate(listed):
                    if self.may_run(event, reader):
                        gone, added = self.effect(listed[:number], self.made_at)
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

    def may_run(self, event: _Event, frame: ast.AST) -> bool:
        """Whether an event may run a function: one that a call reaches, or that has the name of what is called."""
        if event.calls is None and not event.is_unknown_code:
            return False
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
        for number in _bits(self.made_in.get(frame, 0)):
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
