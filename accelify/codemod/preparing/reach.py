"""How does each function that needs the accelerator get it?

A home creates it: a module, when set-up is done there; the function or class that does the set-up otherwise. From there
it travels as a person would pass it: functions of a home module read the global, other functions get a parameter, and a
class keeps `self.accelerator`. Functions and classes whose callers are not all known by name ask for the current one,
as do classes whose objects are saved whole: the file could not be read without the accelerator.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from accelify.codemod.semantics.program import COMPREHENSIONS, Program
from accelify.codemod.semantics.scopes import Scope, main_guard
from accelify.codemod.semantics.values import ClassValue, Element, External, FunctionValue, Made, Member, Value, Values

CURRENT = "Accelerator.current()"


@dataclass(frozen=True, slots=True)
class Reach:
    """The way of the accelerator through a program.

    homes: nodes (module, function or class scopes) that create it. parameters: functions that get it as a parameter.
    guarded: home modules that need it under their main guard alone. holders: classes that keep it. obstacles: frames
    that cannot be given it, each with the reason. nodes: all that have it. under_guard: functions that see it there.
    constructed: classes that get a constructor to keep it, with the calls that build them.
    asking: functions and classes that ask for the current one, wherever they need it. unread: functions among the homes
    that create it only for those, and name it only if a change reads it there.
    """

    name: str
    homes: tuple[Scope, ...] = ()
    guarded: Mapping[Scope, ast.If] = field(default_factory=dict)
    parameters: tuple[Scope, ...] = ()
    holders: tuple[Scope, ...] = ()
    obstacles: tuple[tuple[ast.AST, str], ...] = ()
    nodes: frozenset[Scope] = frozenset()
    under_guard: frozenset[Scope] = frozenset()
    constructed: Mapping[Scope, tuple[ast.Call, ...]] = field(default_factory=dict)
    asking: frozenset[Scope] = frozenset()
    unread: frozenset[Scope] = frozenset()

    def expression(self, frame: Scope) -> str | None:
        """The accelerator's expression in a function, method or module; None where it does not reach."""
        node = node_of(frame)
        if node in self.asking:
            return CURRENT
        if node.kind == "class":
            method = method_of(frame)
            if node not in self.holders and method in self.parameters:
                return self.name  # a base class keeps it, maybe only later
            if node in self.nodes and method is not None and not _is_static(method):
                return f"{method.parameters[0].arg}.{self.name}" if method.parameters else None
            if frame.root in self.homes and frame.root not in self.guarded:
                return self.name
            return None
        sees_module = frame.root in self.homes and (frame.root not in self.guarded or node in self.under_guard)
        if node in self.nodes or sees_module:
            return self.name
        return None


def node_of(frame: Scope) -> Scope:
    """The node that stands for a frame in the graph: a method's class, the outermost function, or the module.

    A method that gets no instance stands for itself: the accelerator is passed to it like a function.
    """
    found = frame
    scope: Scope | None = frame
    while scope is not None and scope.kind != "module":
        if scope.is_method and _is_static(scope):
            return scope
        if scope.kind == "class":
            found = scope
        elif scope.kind == "function":
            found = found if found.kind == "class" and found.parent is not scope else scope
            if scope.is_method:
                assert scope.parent is not None
                found = scope.parent
        scope = scope.parent
    return found


def method_of(frame: Scope) -> Scope | None:
    """The method that a frame is, or is inside of."""
    scope: Scope | None = frame
    while scope is not None:
        if scope.is_method:
            return scope
        scope = scope.parent
    return None


def _is_static(function: Scope) -> bool:
    return function.is_static or function.has_decorator("classmethod")


def constructor(program: Program, cls: Scope) -> Scope | None:
    """The method in which an instance of a class is set up."""
    return program.flow.method(cls, "__init__") or program.flow.method(cls, "__post_init__")


