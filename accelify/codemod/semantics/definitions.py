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
from collections.abc import Callable, Iterable
from functools import cached_property

from accelify.codemod.semantics.control_flow import ControlFlow
from accelify.codemod.semantics.reaching.events import Collected, Collector
from accelify.codemod.semantics.reaching.objects import Objects, closure
from accelify.codemod.semantics.reaching.solver import Solver
from accelify.codemod.semantics.reaching.variables import Definition, Kind, Names, Variable
from accelify.codemod.semantics.scopes import Bindings, Scope

__all__ = ["Definition", "Definitions", "Kind", "Variable", "arguments"]


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
        owner: Callable[[ast.expr], ast.expr] | None = None,
        seen: Collector | None = None,
    ) -> None:
        self.flow = flow
        self.bindings = bindings
        self._mutates = mutates or (lambda call: ())
        self._runs = runs or (lambda call: None)
        self._held = held or (lambda call, changed: arguments(call))
        self._owner = owner or (lambda changed: changed)
        self._names = Names(flow, bindings) if seen is None else seen.names
        self._given = seen
        self._reaching: dict[ast.expr, frozenset[Definition]] = {}
        self._uses: dict[str, dict[Definition, frozenset[ast.expr]]] = {}

    def changed_by_calls(
        self,
        mutates: Callable[[ast.Call], Iterable[ast.expr]],
        runs: Callable[[ast.Call | None], frozenset[Scope] | None],
        held: Callable[[ast.Call, ast.expr], list[ast.expr]],
        owner: Callable[[ast.expr], ast.expr],
    ) -> Definitions:
        """The same file's definitions, with the changes that `mutates` knows of calls; the file is not read again.

        runs: the functions that a call may run; for None, those that run where no call names them.
        held: the arguments of a call that an object which it changes may hold afterwards.
        owner: what holds an object that is changed, where a method has returned that.
        """
        return Definitions(
            self.flow, self.bindings, mutates=mutates, runs=runs, held=held, owner=owner, seen=self._seen
        )

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
        return self._uses_by_name(definition.variable.name).get(definition, frozenset())

    def _uses_by_name(self, name: str) -> dict[Definition, frozenset[ast.expr]]:
        """What reads each definition that a name or an attribute has."""
        if name not in self._uses:
            found: dict[Definition, set[ast.expr]] = {}
            for read in self._reads_by_name.get(name, ()):
                for definition in self.definitions(read):
                    found.setdefault(definition, set()).add(read)
            self._uses[name] = {definition: frozenset(reads) for definition, reads in found.items()}
        return self._uses[name]

    def all_of(self, variable: Variable) -> tuple[Definition, ...]:
        """Every definition of a variable in this file, in the order of the text."""
        return tuple(self._collected.of_name(variable))

    def kept(self, function: Scope, by_calls: Iterable[tuple[ast.expr, ast.expr]]) -> frozenset[tuple[str, str]]:
        """Which parameter's object may hold that of which other once a function has run: (held, holder).

        by_calls: the same of the arguments of its calls.
        """
        objects = Objects(self._names)
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
            holders = (self._parameter(each, function, named) for each in closure([variable], objects.outer))
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
    def _seen(self) -> Collector:
        if self._given is not None:
            return self._given
        collector = Collector(self.flow, self._names)
        for scope in self.bindings.root.walk():
            if scope.kind in ("module", "function", "lambda"):
                collector.add_frame(scope.node)
        return collector

    @cached_property
    def _collected(self) -> Collected:
        return self._seen.with_changes(self._mutates, self._held, self._owner)

    @cached_property
    def _solver(self) -> Solver:
        return Solver(self.flow, self._names, self._collected, self._runs)

    @cached_property
    def _reads_by_name(self) -> dict[str, list[ast.expr]]:
        found: dict[str, list[ast.expr]] = {}
        for read in self._collected.reads:
            found.setdefault(read.id if isinstance(read, ast.Name) else read.attr, []).append(read)
        return found


def arguments(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call."""
    return [*call.args, *(k.value for k in call.keywords)]
