"""What does code do besides giving a value? One summary per function, and from these that of any piece of code.

A summary is built from the rows of the table of libraries, and bottom-up over the calls between the project's own
functions: through methods, properties, operators, iteration, contexts and decorators. A call of which neither a row nor
the source is known makes the summary unknown. Two limits: attributes are read and objects of unknown kind are iterated
without effect, where no class of the project defines otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from accelify.codemod.libraries import table
from accelify.codemod.libraries.kinds import IMMUTABLE
from accelify.codemod.libraries.row import Effect, Role, Row, Trait
from accelify.codemod.semantics.effects.aliases import Aliases, Run
from accelify.codemod.semantics.effects.kinds import UNKNOWN, Kinds
from accelify.codemod.semantics.effects.library_calls import OF_FILES, LibraryCalls
from accelify.codemod.semantics.effects.summary import EMPTY, FileUse, Leave, Place, Summary
from accelify.codemod.semantics.program import COMPREHENSIONS, LOOPS, Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import (
    ClassValue,
    Collection,
    Constant,
    External,
    FunctionValue,
    Generated,
    Instance,
    Made,
    ModuleValue,
    SuperOf,
    Values,
    View,
)

_OPERATORS: dict[type[ast.AST], str] = dict(
    zip(
        (
            *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult),
            *(ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift, ast.UAdd, ast.USub, ast.Invert),
            *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
        ),
        "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift pos neg invert eq ne lt le gt ge".split(),
        strict=True,
    )
)
# The method of an object that a builtin runs.
_RUN_BY = {
    **{name: f"__{name}__" for name in "len str repr bool int float abs iter next hash format round reversed".split()},
    **dict.fromkeys("list tuple set dict sorted sum min max any all".split(), "__iter__"),
    "print": "__str__",
}
_MAKES_NEW = ("__init__", "__new__", "__post_init__")


@dataclass(frozen=True, slots=True)
class _Direct:
    """The effects of code itself, and the functions that it runs."""

    summary: Summary = EMPTY
    runs: tuple[Run, ...] = ()

    def __or__(self, other: _Direct) -> _Direct:
        if other is _NOTHING:
            return self
        if self is _NOTHING:
            return other
        return _Direct(self.summary | other.summary, (*self.runs, *other.runs))


_NOTHING = _Direct()


class Effects:
    """The summaries of a program's code, each worked out when it is first asked for."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.flow = program.flow
        self.kinds = program.once(Kinds)
        self.aliases = Aliases(program, self.kinds)
        self._libraries = LibraryCalls(program, self.kinds, self.aliases)
        self._direct: dict[ast.AST, _Direct] = {}
        self._calls: dict[ast.Call, _Direct] = {}
        self._of_calls: dict[ast.Call, Summary] = {}
        self._bodies: dict[Scope, _Direct] = {}
        self._functions: dict[Scope, Summary] = {}

    # Questions.

    def of(self, *nodes: ast.AST) -> Summary:
        """The effects of expressions or statements when they are evaluated or run."""
        return self._whole(*map(self._of, nodes))

    def of_call(self, call: ast.Call) -> Summary:
        """The effects of a call once its function and arguments are evaluated."""
        if call not in self._of_calls:
            self._of_calls[call] = self._whole(self._call(call))
        return self._of_calls[call]

    def of_function(self, function: Scope) -> Summary:
        """The effects of a function's call, in terms of its parameters and of variables outside of it."""
        if function not in self._functions:
            self._solve(function)
        return self._functions[function]

    def is_pure(self, node: ast.expr) -> bool:
        """Whether an expression only gives a value."""
        return self.of(node).is_empty

    def changes_nothing(self, *nodes: ast.AST) -> bool:
        """Whether code may go without being missed: nothing is different after it has run."""
        return self.of(*nodes).only_reads

    # Functions: strongly connected components of the call graph, bottom-up.

    def _solve(self, start: Scope) -> None:
        """Tarjan's algorithm, without recursion."""
        order: dict[Scope, int] = {}
        lowest: dict[Scope, int] = {}
        component: list[Scope] = []
        waiting: list[tuple[Scope, Iterator[Scope]]] = []

        def enter(function: Scope) -> None:
            order[function] = lowest[function] = len(order)
            component.append(function)
            waiting.append((function, iter([r.function for r in self._body(function).runs])))

        enter(start)
        while waiting:
            function, rest = waiting[-1]
            for called in rest:
                if called in self._functions:
                    continue
                if called not in order:
                    enter(called)
                    break
                if called in component:
                    lowest[function] = min(lowest[function], order[called])
            else:
                waiting.pop()
                if waiting:
                    outer = waiting[-1][0]
                    lowest[outer] = min(lowest[outer], lowest[function])
                if lowest[function] == order[function]:
                    at = component.index(function)
                    self._settle(component[at:])
                    del component[at:]

    def _settle(self, functions: list[Scope]) -> None:
        """The summaries of functions that call each other: again, until none of them grows."""
        self._functions.update(dict.fromkeys(functions, EMPTY))
        grown = True
        while grown:
            grown = False
            for function in functions:
                found = self._outside(function, self._whole(self._body(function)))
                if found != self._functions[function]:
                    self._functions[function] = self._functions[function] | found
                    grown = True

    def _body(self, function: Scope) -> _Direct:
        if function not in self._bodies:
            node = function.node
            parts: Sequence[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else function.body
            self._bodies[function] = self._joined(parts)
        return self._bodies[function]

    def _outside(self, function: Scope, summary: Summary) -> Summary:
        """A function's summary as its callers see it: without its own variables and what it has made itself."""
        inner = set(function.walk())
        writes: set[Place] = set()
        for place in summary.writes:
            if place.scope in inner and place.is_variable:
                continue
            writes |= self.aliases.origins(place, inner) if place.scope in inner else {place}
        ended = {Leave.RETURN, Leave.BREAK, Leave.CONTINUE, Leave.YIELD, Leave.AWAIT}
        return replace(summary, writes=frozenset(writes), leaves=summary.leaves - ended)

    def _whole(self, *parts: _Direct) -> Summary:
        found = EMPTY
        for part in parts:
            found = found | part.summary
            for run in part.runs:
                found = found | self._as_seen_at(run)
        return found

    def _as_seen_at(self, run: Run) -> Summary:
        """The summary of a function that is run, with what it is given in place of its parameters."""
        if run.function not in self._functions:
            self._solve(run.function)
        summary = self._functions[run.function]
        if not any(p.scope is run.function for p in summary.writes):
            return summary
        writes: set[Place] = set()
        for place in summary.writes:
            writes |= self.aliases.given(run, place) if place.scope is run.function else {place}
        return replace(summary, writes=frozenset(writes))

    # The effects of code itself.

    def _of(self, node: ast.AST) -> _Direct:
        if node not in self._direct:
            self._direct[node] = _NOTHING
            self._direct[node] = self._look(node)
        return self._direct[node]

    def _joined(self, nodes: Iterable[ast.AST]) -> _Direct:
        found = _NOTHING
        for node in nodes:
            found = found | self._of(node)
        return found

    def _look(self, node: ast.AST) -> _Direct:
        own = _NOTHING
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return self._definition(node)
        if isinstance(node, ast.expr):
            own = self._expression(node)
        elif isinstance(node, ast.stmt):
            own = self._statement(node)
        elif isinstance(node, ast.comprehension):
            own = self._iterated(node.iter)
        elif isinstance(node, ast.withitem):
            own = self._dunder(node.context_expr, "__enter__") | self._dunder(node.context_expr, "__exit__")
        found = own | self._joined(ast.iter_child_nodes(node))
        if isinstance(node, (ast.ClassDef, *COMPREHENSIONS)):
            found = self._without(self.flow.made_by[node], found) if node in self.flow.made_by else found
        if isinstance(node, LOOPS):
            ended = frozenset({Leave.BREAK, Leave.CONTINUE})
            kept = self._joined(node.orelse).summary.leaves & ended
            leaves = (found.summary.leaves - ended) | kept
            return _Direct(replace(found.summary, leaves=leaves), found.runs)
        return found

    @staticmethod
    def _without(scope: Scope, found: _Direct) -> _Direct:
        """The effects of code without the binding of one scope's variables."""
        writes = frozenset(p for p in found.summary.writes if p.scope is not scope or not p.is_variable)
        return _Direct(replace(found.summary, writes=writes), found.runs)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> _Direct:
        """Making a function evaluates its defaults and runs its decorators."""
        defaults = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
        if isinstance(node, ast.Lambda):
            return self._joined(defaults)
        bound = self._writes({Place(self.program.scope(node), node.name)})
        return bound | self._joined(defaults) | self._decorated(node)

    def _decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> _Direct:
        found = self._joined(node.decorator_list)
        for decorator in node.decorator_list:
            for value in self.program.values(decorator):
                if isinstance(value, FunctionValue):
                    found = found | _Direct(EMPTY, (Run(value.scope, decorator),))
        return found

    def _statement(self, node: ast.stmt) -> _Direct:
        leave = _LEAVES.get(type(node))
        if leave is not None:
            return _Direct(Summary(leaves=frozenset({leave})))
        if isinstance(node, (ast.For, ast.AsyncFor)):
            return self._iterated(node.iter)
        if isinstance(node, ast.AugAssign):
            return self._augmented(node)
        if isinstance(node, ast.ClassDef):
            return self._writes({Place(self.program.scope(node), node.name)}) | self._decorated(node)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return self._imported(node)
        if isinstance(node, (ast.If, ast.While)):
            return self._dunder(node.test, "__bool__") | self._dunder(node.test, "__len__")
        if isinstance(node, ast.ExceptHandler) and node.name:
            return self._writes({Place(self.program.scope(node), node.name)})
        if isinstance(node, ast.Assign) and any(isinstance(t, (ast.Tuple, ast.List)) for t in node.targets):
            return self._iterated(node.value)
        return _NOTHING

    def _imported(self, node: ast.Import | ast.ImportFrom) -> _Direct:
        """An import binds names, and runs a module of the project's own."""
        scope = self.program.scope(node)
        names = {a.asname or a.name.partition(".")[0] for a in node.names}
        found = self._writes({Place(scope.owner(n) or scope, n) for n in names if n != "*"})
        path = self.program.path(node)
        if isinstance(node, ast.ImportFrom):
            roots = [self.flow.module_named(path, node.module or "", node.level)]
            roots += [
                self.flow.module_named(path, f"{node.module}.{a.name}" if node.module else a.name, node.level)
                for a in node.names
            ]
        else:
            roots = [self.flow.module_named(path, a.name, 0) for a in node.names]
        runs = tuple(Run(r, node) for r in dict.fromkeys(roots) if r is not None and r is not scope.root)
        return found | _Direct(EMPTY, runs)

    def _augmented(self, node: ast.AugAssign) -> _Direct:
        """`x += y` binds x, and changes what it held in place where that is no number or text."""
        name = _OPERATORS[type(node.op)]
        found = self._dunder(node.target, f"__i{name}__", node.value) | self._dunder(node.target, f"__{name}__")
        if isinstance(node.target, ast.Name) and not self.kinds.of(node.target) <= IMMUTABLE | {"tuple"}:
            found = found | self._writes(self.aliases.within(node.target, ("*",)))
        return found

    def _expression(self, node: ast.expr) -> _Direct:
        is_read = isinstance(getattr(node, "ctx", None), ast.Load)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Attribute):
            return self._attribute_read(node, node.value, node.attr) if is_read else self._stored(node)
        if isinstance(node, ast.Subscript):
            return self._item_read(node) if is_read else self._stored(node)
        if isinstance(node, ast.Name):
            return _NOTHING if is_read else self._stored(node)
        if isinstance(node, ast.Starred) and is_read:
            return self._iterated(node.value)
        if isinstance(node, ast.Await):
            return _Direct(Summary(leaves=frozenset({Leave.AWAIT})))
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            inner = self._iterated(node.value) if isinstance(node, ast.YieldFrom) else _NOTHING
            return _Direct(Summary(leaves=frozenset({Leave.YIELD}))) | inner
        return self._operated(node)

    def _operated(self, node: ast.expr) -> _Direct:
        """Operators run methods of the project's own classes."""
        if isinstance(node, ast.BinOp):
            name = _OPERATORS[type(node.op)]
            return self._dunder(node.left, f"__{name}__", node.right) | self._dunder(
                node.right, f"__r{name}__", node.left
            )
        if isinstance(node, ast.UnaryOp):
            name = _OPERATORS.get(type(node.op), "bool")
            return self._dunder(node.operand, f"__{name}__")
        if isinstance(node, ast.Compare):
            found = _NOTHING
            for one, op, other in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                if isinstance(op, (ast.In, ast.NotIn)):
                    found = found | self._dunder(other, "__contains__", one)
                elif name := _OPERATORS.get(type(op), ""):
                    found = found | self._dunder(one, f"__{name}__", other) | self._dunder(other, f"__{name}__", one)
            return found
        if isinstance(node, ast.FormattedValue):
            return self._dunder(node.value, "__format__") | self._dunder(node.value, "__str__")
        tests = node.values[:-1] if isinstance(node, ast.BoolOp) else [node.test] if isinstance(node, ast.IfExp) else []
        found = _NOTHING
        for test in tests:
            found = found | self._dunder(test, "__bool__") | self._dunder(test, "__len__")
        return found

    # Objects of the project's own classes.

    def _dunder(self, node: ast.expr, name: str, *given: ast.expr) -> _Direct:
        """The method of the project's own classes that an operator or a statement runs."""
        methods = {
            method
            for value in self._held_at(node)
            if isinstance(value, Instance)
            for cls in [value.cls, *self.flow.descendants(value.cls)]
            if (method := self.flow.method(cls, name)) is not None
        }
        return _Direct(EMPTY, tuple(Run(m, node, node, given) for m in sorted(methods, key=_by_name)))

    def _item_read(self, node: ast.Subscript) -> _Direct:
        """Taking an item runs a method, and the transforms of a library's data set."""
        found = self._dunder(node.value, "__getitem__", node.slice)
        return found | self._held(node.value) if "dataset" in self.kinds.of(node.value) else found

    def _held_at(self, node: ast.expr) -> Values:
        """The values that an expression may have; of a target, before it is assigned to."""
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            scope = self.program.scope(node)
            return self.flow.variable(scope.owner(node.id) or scope, node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            return frozenset(v for w in self.program.attribute_writes[node.attr] for v in self.program.values(w))
        return self.program.values(node)

    def _attribute_read(self, node: ast.expr, owner: ast.expr, name: str) -> _Direct:
        """Reading an attribute runs a property, a descriptor or `__getattr__`."""
        instances = [v for v in self.program.values(owner) if isinstance(v, Instance)]
        runs: list[Run] = []
        for value in instances:
            accessors = self._accessors(value.cls, name, "property")
            runs += [Run(a, node, owner) for a in accessors]
            family = [value.cls, *self.flow.ancestors(value.cls)]
            held = {v for c in family for v in self.flow.variable(c, name)}
            getters = (self.flow.method(v.cls, "__get__") for v in held if isinstance(v, Instance))
            runs += [Run(g, node, node) for g in getters if g is not None]
            is_bound = any(name in c.writes for c in family) or name in self.program.attribute_writes
            getters_of_all = ("__getattribute__",) if is_bound else ("__getattribute__", "__getattr__")
            runs += [Run(m, node, owner) for m in self._named(value.cls, *getters_of_all)]
        properties = [m for m in self._methods.get(name, ()) if m.is_property]
        if properties and not instances and UNKNOWN in self.kinds.of(owner):
            runs += [Run(m, node, owner) for m in properties]
        return _Direct(EMPTY, tuple(runs)) if runs else _NOTHING

    def _named(self, cls: Scope, *names: str) -> list[Scope]:
        return [m for n in names if (m := self.flow.method(cls, n)) is not None]

    def _accessors(self, cls: Scope, name: str, kind: str) -> list[Scope]:
        """The functions behind a property of a class, or of those that inherit from it."""
        found: list[Scope] = []
        for each in [cls, *self.flow.ancestors(cls), *self.flow.descendants(cls)]:
            for child in each.children:
                is_it = child.is_function and child.name == name
                if is_it and (child.is_property if kind == "property" else _has_accessor(child, kind)):
                    found.append(child)
        return found

    @cached_property
    def _methods(self) -> dict[str, list[Scope]]:
        """The methods of all classes of the program, by their names."""
        found: dict[str, list[Scope]] = {}
        for built in self.flow.bindings.values():
            for scope in built.root.walk():
                if scope.is_method:
                    found.setdefault(scope.name, []).append(scope)
        return found

    def _stored(self, node: ast.Name | ast.Attribute | ast.Subscript) -> _Direct:
        """A target of an assignment, or of `del`."""
        if isinstance(node, ast.Name):
            scope = self.program.scope(node)
            return self._writes({Place(scope.owner(node.id) or scope, node.id)})
        if isinstance(node, ast.Subscript):
            method = "__setitem__" if isinstance(node.ctx, ast.Store) else "__delitem__"
            return self._writes(self.aliases.within(node.value, ("[]",))) | self._dunder(node.value, method, node.slice)
        runs: list[Run] = []
        for value in self.program.values(node.value):
            if isinstance(value, Instance):
                setters = self._accessors(value.cls, node.attr, "setter")
                setters += self._named(value.cls, "__setattr__")
                runs += [Run(s, node, node.value) for s in setters]
        return self._writes(self._of_attribute_place(node)) | _Direct(EMPTY, tuple(runs))

    def _of_attribute_place(self, node: ast.Attribute) -> frozenset[Place]:
        for value in self.program.values(node.value):
            if isinstance(value, (ModuleValue, ClassValue)):
                return frozenset({Place(value.root if isinstance(value, ModuleValue) else value.scope, node.attr)})
        return self.aliases.within(node.value, (f".{node.attr}",))

    def _writes(self, places: Iterable[Place]) -> _Direct:
        found = frozenset(places)
        libraries = frozenset(p for p in found if p.path and p.scope is not None and self._is_library(p.scope, p.name))
        effects = frozenset({Effect.CHANGES_LIBRARY}) if libraries else frozenset()
        return _Direct(Summary(writes=found - libraries, effects=effects)) if found else _NOTHING

    def _is_library(self, scope: Scope, name: str) -> bool:
        """Whether a variable stands for a module of a library."""
        writes = scope.writes.get(name, ())
        held = self.flow.variable(scope, name)
        return (
            bool(held) and all(isinstance(w, ast.alias) for w in writes) and all(isinstance(v, External) for v in held)
        )

    # Iteration.

    def _iterated(self, node: ast.expr, seen: tuple[ast.expr, ...] = ()) -> _Direct:
        """Iterating over an object uses it up, and runs what makes its elements."""
        found = _NOTHING
        for value in self.program.values(node):
            if isinstance(value, Generated):
                found = found | _Direct(EMPTY, (Run(value.scope, node, None),))
            elif isinstance(value, View) and isinstance(value.node, ast.Call):
                for argument in value.node.args:
                    if argument is not node and argument not in seen:
                        found = found | self._iterated(argument, (*seen, node))
        for name in ("__iter__", "__next__", "__getitem__"):
            found = found | self._dunder(node, name)
        rows = [r for k in sorted(self.kinds.of(node)) if (r := table.member(k, "__iter__")) is not None]
        if rows:
            is_used_up = any("self" in row.mutates for row in rows)
            writes = self.aliases.within(node, ("*",)) if is_used_up else frozenset()
            effects = frozenset(e for row in rows for e in row.effects)
            found = found | _Direct(Summary(writes=writes, effects=effects)) | self._held(node)
        return found

    def _held(self, node: ast.expr) -> _Direct:
        """The effects of running the objects that a library's object was made with: modules, a data set, functions."""
        found = _NOTHING
        for value in self.program.values(node):
            if isinstance(value, Made) and isinstance(value.node, ast.Call):
                for given in [*value.node.args, *(k.value for k in value.node.keywords)]:
                    found = found | _Direct(EMPTY, tuple(self._runnable(given, node))) | self._of_modules(given)
                found = found | self._of_module(value)
        return found

    def _of_modules(self, given: ast.expr) -> _Direct:
        """The library modules that another is made with."""
        found = _NOTHING
        for value in self._inside(self.program.values(given)):
            if isinstance(value, Made):
                found = found | self._of_module(value)
        return found

    @staticmethod
    def _of_module(made: Made) -> _Direct:
        """The effects of calling a library's module."""
        maker = table.function(made.name)
        row = table.member(maker.returns, "__call__") if maker is not None else None
        effects = row.effects - {Effect.CALLS} if row is not None else frozenset()
        is_updated = Effect.UPDATES_IN_TRAINING in effects
        differing = (Trait.MAY_DIFFER_IN_TRAINING, Trait.DIFFERS_IN_TRAINING)
        if maker is not None and any(map(maker.has, differing)) and not is_updated:
            effects = effects | {Effect.DRAWS_IN_TRAINING}
        return _Direct(Summary(effects=effects)) if effects else _NOTHING

    def _runnable(self, given: ast.expr, at: ast.AST) -> Iterator[Run]:
        for value in self._inside(self.program.values(given)):
            if isinstance(value, FunctionValue):
                yield Run(value.scope, at, given, (given,))
            elif isinstance(value, Instance):
                for method in self._named(value.cls, "__call__", "forward", "__getitem__", "__iter__", "__next__"):
                    yield Run(method, at, given)

    def _inside(self, values: Values, depth: int = 2) -> Values:
        """Values, and those in the containers and library objects among them."""
        found = set(values)
        for value in values if depth else ():
            if isinstance(value, Collection):
                found |= self._inside(self.flow.elements(value), depth - 1)
            elif isinstance(value, Made) and isinstance(value.node, ast.Call) and value.name is not None:
                for given in [*value.node.args, *(k.value for k in value.node.keywords)]:
                    inner = given.value if isinstance(given, ast.Starred) else given
                    found |= self._inside(self.program.values(inner), depth - 1)
        return frozenset(found)

    # Calls.

    def _call(self, node: ast.Call) -> _Direct:
        if node not in self._calls:
            self._calls[node] = self._look_at_call(node)
        return self._calls[node]

    def _look_at_call(self, node: ast.Call) -> _Direct:
        values = self.program.values(node.func)
        found = self._run_by_builtin(node)
        callees = self.flow.callees.get(node) or self._seen_without_flow(node)
        runs = tuple(self._runs_of(node, callees, values))
        if runs or callees:
            found = found | _Direct(EMPTY, runs) | self._around(runs)
            others = [v for v in values if not isinstance(v, (FunctionValue, ClassValue, Instance))]
            if not others:
                return found
            if not any(isinstance(v, External) for v in others):
                return found
        elif all(isinstance(v, ClassValue) for v in values) and values:
            return found | self._constructed(node, values)
        if self._is_wrapped(node):
            return found
        rows = self.kinds.called(node)
        if rows is None:
            return found | _Direct(Summary(unknown=frozenset({node})))
        for row in rows:
            found = found | self._of_row(row, node)
        return found

    def _runs_of(self, node: ast.Call, callees: Iterable[Scope], values: Values) -> Iterator[Run]:
        makes = any(isinstance(v, ClassValue) for v in values)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(owner, ast.Call) and any(isinstance(v, SuperOf) for v in self.program.values(owner)):
            owner = self._self_at(node) or owner
        instances = any(isinstance(v, Instance) for v in values)
        for callee in sorted(callees, key=_by_name):
            if callee.generates:
                continue  # it runs when it is iterated over
            is_new = makes and callee.name in _MAKES_NEW
            yield Run(callee, node, node.func if instances else owner, (), is_new)
        for value in values:
            if isinstance(value, ClassValue):
                extra = self._named(value.scope, "__new__", "__post_init__")
                yield from (Run(m, node, None, (), True) for m in extra if m not in callees)

    def _self_at(self, node: ast.AST) -> ast.expr | None:
        """`self` where `super()` stands for it."""
        scope: Scope | None = self.program.frame(node)
        while scope is not None and not scope.is_method:
            scope = scope.parent
        reads = scope.reads.get(scope.parameters[0].arg, ()) if scope is not None and scope.parameters else ()
        return reads[0] if reads else None

    def _around(self, runs: Iterable[Run]) -> _Direct:
        """The effects of the functions that decorators put round the called ones."""
        found = _NOTHING
        for run in runs:
            node = run.function.node
            for decorator in getattr(node, "decorator_list", ()):
                found = found | self._wrapper(decorator, run.at)
        return found

    def _wrapper(self, decorator: ast.expr, at: ast.AST) -> _Direct:
        values = self.program.values(decorator)
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        values = values or self.program.values(target)
        found = _NOTHING
        for value in values:
            if isinstance(value, FunctionValue):
                inner = [s for s in value.scope.walk() if s is not value.scope and s.is_function]
                found = found | _Direct(EMPTY, tuple(Run(s, at) for s in inner))
            elif isinstance(value, (ClassValue, Instance)):
                return _Direct(Summary(unknown=frozenset({decorator})))
        named = self.kinds.name_of(target)
        is_accessor = isinstance(target, ast.Attribute) and target.attr in ("setter", "getter", "deleter")
        if not is_accessor and (not values or named):
            rows = [table.function(n) for n in named]
            if not rows or None in rows:
                return found | _Direct(Summary(unknown=frozenset({decorator})))
        return found

    def _is_wrapped(self, node: ast.Call) -> bool:
        """Whether a call runs the function that a decorator was put on, whose summary is known where that is called."""
        owner = self.program.scope(node).owner(node.func.id) if isinstance(node.func, ast.Name) else None
        if owner is None or owner not in self._decorators or not isinstance(node.func, ast.Name):
            return False
        return [type(w) for w in owner.writes[node.func.id]] == [ast.arg]

    @cached_property
    def _decorators(self) -> set[Scope]:
        """The functions that are used as decorators, with those inside them."""
        found: set[Scope] = set()
        for built in self.flow.bindings.values():
            for node in built.made_by:
                for decorator in getattr(node, "decorator_list", ()):
                    target = decorator.func if isinstance(decorator, ast.Call) else decorator
                    for value in self.program.values(decorator) | self.program.values(target):
                        if isinstance(value, FunctionValue):
                            found.update(value.scope.walk())
        return found

    def _constructed(self, node: ast.Call, values: Values) -> _Direct:
        """An instance of a class without a constructor of its own: what its library bases do."""
        found = _NOTHING
        for value in values:
            assert isinstance(value, ClassValue)
            for base in self.flow.external_bases(value.scope):
                row = table.function(base)
                found = found | (
                    _Direct(Summary(unknown=frozenset({node}))) if row is None else self._of_row(row, node)
                )
        return found

    def _seen_without_flow(self, node: ast.Call) -> set[Scope]:
        """The functions that a call names, in code that no value flows through."""
        if node in self.flow.values:
            return set()
        if isinstance(node.func, ast.Name):
            owner = self.program.scope(node).owner(node.func.id)
            writes = owner.writes.get(node.func.id, ()) if owner is not None else ()
            made = [self.flow.made_by.get(w) for w in writes]
            return {m for m in made if m is not None and m.is_function}
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            frame = self.program.frame(node)
            is_self = frame.is_method and frame.parameters and node.func.value.id == frame.parameters[0].arg
            if is_self and frame.parent is not None:
                family = [frame.parent, *self.flow.descendants(frame.parent)]
                return {m for c in family if (m := self.flow.method(c, node.func.attr)) is not None}
        return set()

    def _run_by_builtin(self, node: ast.Call) -> _Direct:
        """`len(x)`, `str(x)`, `list(x)` run methods of `x`."""
        found = _NOTHING
        called = self.program.called(node)
        if called & {"getattr", "hasattr"} and len(node.args) > 1:
            texts = [v.value for v in self.program.values(node.args[1]) if isinstance(v, Constant)]
            for text in texts or self._methods:
                found = found | self._attribute_read(node, node.args[0], str(text))
        for name in called & _RUN_BY.keys():
            for argument in node.args:
                found = found | self._dunder(argument, _RUN_BY[name])
                if _RUN_BY[name] in ("__iter__", "__next__"):
                    found = found | self._iterated(argument)
                if name in ("print", "str", "format"):
                    found = found | self._dunder(argument, "__repr__")
        return found

    def _of_row(self, row: Row, call: ast.Call) -> _Direct:
        """The effects of a library's function, and of the functions that it is given."""
        found = _Direct(self._libraries.does(row, call))
        if row.has(Effect.CALLS):
            found = found | self._called_back(call)
        elif not row.keeps and row.role in (None, Role.ITERATION) and not row.has(Trait.SHAPE_ONLY):
            given = [*call.args, *(k.value for k in call.keywords)]
            functions = [g for g in given if any(isinstance(v, FunctionValue) for v in self.program.values(g))]
            found = found | _Direct(EMPTY, tuple(r for g in functions for r in self._runnable(g, call)))
        if self.program.values(call.func) and not self.kinds.name_of(call.func):
            found = found | self._held(call.func)
        return found

    def _called_back(self, call: ast.Call) -> _Direct:
        """The functions that a call is given and runs; unknown ones where they are not to be seen."""
        given = [*call.args, *(k.value for k in call.keywords)]
        runs = [r for g in given for r in self._runnable(g, call)]
        names = [n for g in given for n in sorted(self.kinds.name_of(g))]
        for name in _RUN_BY.keys() & set(names):
            held = (v for g in given for v in self._inside(self.program.values(g)) if isinstance(v, Instance))
            runs += [Run(m, call, None, (), True) for v in held for m in self._named(v.cls, _RUN_BY[name], "__str__")]
        rows = [r for n in names if (r := table.function(n)) is not None]
        if not runs and not rows and any(UNKNOWN in self.kinds.of(g) for g in given):
            return _Direct(Summary(unknown=frozenset({call})))
        effects = frozenset(e for r in rows for e in r.effects)
        uses = frozenset({FileUse(call, tuple(given))}) if Effect.WRITES_FILES in effects else frozenset()
        summary = Summary(effects=effects - {Effect.CALLS, *OF_FILES}, files_written=uses)
        return _Direct(summary, tuple(runs))


_LEAVES = {
    ast.Return: Leave.RETURN,
    ast.Raise: Leave.RAISE,
    ast.Assert: Leave.RAISE,
    ast.Break: Leave.BREAK,
    ast.Continue: Leave.CONTINUE,
}


def _by_name(scope: Scope) -> tuple[str, str, int]:
    return (scope.module, scope.qualified_name, getattr(scope.node, "lineno", 0))


def _has_accessor(function: Scope, kind: str) -> bool:
    decorators = getattr(function.node, "decorator_list", [])
    return any(isinstance(d, ast.Attribute) and d.attr == kind for d in decorators)