@dataclass
class _Found:
    """The findings so far."""

    homes: list[Scope] = field(default_factory=list)
    guarded: dict[Scope, ast.If] = field(default_factory=dict)
    parameters: list[Scope] = field(default_factory=list)
    holders: list[Scope] = field(default_factory=list)
    obstacles: list[tuple[ast.AST, str, Scope | None]] = field(default_factory=list)  # the last: who could ask instead
    nodes: set[Scope] = field(default_factory=set)
    under_guard: set[Scope] = field(default_factory=set)
    constructed: dict[Scope, tuple[ast.Call, ...]] = field(default_factory=dict)
    asking: set[Scope] = field(default_factory=set)


class Reacher:
    """Work out homes and ways for the frames that need the accelerator."""

    def __init__(
        self,
        program: Program,
        name: str,
        needs: dict[Scope, ast.AST],
        *,
        may_ask: bool = True,
        called_outside: Collection[tuple[str, str]] = (),
        saved: Collection[Scope] = (),
    ) -> None:
        """Take what needs it.

        called_outside: the paths and names of functions and classes that files beside the program call.
        saved: the classes whose objects are saved whole.
        """
        self.program = program
        self.flow = program.flow
        self.needs = needs
        self.name = name
        self.may_ask = may_ask
        self.called_outside = called_outside
        self.saved = saved
        self.found = _Found()
        self.asking: set[Scope] = set()
        self.first: _Found | None = None
        self._callers: dict[Scope, dict[Scope, list[ast.Call]]] = {}
        nodes = {node_of(frame) for frame in needs}
        self.needing = nodes | {top for node in nodes for top in self._family(node)}
        self.seeds = set(self.needing)
        self._names: dict[str, dict[str, list[ast.expr | ast.alias]]] = {}

    def callers(self, node: Scope) -> dict[Scope, list[ast.Call]]:
        """The nodes that could pass the accelerator to a function or class, with the calls."""
        return self._all_callers(node) if node not in self.asking else {}

    def _all_callers(self, node: Scope) -> dict[Scope, list[ast.Call]]:
        """The nodes that call a function or build a class, with the calls."""
        if node not in self._callers:
            found: dict[Scope, list[ast.Call]] = {}
            for call in self._calls(node):
                caller = node_of(self.program.frame(call))
                if caller is not node:
                    found.setdefault(caller, []).append(call)
            self._callers[node] = found
        return self._callers[node]

    def _calls(self, node: Scope) -> list[ast.Call]:
        """The calls of a function, and of a class, with or without a constructor."""
        entries = self.entries(node)
        if entries or node.kind != "class":
            return [call for function in entries for call in self.flow.callers.get(function, ())]
        made = ClassValue(node)
        return [call for call in self.program.calls if made in self.program.values(call.func)]

    def entries(self, node: Scope) -> list[Scope]:
        """The functions through which a node is entered: itself, or its constructor."""
        if node.kind == "function":
            return [node]
        if node.kind != "class":
            return []
        init = constructor(self.program, node)
        return [init] if init is not None else []

    def solve(self) -> Reach:
        """Find homes, parameters and holders, and those to which not all callers can pass the accelerator."""
        found = self.first = self._pass()
        while self.may_ask and (unfit := self._unfit(found)):
            self.asking |= unfit
            self.seeds |= {
                *found.homes,
                *(c for n in unfit if not self._is_below_home(n) for c in self._all_callers(n)),
            }
            found = self._pass()
        return self._reach(found if found.homes else self.first)

    def _reach(self, found: _Found) -> Reach:
        return Reach(
            name=self.name,
            homes=tuple(found.homes),
            guarded=found.guarded,
            parameters=tuple(found.parameters),
            holders=tuple(found.holders),
            obstacles=tuple((node, message) for node, message, _ in found.obstacles),
            nodes=frozenset(found.nodes),
            under_guard=frozenset(found.under_guard),
            constructed=found.constructed,
            asking=frozenset(found.asking),
            unread=frozenset(h for h in found.homes if h.kind == "function" and not self._is_read_in(h, found)),
        )

    def _is_read_in(self, home: Scope, found: _Found) -> bool:
        """Whether a function needs the accelerator that it creates, or passes it on."""
        takers = [*map(node_of, found.parameters), *found.constructed]
        return home in self.needing or any(home in self.callers(taker) for taker in takers)

    def _pass(self) -> _Found:
        """What is found if some ask for the accelerator, and all others are passed it."""
        self.found = _Found()
        nodes = set(self.seeds)
        for _ in range(30):
            before = set(nodes)
            nodes |= {base for node in nodes for base in self._family(node)}
            nodes |= self._between(nodes)
            nodes |= self._callers_of_the_passed(nodes)
            nodes |= self._callers_in_loops(nodes)
            if nodes == before:
                meeting = self._meeting(nodes)
                if meeting is None:
                    break
                nodes.add(meeting)
        self.found.nodes = nodes
        for node in sorted(nodes, key=lambda s: self.program.position(s.node)):
            self._settle(node, nodes)
        self.found.obstacles += self._shared_calls()
        return self.found

    def _unfit(self, found: _Found) -> set[Scope]:
        """The functions and classes that cannot be passed the accelerator wherever they are called."""
        unfit = {node for _, _, node in found.obstacles if node is not None}
        unfit |= {node_of(f) for f in found.parameters if not all(self._is_named(c, f) for c in self._callers_of(f))}
        at = self._reach(found).expression
        unreached = {f for f in found.parameters if any(at(self.program.frame(c)) is None for c in self._callers_of(f))}
        unfit |= set(map(node_of, unreached))  # `def fit(loss=Loss())` makes it before there is an accelerator
        unfit |= {n for n in found.nodes if (n.module, n.name) in self.called_outside and n not in found.homes}
        unfit |= {home for home in found.homes if home.kind != "module" and self._is_below_home(home)}
        unfit |= {c for c in found.holders if c not in found.homes and self._is_built_by_others(c, found.nodes)}
        unfit |= {c for c in {*found.holders, *found.constructed} - {*found.homes} if self._is_saved(c)}
        needing = {n for node in unfit for n in self._needing(node, found.nodes)} - self.asking
        asking = self.asking | (needing or unfit)
        classes = [node for node in asking if node.kind == "class"]
        families = {c for cls in classes for c in (*self.flow.descendants(cls), *self.flow.ancestors(cls))}
        return (asking | families) - self.asking

    def _is_built_by_others(self, cls: Scope, nodes: set[Scope]) -> bool:
        """Whether a class that nobody makes here has a constructor that runs this one, without the accelerator."""
        inits = {d: self.flow.method(d, "__init__") for d in self.flow.descendants(cls) if d not in nodes}
        return any(init is not None and init.parent is d for d, init in inits.items())

    def _is_saved(self, cls: Scope) -> bool:
        return not {cls, *self.flow.descendants(cls)}.isdisjoint(self.saved)

    def _needing(self, node: Scope, nodes: set[Scope]) -> set[Scope]:
        """Those for which a function is passed the accelerator: itself, or what it calls."""
        found, queue = {node}, [node]
        while queue:
            top = queue.pop()
            passed = {n for n in nodes - found if top in self.callers(n)} if top not in self.needing else set()
            found |= passed
            queue += passed
        return found & self.needing or {node}

    def _is_below_home(self, node: Scope) -> bool:
        """Whether something that calls a function or class, itself or through others, creates the accelerator."""
        return not self._ancestors(node, self._all_callers).isdisjoint(self.found.homes)

    def _callers_of(self, function: Scope) -> Collection[ast.Call]:
        return self.flow.callers.get(function, ())

    def _is_named(self, call: ast.Call, function: Scope) -> bool:
        """Whether the file of a call names what it calls: not if that comes from a table, as other files may use it."""
        cls = function.parent if function.name == "__init__" else None
        called = {function} if cls is None else {cls, *self.flow.descendants(cls)}
        nodes = [n for each in called for n in self._named_in(call).get(each.name, ())]
        held = (v for n in nodes if not isinstance(n, ast.alias) for v in self.program.values(n))
        is_held = any(isinstance(v, (FunctionValue, ClassValue)) and v.scope in called for v in held)
        return is_held or any(isinstance(n, ast.alias) for n in nodes)

    def _named_in(self, node: ast.AST) -> dict[str, list[ast.expr | ast.alias]]:
        """What a file reads, and imports from others, by its names."""
        parsed = self.program.parsed(node)
        if parsed.path not in self._names:
            found: dict[str, list[ast.expr | ast.alias]] = {}
            for each in parsed.nodes:
                if isinstance(each, (ast.Name, ast.Attribute, ast.alias)):
                    name = each.id if isinstance(each, ast.Name) else getattr(each, "attr", getattr(each, "name", ""))
                    found.setdefault(name, []).append(each)
            self._names[parsed.path] = found
        return self._names[parsed.path]

    def _shared_calls(self) -> Iterator[tuple[ast.AST, str, Scope | None]]:
        """The calls that may also reach functions and classes that do not take the accelerator."""
        calls = {call: function for function in self.found.parameters for call in self.flow.callers.get(function, ())}
        calls |= {call: cls for cls, building in self.found.constructed.items() for call in building}
        for call in sorted(calls, key=self.program.position):
            function = calls[call]
            others = sorted(name for callee in self._callees(call) for name in self._untaking(callee))
            if others:
                name = function.qualified_name
                message = f"this calls `{name}`, which needs the accelerator, or `{others[0]}`, which does not take it"
                yield call, message, node_of(function)
            elif any(map(_is_made_at_run_time, self._callees(call))):
                name = function.qualified_name
                message = (
                    f"this calls `{name}`, which needs the accelerator, or something else that is known only at run "
                    f"time, and may not take it: call `{name}` by its name"
                )
                yield call, message, node_of(function)

    def _untaking(self, callee: Value) -> Iterator[str]:
        """The name of a library's function, or of one or a class here that does not take the accelerator."""
        if isinstance(callee, External):
            yield callee.name
        elif isinstance(callee, (FunctionValue, ClassValue)):
            is_class = isinstance(callee, ClassValue)
            entered = constructor(self.program, callee.scope) if is_class else callee.scope
            if entered not in self.found.parameters and callee.scope not in self.found.constructed:
                yield callee.scope.qualified_name

    def _family(self, node: Scope) -> list[Scope]:
        """For a class without a constructor of its own: the project class that has it."""
        if node.kind != "class":
            return []
        init = constructor(self.program, node)
        return [init.parent] if init is not None and init.parent is not None and init.parent is not node else []

    def _ancestors(self, node: Scope, callers: Callable[[Scope], Collection[Scope]] | None = None) -> set[Scope]:
        found: set[Scope] = set()
        queue = [node]
        while queue:
            for caller in (callers or self.callers)(queue.pop()):
                if caller not in found:
                    found.add(caller)
                    queue.append(caller)
        return found

    def _between(self, nodes: set[Scope]) -> set[Scope]:
        """The nodes on the ways from one needing node to another."""
        found: set[Scope] = set()
        for node in nodes:
            if self._sees_global(node, nodes):
                continue
            ancestors = self._ancestors(node)
            needing = ancestors & nodes - {node}
            if not needing:
                continue
            for between in ancestors - nodes:
                if self._ancestors(between) & nodes:
                    found.add(between)
        return found

    def _sees_global(self, node: Scope, nodes: set[Scope]) -> bool:
        root = node.root
        if node is root or root not in nodes:
            return False
        return not self._only_guarded(root) or self._is_under_guard(node)

    def _is_under_guard(self, node: Scope) -> bool:
        """Whether a function is defined under the main guard, where it sees what is bound there."""
        guard = main_guard(node.root)
        return guard is not None and self.program.inside(node.node, guard)

    def _only_guarded(self, root: Scope) -> bool:
        """Whether a module needs the accelerator under its main guard alone."""
        guard = main_guard(root)
        if guard is None:
            return False
        if self.first is not None and root in self.first.homes:
            return root in self.first.guarded
        sites = [site for frame, site in self.needs.items() if frame is root]
        calls = [c for calls in (self.callers(n).get(root, ()) for n in self.found.nodes or ()) for c in calls]
        return all(self.program.inside(site, guard) for site in [*sites, *calls])

    def _callers_of_the_passed(self, nodes: set[Scope]) -> set[Scope]:
        """Whoever calls a function that gets a parameter must have the accelerator too."""
        found: set[Scope] = set()
        for node in nodes:
            if node.kind == "module" or self._sees_global(node, nodes):
                continue
            callers = set(self.callers(node))
            if callers & nodes or self._inherits_parameter(node, nodes):
                found |= callers
        return found - nodes

    def _inherits_parameter(self, node: Scope, nodes: set[Scope]) -> bool:
        """Whether a class has a constructor that passes the accelerator on to one of its base classes."""
        return node.kind == "class" and any(self._builders(b) & nodes for b in self._called_bases(node, nodes))

    def _callers_in_loops(self, nodes: set[Scope]) -> set[Scope]:
        """Whoever calls or builds a home again and again: the accelerator is created once."""
        found: set[Scope] = set()
        for node in nodes:
            callers = self.callers(node)
            calls = [c for listed in callers.values() for c in listed]
            is_home = node.kind != "module" and not self._sees_global(node, nodes) and not set(callers) & nodes
            is_home = is_home and node not in self.asking
            has_no_constructor = node.kind == "class" and not self.entries(node)
            if is_home and (any(map(self._is_repeated, calls)) or (has_no_constructor and len(calls) > 1)):
                found |= set(callers)
        return found - nodes

    def _callees(self, call: ast.Call) -> Values:
        return self.flow.meant(call, self.program.values(call.func))

    def _is_repeated(self, call: ast.Call) -> bool:
        statement = self.program.statement(call)
        within = (a for a in self.program.ancestors(call) if self.program.inside(a, statement))
        return bool(self.program.loops_round(call)) or any(isinstance(a, COMPREHENSIONS) for a in within)

    def _meeting(self, nodes: set[Scope]) -> Scope | None:
        """A function or module from which several homes are called, so that one accelerator serves them all."""
        roots = [
            n
            for n in nodes
            if n.kind != "module" and not self._sees_global(n, nodes) and not set(self.callers(n)) & nodes
            if n not in self.asking
        ]
        if len(roots) < 2:
            return None
        shared: set[Scope] | None = None
        for node in roots:
            ancestors = self._ancestors(node)
            shared = ancestors if shared is None else shared & ancestors
        candidates = [s for s in shared or () if s not in nodes]
        if not candidates:
            return None
        # the nearest: one that none of the others is reached from
        return min(
            candidates,
            key=lambda s: (sum(s in self._ancestors(o) for o in candidates), s.kind == "module", s.qualified_name),
        )

    def _settle(self, node: Scope, nodes: set[Scope]) -> None:
        if node.kind == "module":
            self.found.homes.append(node)
            if self._only_guarded(node):
                guard = main_guard(node)
                assert guard is not None
                self.found.guarded[node] = guard
            return
        if self._sees_global(node, nodes):
            self.found.nodes = self.found.nodes - {node}
            if self._is_under_guard(node):
                self.found.under_guard.add(node)
            return
        if node in self.asking:
            self.found.asking.add(node)
            return
        passing = set(self.callers(node)) & nodes
        if node.kind == "class":
            self._settle_class(node, nodes, passing)
            return
        if not passing:
            self.found.homes.append(node)
            if node in self.flow.lost and not self.flow.callers.get(node) and self._only_trains(node):
                self.found.obstacles.append(
                    (
                        node.node,
                        f"`{node.name}` is passed on as a value, and its model and optimizer are set up elsewhere",
                        None,
                    )
                )
            return
        self._settle_function(node)

    def _only_trains(self, function: Scope) -> bool:
        """Whether all that a function needs the accelerator for is what its parameters hold."""
        return all(
            site is function.node or isinstance(site, ast.Call)
            for frame, site in self.needs.items()
            if node_of(frame) is function
        )

    def _settle_class(self, node: Scope, nodes: set[Scope], passing: set[Scope]) -> None:
        init = constructor(self.program, node)
        if init is not None and init.parent is not node:
            assert init.parent in nodes
            return  # its base class holds it
        if self._inherits_parameter(node, nodes):
            self.found.parameters.append(init) if init is not None else None
            return
        if self._called_bases(node, nodes):
            return
        if init is None:
            self._no_constructor(node, passing)
            return
        if "__slots__" in node.writes:
            message = f"class {node.name} has `__slots__`, none of which could keep the accelerator"
            self.found.obstacles.append((node.node, message, node))
            return
        self.found.holders.append(node)
        if (passing | self._builders(node)) & nodes - set(self.flow.descendants(node)):
            self._settle_function(init)
        else:
            self.found.homes.append(node)

    def _builders(self, base: Scope) -> set[Scope]:
        """Whoever builds a class, or one that inherits from it, and is none of them."""
        family = {base, *self.flow.descendants(base)}
        return {caller for cls in family for caller in self.callers(cls)} - family

    def _called_bases(self, node: Scope, nodes: Collection[Scope]) -> list[Scope]:
        """The base classes among some nodes whose constructors a class's constructor runs, itself or through others."""
        init = self.flow.method(node, "__init__")
        run: set[Scope] = set()
        queue = [init] if init is not None else []
        while queue:
            called = (self.flow.callees.get(call, ()) for call in self.program.calls_in(queue.pop()))
            found = {f for callees in called for f in callees if f.name == "__init__"} - run
            queue += found
            run |= found
        holding = {f.parent for f in run}
        return [b for b in self.flow.ancestors(node) if b in nodes and b in holding]

    def _no_constructor(self, node: Scope, passing: set[Scope]) -> None:
        """A class by itself gets a constructor, which creates the accelerator for all that need it, or keeps it."""
        calls = self._calls(node)
        if self._is_by_itself(node) and passing:
            self.found.constructed[node] = tuple(calls)
        elif self._is_by_itself(node) and self.found.nodes <= {node} and not self._is_built_often(calls):
            self.found.homes.append(node)
        else:
            message = f"class {node.name} has no `__init__` in which it could keep the accelerator"
            self.found.obstacles.append((node.node, message, node))

    def _is_by_itself(self, cls: Scope) -> bool:
        """Whether a class has methods, and no other class, nor a decorator, a say in how its instances are made."""
        node = cls.node
        assert isinstance(node, ast.ClassDef)
        if not any(child.is_method for child in cls.children):
            return False  # it only holds other classes
        bases = {ast.unparse(b) for b in node.bases} - {"object"}
        is_plain = not bases and not node.keywords and all(map(self.flow.keeps_class, node.decorator_list))
        return is_plain and not self.flow.descendants(cls) and not {"__new__", "__slots__"} & set(cls.writes)

    def _is_built_often(self, calls: list[ast.Call]) -> bool:
        """Whether several instances of a class may be made, each of which would create an accelerator."""
        return len(calls) > 1 or any(map(self._is_repeated, calls))

    def _settle_function(self, function: Scope) -> None:
        if function in self.flow.lost and not function.is_method:
            self.found.obstacles.append(
                (
                    function.node,
                    f"`{function.name}` is passed on as a value, so its calls cannot be given the accelerator",
                    None if self._only_trains(function) else function,
                )
            )
        self.found.parameters.append(function)


def _is_made_at_run_time(callee: Value) -> bool:
    """Whether only a run makes a callee known. A `partial` hands over to functions that are known as well."""
    is_partial = isinstance(callee, Made) and callee.name == "functools.partial"
    return isinstance(callee, (Made, Member, Element)) and not is_partial
