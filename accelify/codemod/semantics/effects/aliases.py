"""Which variables, and which parts of what they hold, change with an object that an expression gives?

An object that code has just made is nobody else's; one that comes from a variable, a parameter, an attribute, an item
or a call that passes on what it is given is a place there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from accelify.codemod.libraries import table
from accelify.codemod.libraries.kinds import IMMUTABLE
from accelify.codemod.libraries.row import Role, Row, Trait
from accelify.codemod.semantics.effects.kinds import UNKNOWN, Kinds
from accelify.codemod.semantics.effects.summary import Place
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import ClassValue, ModuleValue

Path = tuple[str, ...]
_CONTAINERS = frozenset("list tuple dict set iterator module".split())
_LONGEST = 4  # steps of a path that are kept


@dataclass(frozen=True, slots=True)
class Run:
    """That code runs a function of the project's own: by a call, or with one object and further arguments."""

    function: Scope
    at: ast.AST
    owner: ast.expr | None = None
    given: tuple[ast.expr, ...] = ()
    makes: bool = False  # the object is made by the call


class Aliases:
    """Follow objects back to where they are kept."""

    def __init__(self, program: Program, kinds: Kinds) -> None:
        self.program = program
        self.flow = program.flow
        self.kinds = kinds
        self._tracer = program.once(Tracer)
        self._returned: dict[tuple[Scope, Path], frozenset[Place]] = {}
        self._results: dict[tuple[ast.Call, Path], frozenset[Place]] = {}
        self._returning: dict[Scope, list[ast.expr]] = {}
        self._replaced: dict[ast.Name, list[ast.AST] | None] = {}
        self._open: set[tuple[Scope, Path]] = set()
        self._renamed: set[ast.Name] = set()  # the parameters with another value that are being looked at
        self._unfinished = 0  # how often an answer was given that is still being worked out

    def given(self, run: Run, place: Place) -> frozenset[Place]:
        """The places outside that a change of a parameter changes."""
        function, node = run.function, run.function.node
        is_method = function.is_method and not function.is_static
        if is_method and function.parameters and place.name == function.parameters[0].arg:
            if run.makes or run.owner is None:
                return frozenset() if run.makes else frozenset({Place(None, place.name, place.path)})
            return self.within(run.owner, place.path)
        if not isinstance(run.at, ast.Call):
            return _all(self.within(g, place.path) for g in run.given)
        assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        if place.name in {r.arg for r in (node.args.vararg, node.args.kwarg) if r is not None}:
            path = place.path[1:] if place.path[0] == "[]" else ()
            given = [*run.at.args, *(k.value for k in run.at.keywords)]
            return _all(self.within(g, path) for g in given) if path else frozenset()
        argument = self._tracer.argument(run.at, function, place.name)
        if argument is not None:
            return self.within(argument, place.path)
        if any(isinstance(a, ast.Starred) for a in run.at.args) or any(k.arg is None for k in run.at.keywords):
            spread = [a for a in run.at.args if isinstance(a, ast.Starred)]
            spread_named = [k.value for k in run.at.keywords if k.arg is None]
            return _all(self.within(g, ("[]", *place.path)) for g in [*(s.value for s in spread), *spread_named])
        return frozenset({place})  # what a default holds

    def origins(self, place: Place, inner: set[Scope]) -> set[Place]:
        """The places outside of a function that are changed with what one of its variables holds."""
        return {p for p in self._back_from([place], inner) if p.scope not in inner or self._is_given(p)}

    def holding(self, node: ast.expr, path: Path) -> set[Place]:
        """The variables that hold, somewhere in what they hold, what changes with a part of what an expression gives.

        Those behind the variables of its function, too: `options` and `args` of `options = vars(args)`.
        """
        return self._back_from(self.within(node, path), set(self.program.frame(node).root.walk()))

    def _back_from(self, places: Iterable[Place], inner: set[Scope]) -> set[Place]:
        """Some places, and those from which the variables of a function got what is changed there."""
        seen: set[Place] = set()
        queue = [*places]
        while queue:
            current = queue.pop()
            if current in seen:
                continue
            seen.add(current)
            if current.scope is not None and current.scope in inner:
                for write in self._tracer.writes(current.scope, current.name):
                    queue.extend(self._held_by(write, current.path))
        return seen

    def _is_given(self, place: Place) -> bool:
        """Whether a variable is a parameter, and holds what was passed."""
        if place.scope is None or place.scope.kind != "function" or place.is_renewed:
            return False
        return any(isinstance(w, ast.arg) for w in self._tracer.writes(place.scope, place.name))

    def _held_by(self, write: ast.AST, path: Path) -> frozenset[Place]:
        """The places that change with what a variable was given at a place, seen from there."""
        if not isinstance(write, ast.expr):
            return frozenset()
        holder = self.program.parent(write)
        if isinstance(holder, ast.NamedExpr):
            return self.within(holder.value, path)
        if isinstance(holder, (ast.For, ast.AsyncFor, ast.comprehension)):
            return self.within(holder.iter, ("[]", *path))
        value = self._tracer.assigned(write)
        if value is not None:
            return self.within(value, path)
        statement = self.program.statement(write)
        if isinstance(statement, (ast.For, ast.AsyncFor)) and self.program.inside(write, statement.target):
            return self.within(statement.iter, ("[]", *path))
        if isinstance(statement, ast.Assign):
            return self.within(statement.value, ("[]", *path))
        return frozenset()

    def within(self, node: ast.expr, path: Path) -> frozenset[Place]:
        """The places that change when a part of what an expression gives is changed; none if it was just made."""
        path = path[:_LONGEST]
        if isinstance(node, ast.Name):
            return self._of_name(node, path)
        if isinstance(node, ast.Attribute):
            return self._of_attribute(node, path)
        if isinstance(node, ast.Subscript):
            return self.within(node.value, ("[]", *path))
        if isinstance(node, (ast.NamedExpr, ast.Await, ast.Starred)):
            return self.within(node.value, path)
        if isinstance(node, ast.IfExp):
            return self.within(node.body, path) | self.within(node.orelse, path)
        if isinstance(node, ast.BoolOp):
            return _all(self.within(v, path) for v in node.values)
        if isinstance(node, ast.Call):
            return self._of_result(node, path)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return self._of_items(node.elts, path)
        if isinstance(node, ast.Dict):
            return self._of_items(node.values, path)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return self._of_items([node.elt], path)
        return self._of_items([node.value], path) if isinstance(node, ast.DictComp) else frozenset()

    def _of_items(self, items: Iterable[ast.expr], path: Path) -> frozenset[Place]:
        """The places in what a new container holds; a change of the container itself is nobody else's."""
        if len(path) < 2 or path[0] != "[]":
            return frozenset()
        return _all(self.within(item, path[1:]) for item in items)

    def _of_name(self, node: ast.Name, path: Path) -> frozenset[Place]:
        for value in self.program.values(node):
            scope = (
                value.root if isinstance(value, ModuleValue) else value.scope if isinstance(value, ClassValue) else None
            )
            if scope is not None and path and path[0].startswith("."):
                return frozenset({Place(scope, path[0][1:], path[1:])})
        owner = self.program.scope(node).owner(node.id)
        if node not in self._replaced:
            self._replaced[node] = self._given_instead(node, owner)
        given = self._replaced[node]
        if given is None or node in self._renamed:
            self._unfinished += node in self._renamed
            return frozenset({Place(owner, node.id, path)} if given is None else ())
        self._renamed.add(node)
        found = _all(self._held_by(write, path) for write in given)
        self._renamed.discard(node)
        return found | {Place(owner, node.id, path, is_renewed=True)} if path else found

    def _given_instead(self, node: ast.Name, owner: Scope | None) -> list[ast.AST] | None:
        """Where a parameter has got another value by then: `x = x.clone()`; None where it may hold what was passed."""
        if owner is None or len(owner.writes_of(node.id)) < 2 or owner is not self.program.frame(node):
            return None
        if not any(isinstance(write, ast.arg) for write in owner.writes_of(node.id)):
            return None
        reaching = [definition.node for definition in self.program.definitions(node).definitions(node)]
        return None if not reaching or any(isinstance(n, ast.arg) for n in reaching) else reaching

    def _of_attribute(self, node: ast.Attribute, path: Path) -> frozenset[Place]:
        if self.kinds.of(node) <= IMMUTABLE:
            return frozenset()
        for value in self.program.values(node.value):
            if isinstance(value, (ModuleValue, ClassValue)):
                scope = value.root if isinstance(value, ModuleValue) else value.scope
                return frozenset({Place(scope, node.attr, path)})
        return self.within(node.value, (f".{node.attr}", *path))

    def _of_result(self, call: ast.Call, path: Path) -> frozenset[Place]:
        """The places in the arguments, or elsewhere, that change with what a call has returned."""
        found = self._results.get((call, path))
        if found is None:
            before = self._unfinished
            found = self._traced(call, path)
            if self._unfinished == before:
                self._results[call, path] = found
        return found

    def _traced(self, call: ast.Call, path: Path) -> frozenset[Place]:
        callees = self.flow.callees.get(call)
        if callees:
            is_made = any(isinstance(v, ClassValue) for v in self.program.values(call.func))
            return frozenset() if is_made else _all(self._of_returned(call, c, path) for c in callees)
        every = [*call.args, *(k.value for k in call.keywords)]
        rows = self.kinds.called(call)
        method = self.kinds.method(call)
        if rows is None:
            owner = [method.value] if method is not None else []
            return _all(self.within(a, path) for a in [*owner, *every])
        found: set[Place] = set()
        for row in rows:
            found |= self._of_row_result(row, method, every, path)
        return frozenset(found)

    def _of_row_result(
        self, row: Row, method: ast.Attribute | None, given: list[ast.expr], path: Path
    ) -> frozenset[Place]:
        first = [method.value] if method is not None else given[:1]
        if row.has(Trait.COPIES) and len(path) < 2:
            return frozenset()
        if row.returns == "self" or (row.returns == "argument" and method is None) or row.has(Trait.VIEW):
            return _all(self.within(a, path) for a in first)
        if row.returns == "argument":
            return _all(self.within(a, path) for a in given)
        if row.keeps:
            return self._of_items(given, ("[]", *path[-1:]))
        if row.role in (Role.ITERATION, Role.PROGRESS):
            return self._of_items(given, path) if len(path) < 2 else _all(self.within(a, path) for a in given)
        if row.returns is None:
            return _all(self.within(a, ("[]", *path)) for a in [*first, *given])
        if len(path) < 2 or row.returns in IMMUTABLE or not self._is_of_container(row, method):
            return frozenset()  # what the call made: `next(model.parameters())` changes no model
        return _all(self.within(a, ("[]", *path)) for a in [*first, *given])

    def _is_of_container(self, row: Row, method: ast.Attribute | None) -> bool:
        """Whether a method's object holds others: by its kind, else by the kinds that have this row."""
        if method is None:
            return False
        held = self.kinds.of(method.value)
        if any(table.is_kind(kind, of) for kind in held for of in _CONTAINERS):
            return True
        return UNKNOWN in held and any(table.member(of, method.attr) == row for of in _CONTAINERS)

    def _of_returned(self, call: ast.Call, function: Scope, path: Path) -> frozenset[Place]:
        """The places that change with what a function of the project's own returns, as its call sees them."""
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        run = Run(function, call, owner)
        places = self._returned_by(function, path[:_LONGEST])
        return _all(self.given(run, p) if p.scope is function else frozenset({p}) for p in places)

    def _returned_by(self, function: Scope, path: Path) -> frozenset[Place]:
        """The same, in terms of the function's parameters."""
        key = function, path
        self._unfinished += key in self._open
        if key not in self._returned:
            self._returned[key] = frozenset({Place(None, function.name, path)})  # while it is looked at
            self._open.add(key)
            inner = set(function.walk())
            values = (self.within(r, path) for r in self._returns(function))
            self._returned[key] = frozenset(o for places in values for p in places for o in self.origins(p, inner))
            self._open.discard(key)
        return self._returned[key]

    def _returns(self, function: Scope) -> list[ast.expr]:
        if isinstance(function.node, ast.Lambda):
            return [function.node.body]
        if function not in self._returning:
            nodes = (n for s in function.body for n in ast.walk(s))
            given = [n.value for n in nodes if isinstance(n, (ast.Return, ast.Yield))]
            self._returning[function] = [value for value in given if value is not None]
        return self._returning[function]


def _all(places: Iterable[frozenset[Place]]) -> frozenset[Place]:
    return frozenset(p for each in places for p in each)
