"""Which values are the same on all ranks, and which are one rank's own?

A value is a rank's own if it comes from its shard of the data, its random draws, its number, its clock, its simulation
or a signal that it gets, however it got there: through variables, attributes, containers, functions and conditions.
What an unknown function gives is as its arguments are. Counts of a shard's rows and steps are the same on all ranks,
but are no counts of the whole: they have marks of their own. Each value carries its origins: the loop whose batches it
is computed from, or the place where a running value is updated from round to round.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from accelify.codemod.libraries import names, table
from accelify.codemod.libraries.row import Effect, Role, Row, Rows, Same, Trait
from accelify.codemod.metrics.ranks.drawn import Draws
from accelify.codemod.metrics.ranks.labels import (
    NONE,
    Given,
    Label,
    Labels,
    Mark,
    Origin,
    Rank,
    bounded,
    given_in,
    into_part,
    is_draw,
    part_of,
    put_at,
    uncovered,
    updated,
    without_place,
)
from accelify.codemod.metrics.ranks.running import Running
from accelify.codemod.metrics.ranks.shards import Loop, Shards
from accelify.codemod.metrics.ranks.waiting import Waiting
from accelify.codemod.metrics.sinks import leaves
from accelify.codemod.metrics.updates import Renewals
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where
from accelify.codemod.semantics.definitions import Definition, Kind, Variable
from accelify.codemod.semantics.effects.kinds import UNKNOWN
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import ClassValue, FunctionValue, Instance, ModuleValue, View

_SEVERAL = worlds_where(Process.MAIN) | worlds_where(Process.OTHER)


_STAYS = frozenset({Mark.RUNNING, Mark.CLOCK, Mark.SIGNAL})  # in what such a value decides about


_SAME = Rank()


@dataclass(frozen=True, slots=True)
class _Returned:
    """The result of a function, or one part of the tuple that it returns."""

    scope: Scope
    position: int | None


@dataclass(frozen=True, slots=True)
class _Filled:
    """The values that a function puts into an object that it is given."""

    scope: Scope
    name: str


@dataclass(frozen=True, slots=True)
class _Argument:
    """The values that the calls of a function pass for a parameter."""

    scope: Scope
    name: str


@dataclass(frozen=True, slots=True)
class _OwnArgument:
    """The values that calls of a method by its own object, or of a model's method, pass for a parameter."""

    scope: Scope
    name: str


@dataclass(frozen=True, slots=True)
class _Outside:
    """What an attribute's definition gives, for functions other than its own: it has no parameters of that one."""

    definition: Definition


@dataclass(frozen=True, slots=True)
class _Joined:
    """What any of the definitions of an attribute gives. Reads of one attribute share it, so each costs one step."""

    definitions: frozenset[_Outside]


@dataclass(frozen=True, slots=True)
class _Decided:
    """What a test decides about: a branch, or whether a loop goes on. All that stands in there shares it."""

    test: ast.expr
    about: ast.AST


@dataclass(frozen=True, slots=True)
class _Rounds:
    """How many rounds a loop within a training step has."""

    loop: ast.AST


_Key = Definition | _Returned | _Filled | _Argument | _OwnArgument | _Outside | _Joined | _Decided | _Rounds


class Ranks:
    """Work out the rank of expressions, each fact when it is first asked for."""

    def __init__(
        self,
        chains: Chains,
        shards: Shards,
        settled: Callable[[Ranks, Definition, ast.AST], bool] = lambda ranks, definition, read: False,
    ) -> None:
        self.chains = chains
        self.program: Program = chains.program
        self.shards = replace(shards, is_alike=cache(shards.is_alike))
        self.loops = set(shards.loops)
        self.running = Running(chains, self.shards)
        self.rounds = self.running.rounds
        self.draws = Draws(chains, self.shards, self.running)
        self.settled = settled
        # These are asked the same again and again.
        self._changes_in, self._results_of = cache(self._find_changes), cache(self._find_results)
        self._seen_at, self._deciding = cache(self._find_seen), cache(self._find_deciding)
        self._part, self._given_in = cache(part_of), cache(given_in)
        self._at, self._updated, self._without_place = cache(put_at), cache(updated), cache(without_place)
        self._renewals = Renewals(chains)
        self._labels: dict[Label, Label] = {}
        self._known: dict[_Key, Labels] = {}
        self._readers: dict[_Key, dict[_Key, None]] = {}
        self._waiting = Waiting[_Key]()
        self._current: _Key | None = None
        self._left_by: dict[tuple[ast.AST, type[ast.stmt]], list[ast.If]] = {}
        self._answers: dict[tuple[str, object], frozenset[Origin]] = {}  # final: what is solved grows no more

    def of(self, node: ast.expr) -> Rank:
        """The rank of an expression, where callers of its function are known of the join of their arguments."""
        return Rank(self._origins(("of", node), lambda: self._resolved(self._of(node))))

    def is_own(self, node: ast.expr) -> bool:
        """Whether an expression may have another value on each rank."""
        return bool(self.rounds or self.shards.draws) and self.of(node).is_own

    def length_of(self, node: ast.expr) -> Rank:
        """The rank of how many items an expression yields."""
        inner = self.chains.tracer.inside(node)
        found = self.chains.definitions(inner) if isinstance(inner, ast.Name) else ()
        listed = [self.program.assigned(d.node)[0] for d in found] or [inner]
        if all(isinstance(e, (ast.List, ast.Tuple)) and not any(map(_is_starred, e.elts)) for e in listed):
            return _SAME
        return Rank(self._origins(("length", node), lambda: self._counted(self._resolved(self._of(node)), node)))

    def given_by(self, definition: Definition) -> Rank:
        """The rank of what a definition gives its variable, or puts into its object."""
        return Rank(self._origins(("given", definition), lambda: self._resolved(self._get(definition))))

    def added_by(self, definition: Definition) -> Rank:
        """The rank of what a definition adds to a running value in one round, or puts into it."""
        return Rank(self._origins(("added", definition), lambda: self._resolved(self._given_by(definition))))

    def sets_own(self, statement: ast.Assign | ast.AugAssign) -> bool:
        """Whether an assignment may set another value on each rank, or not on all of them."""
        defined = (d for n in ast.walk(statement) for d in self.chains.facts(statement).at(n))
        return any(self.given_by(definition).is_own for definition in defined)

    def parts_of(self, node: ast.expr, at: str | None = None) -> tuple[Rank, list[Given]]:
        """The rank of an expression, or of a part of its object, apart from what callers give to its function."""
        labels = self._solved(lambda: self._part(self._of(node), at))
        own = Rank(frozenset(la for la in labels if isinstance(la, Origin)))
        given = {la for la in labels if isinstance(la, Given)}
        return own, sorted(given, key=lambda g: (g.scope.qualified_name, g.name, g.at or ""))

    # The solver: facts that depend on each other, again until none of them grows.

    def _origins(self, asked: tuple[str, object], question: Callable[[], Labels]) -> frozenset[Origin]:
        """The origins among the labels that answer a question, which is worked out once."""
        if asked not in self._answers:
            self._answers[asked] = frozenset(la for la in self._solved(question) if isinstance(la, Origin))
        return self._answers[asked]

    def _solved(self, question: Callable[[], Labels]) -> Labels:
        found = question()
        while self._waiting:
            self._solve()
            found = question()
        return found

    def _solve(self) -> None:
        while self._waiting:
            key = self._waiting.pop()
            self._current = key
            known = self._known[key]
            new = uncovered(self._worked_out(key) - known, known)
            self._current = None
            if new:  # equal labels are one object: those are quick to compare
                added = frozenset(self._labels.setdefault(label, label) for label in new)
                self._known[key] = bounded(known | added)
                for reader in self._readers.get(key, ()):
                    self._waiting.add(reader)

    def _get(self, key: _Key) -> Labels:
        if self._current is not None:
            self._readers.setdefault(key, {})[self._current] = None
        if key not in self._known:
            self._known[key] = NONE
            self._waiting.add(key)
        return self._known[key]

    def _worked_out(self, key: _Key) -> Labels:
        if isinstance(key, Definition):
            return self._defined(key)
        if isinstance(key, _Returned):
            return self._of_returned(key)
        if isinstance(key, _Filled):
            return self._of_filled(key)
        if isinstance(key, _OwnArgument):
            return self._of_own_argument(key)
        if isinstance(key, _Outside):
            return self._of_outside(key)
        if isinstance(key, _Joined):
            return NONE.union(*map(self._get, key.definitions))
        if isinstance(key, _Decided):
            return self._chosen(self._of(key.test), key.about)
        if isinstance(key, _Rounds):
            return self._how_often(key.loop)
        return self._of_argument(key)

    # Definitions.

    def _defined(self, definition: Definition) -> Labels:
        """The labels of a definition's value, with those of the conditions that decide whether it is reached."""
        if self.running.is_of_a_number(definition):
            return NONE
        labels = self._given_by(definition)
        if definition.kind not in (Kind.PARAMETER, Kind.FUNCTION, Kind.CLASS, Kind.IMPORT):
            labels |= self._control(definition.node)
            if self.running.is_of_others(definition):
                labels = self._resolved(labels)
            loop = self.running.loop_in(definition)
            if loop is not None:
                anew = self._set_anew(labels, definition, loop)
                running = self._made_running((labels - anew) | self._rows_round(definition.node), definition.node, loop)
                labels = anew | running
            if self._function(definition.node) in self._run_by_signals:
                labels |= {Origin(Mark.SIGNAL, definition.node)}
        parts = self._changed_parts(definition) if labels and definition.kind is Kind.IN_PLACE else {None}
        return labels if None in parts else frozenset().union(*(self._at(labels, part) for part in parts))

    def _set_anew(self, labels: Labels, definition: Definition, loop: Loop) -> Labels:
        """The labels of those attributes of an object that a method sets anew in each round: nothing is left of one."""
        call = definition.node
        if definition.kind is not Kind.IN_PLACE or not isinstance(call, ast.Call):
            return NONE
        # One that is worked out from a running value is a running value.
        placed = (la for la in labels if not (isinstance(la, Origin) and la.mark is Mark.RUNNING))
        places = {la: la.at if isinstance(la, Origin) else la.into for la in placed}
        return frozenset(la for la, at in places.items() if at is not None and self._renewals.are_set(call, at, loop))

    @cached_property
    def _run_by_signals(self) -> frozenset[Scope]:
        """The functions that run when a signal comes, and those that only these call."""
        calls = (c for c in self.program.calls if self._handles_signals(c))
        held = (v for c in calls for a in [*c.args, *(k.value for k in c.keywords)] for v in self.program.values(a))
        found = {v.scope for v in held if isinstance(v, FunctionValue)}
        for function in sorted(self.program.run_from(found) - found, key=lambda f: f.qualified_name):
            callers = {self._function(call) for call in self.program.calls_of(function)}
            found |= {function} if callers <= found else set()
        return frozenset(found)

    def _handles_signals(self, call: ast.Call) -> bool:
        return any(row.has(Trait.HANDLES_SIGNALS) for row in self.chains.kinds.called(call) or ())

    def _function(self, node: ast.AST) -> Scope:
        """The function or lambda that runs a node, or the module."""
        scope = self.program.scope(node)
        while scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        return scope

    def _rows_round(self, node: ast.AST) -> Labels:
        """What says how many rows the loops within a training step go over: `for i in range(len(y)): n += 1`."""
        loops = self.program.loops_round(node)
        inner = itertools.takewhile(lambda loop: loop not in self.rounds, loops if self.rounds & set(loops) else ())
        labels = (self._counted(self._of(n.iter), n.iter) for n in inner if isinstance(n, (ast.For, ast.AsyncFor)))
        return frozenset(la for each in labels for la in each if isinstance(la, Origin) and la.mark is Mark.ROWS)

    def _made_running(self, labels: Labels, node: ast.AST, loop: Loop) -> Labels:
        """The labels of a value that is updated in each round; what is measured in time stays that."""
        clocks = frozenset(la for la in labels if isinstance(la, Origin) and la.mark is Mark.CLOCK)
        if clocks:
            return clocks
        updated = self._updated(labels, node)
        counts = not self._is_unknown_at_times(node, loop)
        return updated | {Origin(Mark.STEPS, loop, differs=False)} if counts else updated

    def _is_unknown_at_times(self, node: ast.AST, loop: Loop) -> bool:
        """Whether a call, of which nothing is known, runs in some rounds only: `if i % 9 == 0: pipe.save("p")`."""
        if not isinstance(node, ast.Call) or not self.chains.is_unknown(node):
            return False
        return any(self.program.inside(branching, loop) for branching, _ in self.program.branches_round(node))

    def _given_by(self, definition: Definition) -> Labels:
        kind, node = definition.kind, definition.node
        if kind is Kind.PARAMETER and definition.variable.scope is not None:
            return frozenset({Given(definition.variable.scope, definition.variable.name)})
        if kind is Kind.IMPORT:
            return self._imported(node)
        if kind is Kind.LOOP:
            return self._looped(node)
        if kind is Kind.AUGMENTED:
            parent = self.program.parent(node)
            assert isinstance(parent, ast.AugAssign)
            assert isinstance(node, ast.expr)
            return self._read(node) | self._of(parent.value)
        if kind is Kind.IN_PLACE:
            return NONE if self.running.keeps_values(node, definition.variable) else self._put(definition)
        if kind is Kind.WITH:
            item = next(a for a in self.program.ancestors(node) if isinstance(a, ast.withitem))
            return self._of(item.context_expr)
        if kind is Kind.PATTERN:
            match = next((a for a in self.program.ancestors(node) if isinstance(a, ast.Match)), None)
            return NONE if match is None else self._of(match.subject)
        if kind is Kind.ASSIGNMENT:
            return self._of_part(*self.program.assigned(node))
        return NONE

    def _of_part(self, value: ast.expr | None, path: tuple[int, ...]) -> Labels:
        """The labels of one part of what an expression gives."""
        if value is None:
            return NONE
        if path and isinstance(value, (ast.Tuple, ast.List)):
            is_plain = path[0] < len(value.elts) and not any(isinstance(e, ast.Starred) for e in value.elts)
            return self._of_part(value.elts[path[0]], path[1:]) if is_plain else self._of(value)
        if path and isinstance(value, ast.Call) and self.program.flow.callees.get(value):
            return self._called(value, path[0])
        return self._of(value) if (item := self._of_item(value, path)) is None else item

    def _of_item(self, value: ast.expr, path: tuple[int, ...]) -> Labels | None:
        """The labels of one part of what a loop is given in each round: of `i` in `for pair in loader: i, x = pair`."""
        definitions = self.chains.definitions(value) if path and isinstance(value, ast.Name) else ()
        given = [self.program.binding(d.node) for d in definitions if d.kind is Kind.LOOP]
        if len(given) != 1 or len(definitions) != 1:
            return None
        before, holder = given[0]
        assert isinstance(holder, (ast.For, ast.AsyncFor, ast.comprehension))
        return self._item(holder.iter, (*before, *path), holder)

    def _looped(self, node: ast.AST) -> Labels:
        """The labels of a variable of a loop or of a comprehension."""
        path, holder = self.program.binding(node)
        assert isinstance(holder, (ast.For, ast.AsyncFor, ast.comprehension))
        return self._item(holder.iter, path, holder)

    def _item(self, source: ast.expr, path: tuple[int, ...], holder: ast.AST) -> Labels:
        """The labels of the elements that iterating over an expression yields, or of one part of them."""
        called = self.program.called(source) if isinstance(source, ast.Call) else set()
        if isinstance(source, ast.Call) and source.args and path:
            if "enumerate" in called and path[0] == 0:
                return frozenset({Origin(Mark.STEPS, holder, differs=False)}) if holder in self.loops else NONE
            if "enumerate" in called:
                return self._item(source.args[0], path[1:], holder)
            if "zip" in called and path[0] < len(source.args):
                part = source.args[path[0]]
                if holder not in self.loops:
                    return self._item(part, path[1:], holder)
                if self.chains.tracer.is_counter(part):
                    return frozenset({Origin(Mark.STEPS, holder, differs=False)})
                if self.chains.kinds.of(part) == {"loader"} and not self.shards.is_loader(part):
                    return self._of(part)  # a loader that gives every rank all of its data
            if self.chains.tracer.is_progress(source):
                return self._item(source.args[0], path, holder)
        if holder in self.loops:
            is_number = holder not in self.shards.sequences and self.chains.tracer.numbers(source, path)
            return frozenset({Origin(Mark.STEPS, holder, differs=False) if is_number else Origin(Mark.BATCH, holder)})
        if isinstance(holder, ast.comprehension) and self.shards.is_loader(source):
            return frozenset({Origin(Mark.BATCH, holder)})
        return self._of(source) | self.draws.item(source, holder)

    def _imported(self, node: ast.AST) -> Labels:
        """The labels of a variable of another module."""
        statement = self.program.statement(node)
        if not isinstance(statement, ast.ImportFrom) or not isinstance(node, ast.alias):
            return NONE
        flow = self.program.flow
        root = flow.module_named(self.program.path(node), statement.module or "", statement.level)
        return NONE if root is None else self._of_global(root, node.name)

    def _of_global(self, root: Scope, name: str) -> Labels:
        found = NONE
        for definition in self.chains.facts(root.node).all_of(Variable(root, name)):
            found |= self._get(definition)
        return self._resolved(found)

    # Changes of objects in place.

    def _put(self, definition: Definition) -> Labels:
        """The labels of the values that a change in place puts into an object."""
        node = definition.node
        if isinstance(node, ast.Call):
            return self._put_by_call(node, definition.variable)
        if isinstance(node, ast.Subscript):
            labels = self._of_part(*self.program.assigned(node)) | self._chosen(self._of(node.slice), node)
            return self._at(labels, self._place(node, definition.variable))
        if isinstance(node, ast.Attribute):
            return self._at(self._of_part(*self.program.assigned(node)), self._place(node, definition.variable))
        return self._of_part(*self.program.assigned(node))

    def _changed_parts(self, definition: Definition) -> set[str | None]:
        """The parts of a variable's object that a change in place is in: `log` of `agent.log.append(x)`; None for all.

        Of an object that a function fills, the attributes that it changes: `log` of `agent.record(x)`.
        """
        node, variable = definition.node, definition.variable
        changed = self.chains.changed_by(node) if isinstance(node, ast.Call) else [node]
        filled = set(self._filled_parts(node, variable)) if isinstance(node, ast.Call) else set()
        return filled or {self._place(each, variable) for each in changed if isinstance(each, ast.expr)}

    def _filled_parts(self, call: ast.Call, variable: Variable) -> Iterator[str | None]:
        for callee in self.program.flow.callees.get(call, ()):
            for place in self.chains.effects.of_function(callee).writes:
                given = self.chains.given(call, callee, place.name) if place.scope is callee and place.path else None
                if given is not None and self.running.variable_of(given) == variable:
                    yield place.path[0].removeprefix(".") if place.path[0].startswith(".") else None
                elif given is not None:
                    yield self._place(given, variable)

    def _place(self, node: ast.expr, variable: Variable) -> str | None:
        """The part of a variable's object that an expression stands for: `loss` of `state.loss`, of `log["loss"]`."""
        part: str | None = None
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
            if isinstance(node, ast.Attribute):
                if self.chains.variable(node) == variable:
                    return part
                part = node.attr
            elif isinstance(node, ast.Subscript):
                key = node.slice
                part = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
            node = node.value
        return part if isinstance(node, ast.Name) and self.chains.variable(node) == variable else None

    def _put_by_call(self, call: ast.Call, variable: Variable) -> Labels:
        found = NONE
        callees = self.program.flow.callees.get(call, set())
        for callee in callees:
            for name in self.chains.filled_parameters(callee):
                given = self.chains.given(call, callee, name)
                if given is None:
                    continue
                labels = self._for_call(self._get(_Filled(callee, name)), call, callee)
                place = self._place(given, variable)
                is_it = self.running.variable_of(given) == variable
                found |= labels if is_it else self._at(self._without_place(labels), place)
        if callees or any(map(leaves, self.chains.kinds.called(call) or ())):
            return found
        match call.args:
            case [_, ast.Constant(value=str(attribute)), value] if "setattr" in self.program.called(call):
                return self._at(self._without_place(self._of(value)), attribute)
        labels = self._of_arguments(call)
        for changed in self.chains.changed_by(call):
            if not self.shards.is_alike(changed):  # `scaler.scale(loss)` leaves nothing of the loss behind
                found |= self._at(self._without_place(labels), self._place(changed, variable))
        return found

    def _of_filled(self, key: _Filled) -> Labels:
        """The labels of the values that a function puts into the object that one of its parameters holds."""
        found = NONE
        is_self = key.scope.is_method and key.scope.parameters[:1] and key.scope.parameters[0].arg == key.name
        for node, definitions in self._changes_in(key.scope):
            for definition in definitions:
                variable = definition.variable
                if self.settled(self, definition, key.scope.node):
                    continue  # before the function is over
                if is_self and variable.is_attribute and variable.scope is not None:
                    if definition.kind in (Kind.ASSIGNMENT, Kind.AUGMENTED, Kind.IN_PLACE):
                        found |= self._at(self._without_place(self._get(definition)), variable.name)
                elif variable == Variable(key.scope, key.name) and definition.kind in (Kind.IN_PLACE, Kind.AUGMENTED):
                    found |= self._get(definition)
            if is_self and isinstance(node, ast.Call):
                found |= self._filled_by_own_call(node, key)
        return found - {label for label in found if isinstance(label, Given) and label.name == key.name}

    def _find_changes(self, function: Scope) -> list[tuple[ast.AST, Sequence[Definition]]]:
        """The definitions of a function by their nodes, and its calls."""
        facts = self.chains.facts(function.node)
        nodes = ((n, facts.at(n)) for s in function.body for n in ast.walk(s))
        return [(n, definitions) for n, definitions in nodes if definitions or isinstance(n, ast.Call)]

    def _filled_by_own_call(self, call: ast.Call, key: _Filled) -> Labels:
        """The labels of the values that `self.other(x)` puts into `self`."""
        found = NONE
        for callee in self.program.flow.callees.get(call, set()):
            for name in self.chains.filled_parameters(callee):
                given = self.chains.given(call, callee, name)
                if isinstance(given, ast.Name) and given.id == key.name:
                    found |= self._for_call(self._get(_Filled(callee, name)), call, callee)
        return found

    # Functions.

    def _of_returned(self, key: _Returned) -> Labels:
        found = NONE
        if key.scope.kind == "lambda":
            assert isinstance(key.scope.node, ast.Lambda)
            return self._of(key.scope.node.body)
        for node in self._results_of(key.scope):
            path = () if key.position is None or not isinstance(node, ast.Return) else (key.position,)
            labels = self._of_part(node.value, path) | self._control(node)
            found |= labels if labels and self._is_for_several(node) else NONE
        return found

    def _find_results(self, function: Scope) -> list[ast.Return | ast.Yield | ast.YieldFrom]:
        """Where a function gives its callers a value."""
        given = (n for n in self._own_nodes(function) if isinstance(n, (ast.Return, ast.Yield, ast.YieldFrom)))
        return [n for n in given if n.value is not None]

    def _is_for_several(self, node: ast.AST) -> bool:
        """Whether a place of a function may be reached where there are several processes."""
        conditions = self.program.once(Conditions)
        return not all(conditions.is_dead(node, world) for world in _SEVERAL)

    def _own_nodes(self, scope: Scope) -> Iterator[ast.AST]:
        queue: list[ast.AST] = [*scope.body]
        while queue:
            node = queue.pop()
            yield node
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                queue.extend(ast.iter_child_nodes(node))

    def _of_argument(self, key: _Argument) -> Labels:
        """The labels of the values that all known calls pass for a parameter."""
        found = NONE
        for call in self.program.calls_of(key.scope):
            given = self.chains.given(call, key.scope, key.name)
            labels = self._resolved(self._passed(call, key.scope, key.name))
            found |= self._without_count(labels) if given is not None and self._is_object(given) else labels
        return found

    def _passed(self, call: ast.Call, callee: Scope, name: str) -> Labels:
        """The labels of what a call passes for a parameter."""
        given = self.chains.given(call, callee, name)
        return self._of(given) if given is not None else self._without_place(self._all(self.chains.unnamed(call)))

    def _resolved(self, labels: Labels) -> Labels:
        """Labels with what callers give in place of parameters."""
        if not self._given_in(labels):
            return labels
        given = self._given_in(labels)
        return labels - given | self._filled_in(given, lambda scope, name: self._get(_Argument(scope, name)))

    def _filled_in(self, given: Iterable[Given], passed: Callable[[Scope, str], Labels]) -> Labels:
        """The labels of what parameters, or parts of them, stand for where arguments have some labels.

        Thousands of labels differ in the place alone that they are put into, so what goes there is worked out once.
        """
        places: dict[str | None, set[Given]] = {}
        for la in given:
            places.setdefault(la.into, set()).add(la if la.into is None else into_part(la, None))
        arguments: dict[tuple[Scope, str], Labels] = {}
        put: dict[Given, Labels] = {}
        for la in set().union(*places.values()):
            at = (la.scope, la.name)
            if at not in arguments:
                arguments[at] = passed(*at)
            part = self._part(arguments[at], la.at)
            put[la] = part if la.update is None else self._updated(part, la.update)
        found: set[Label] = set()
        together: dict[frozenset[Given], Labels] = {}
        for into, params in places.items():
            each = frozenset(params)
            if each not in together:
                together[each] = NONE.union(*map(put.__getitem__, each))
            labels = together[each]
            found |= labels if into is None else self._at(self._without_place(labels), into)
        return frozenset(found)

    def _for_call(self, labels: Labels, call: ast.Call, callee: Scope) -> Labels:
        """The labels of a function's value for one call; outside of the sharded loops, all ranks draw alike."""
        if not self.shards.draws and any(is_draw(la) for la in labels) and not self.draws.is_in_a_round(call):
            labels = frozenset(la for la in labels if not is_draw(la))
        if not self._given_in(labels):
            return labels
        given = {label for label in self._given_in(labels) if label.scope is callee}
        passed = {name: self._passed(call, callee, name) for name in sorted({label.name for label in given})}
        return labels - given | self._filled_in(given, lambda _, name: passed[name])

    # Conditions.

    def _control(self, node: ast.AST) -> Labels:
        """The labels of the conditions that decide, in its function, whether a node is run."""
        return NONE.union(*map(self._get, self._deciding(node)))

    def _find_deciding(self, node: ast.AST) -> list[_Decided | _Rounds]:
        """What decides, in its function, whether and how often a node is run."""
        found: list[_Decided | _Rounds] = [_Decided(b.test, b) for b, _ in self.program.branches_round(node)]
        loops = self.program.loops_round(node)
        for at, loop in enumerate(loops):
            if isinstance(loop, ast.While):
                found.append(_Decided(loop.test, loop))
            found += [_Decided(test.test, test) for test in self._leaving(loop, ast.Continue)]
            if loop not in self.rounds and not self.rounds.isdisjoint(loops[at:]):
                found.append(_Rounds(loop))
        return found

    def _how_often(self, loop: ast.AST) -> Labels:
        """The labels of what decides how many rounds a loop within a training step has."""
        found = NONE
        if isinstance(loop, (ast.For, ast.AsyncFor)):
            found |= self._chosen(self._counted(self._of(loop.iter), loop.iter), loop)
        for test in self._leaving(loop, ast.Break):
            found |= self._chosen(self._of(test.test), test)
        return found

    def leaving(self, loop: ast.AST) -> list[ast.If]:
        """The conditions under which a round of a loop, or the loop, ends early."""
        return [*self._leaving(loop, ast.Continue), *self._leaving(loop, ast.Break)]

    def _leaving(self, loop: ast.AST, how: type[ast.Break | ast.Continue]) -> list[ast.If]:
        """The conditions under which a round, or its loop, ends early."""
        if (loop, how) not in self._left_by:
            leaving = (n for n in ast.walk(loop) if isinstance(n, how))
            own = (n for n in leaving if self.program.loops_round(n)[0] is loop)
            tests = (a for n in own for a in self.program.ancestors(n) if isinstance(a, ast.If))
            self._left_by[loop, how] = [t for t in tests if self.program.inside(t, loop)]
        return self._left_by[loop, how]

    @staticmethod
    def _chosen(labels: Labels, node: ast.AST) -> Labels:
        """The labels of what a value decides about."""
        if not labels:
            return labels
        kept = {la for la in labels if isinstance(la, Given) or (la.differs and la.mark in _STAYS)}
        others = {la for la in labels if isinstance(la, Origin) and la.differs and la not in kept}
        if others:
            kept.add(Origin(Mark.PICKED if all(map(is_draw, others)) else Mark.CHOSEN, node))
        return frozenset(kept)

    # Expressions.

    def _of(self, node: ast.expr) -> Labels:
        if isinstance(node, ast.Constant) or self.shards.is_alike(node):
            return NONE
        if isinstance(node, (ast.Name, ast.Attribute)):
            labels = self._read(node) if isinstance(node, ast.Name) else self._attribute(node)
            return self._without_count(labels) if labels and self._is_object(node) else labels
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Call):
            return self._without_stamp(self._called(node, None), node)
        if isinstance(node, ast.IfExp):
            return self._of(node.body) | self._of(node.orelse) | self._chosen(self._of(node.test), node)
        if isinstance(node, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            return NONE
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return self._comprehension(node, [node.elt])
        if isinstance(node, ast.DictComp):
            return self._comprehension(node, [node.key, node.value])
        if isinstance(node, ast.Lambda):
            scope = self.program.flow.bindings[self.program.path(node)].made_by.get(node)
            labels = self._get(_Returned(scope, None)) if scope is not None else NONE
            return frozenset(la for la in labels if not isinstance(la, Given) or la.scope is not scope)
        if isinstance(node, ast.Dict):
            return self._displayed(node)
        labels = self._all(n for n in ast.iter_child_nodes(node) if isinstance(n, (ast.expr, ast.keyword)))
        return self._without_stamp(labels, node) if isinstance(node, (ast.BinOp, ast.JoinedStr)) else labels

    def _without_stamp(self, labels: Labels, node: ast.expr) -> Labels:
        """The labels of a value; a text that has the time in it names a file, and decides nothing by the clock."""
        clocks = frozenset(la for la in labels if isinstance(la, Origin) and la.mark is Mark.CLOCK)
        return labels - clocks if clocks and self.chains.kinds.of(node) == {"string"} else labels

    def _is_object(self, node: ast.expr) -> bool:
        """Whether an expression is an object of the project's own, and not all that is put into it is known."""
        return any(isinstance(v, Instance) for v in self.program.values(node)) and not self._is_tracked(node)

    @staticmethod
    def _without_count(labels: Labels) -> Labels:
        """The labels of an object that counts steps somewhere: it is no count itself, nor is each of its parts."""
        return frozenset(la for la in labels if isinstance(la, Given) or la.at is not None or la.mark is not Mark.STEPS)

    def _all(self, nodes: Iterable[ast.AST]) -> Labels:
        found = NONE
        for node in nodes:
            if isinstance(node, ast.keyword):
                node = node.value
            if isinstance(node, ast.expr):
                found |= self._of(node)
        return found

    def _displayed(self, node: ast.Dict) -> Labels:
        """A dict whose items are known by their keys."""
        found = NONE
        for key, value in zip(node.keys, node.values, strict=True):
            labels = self._of(value) | (self._of(key) if key is not None else NONE)
            is_known = isinstance(key, ast.Constant) and isinstance(key.value, str)
            found |= self._at(self._without_place(labels), key.value) if is_known else labels  # type: ignore[union-attr]
        return found

    def _comprehension(self, node: ast.expr, parts: list[ast.expr]) -> Labels:
        found = self._all(parts)
        for generator in getattr(node, "generators", ()):
            for test in generator.ifs:
                found |= self._chosen(self._of(test), node)
        return found

    def _read(self, node: ast.expr) -> Labels:
        """The labels of the definitions that reach a name or an attribute."""
        near, far = self._seen_at(node)
        found: Labels = self._get(far) if far is not None else NONE
        return found.union(*(self._seen_from(node, definition) for definition in near))

    def _find_seen(self, node: ast.expr) -> tuple[list[Definition], _Joined | None]:
        """The definitions that reach a name or an attribute; of the latter, those by other functions are joined."""
        every = (*self.chains.definitions(node), *self._made_in_other_files(node))
        seen, frame = [d for d in every if not self.settled(self, d, node)], self.program.frame(node)
        far = {d for d in seen if d.variable.is_attribute and self.program.frame(d.node) is not frame}
        return [d for d in seen if d not in far], _Joined(frozenset(map(_Outside, far))) if far else None

    def _made_in_other_files(self, node: ast.expr) -> Iterator[Definition]:
        """The definitions of an attribute by methods of a relative of its object's class, or by others, elsewhere."""
        if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Store):
            return
        writes = [w for w in self.program.attribute_writes.get(node.attr, ()) if not self._is_in_file_of(w, node)]
        classes = {v.cls for v in self.program.values(node.value) if isinstance(v, Instance)} if writes else set()
        for write in writes:
            held = (v.cls for v in self.program.values(write.value) if isinstance(v, Instance))
            if any(self.chains.are_relatives(one, other) for one in held for other in classes):
                facts = self.chains.facts(write)
                every = (d for made in facts.at(write) for d in facts.all_of(made.variable))
                yield from (d for d in every if self.program.may_follow(node, d.node))

    def _is_in_file_of(self, node: ast.AST, other: ast.AST) -> bool:
        return self.program.path(node) == self.program.path(other)

    def _seen_from(self, node: ast.expr, definition: Definition) -> Labels:
        """The labels of a definition, in terms of the function that reads it."""
        is_near = self.program.frame(definition.node) is self.program.frame(node)
        if definition.variable.is_attribute and not is_near:
            return self._get(_Outside(definition))
        labels = self._get(definition)
        given = self._given_in(labels)
        if not given or is_near:
            return labels
        outside = frozenset(la for la in given if not self._is_enclosing(la.scope, node))
        return labels - outside | self._resolved(outside)

    def _of_outside(self, key: _Outside) -> Labels:
        labels = self._get(key.definition)
        given = self._given_in(labels)
        return labels - given | self._filled_in(given, lambda scope, name: self._get(_OwnArgument(scope, name)))

    def _is_enclosing(self, scope: Scope, node: ast.AST) -> bool:
        """Whether a node stands in a function inside another, whose parameters it sees."""
        frame: Scope | None = self.program.frame(node)
        while frame is not None and frame is not scope:
            frame = frame.parent
        return frame is scope

    def _of_own_argument(self, key: _OwnArgument) -> Labels:
        """The labels of the values that calls by the object itself, or by a model, pass for a parameter of a method."""
        found = NONE
        for call in self.program.calls_of(key.scope):
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            is_own = isinstance(receiver, ast.Name) and is_self(self.program, receiver)
            if is_own or any(self.shards.is_alike(n) for n in (receiver, call.func) if n is not None):
                found |= self._resolved(self._passed(call, key.scope, key.name))
        return found

    def _attribute(self, node: ast.Attribute) -> Labels:
        base = node.value
        if _says_of_what_sort(node.attr):
            return NONE
        owners = self.program.values(base)
        module = next((v for v in owners if isinstance(v, ModuleValue)), None)
        if module is not None:
            return self._of_global(module.root, node.attr)
        if is_self(self.program, base):
            return self._of_self(node, base)
        labels = self._of_options(base) if self.running.is_options(base) else self._of(base)
        rows = self._rows_of_batch(base, node.attr, labels) or self.chains.kinds.rows(base, node.attr)
        if rows and labels and all(r.has(Trait.SHAPE_ONLY) for r in rows):
            return self._counted(labels, node)
        getter = self._property(owners, node.attr)
        if getter is not None:
            return self._for_receiver(self._get(_Returned(getter, None)), getter, base)
        if self.running.is_options(base) or node.attr in self.program.attribute_writes or self._is_put_anywhere(node):
            found, read = self._part(labels, node.attr), self._read(node)
            is_known = self._is_tracked(base) and not self.shards.is_alike(base)
            signalled = frozenset(la for la in read if isinstance(la, Origin) and la.mark is Mark.SIGNAL)
            return found | signalled if is_known else found | read
        return self._without_place(frozenset(la for la in labels if not self._is_of_another(la, node)))

    def _is_of_another(self, label: Label, node: ast.Attribute) -> bool:
        """Whether a value was put into another attribute than the one that is read; a method may read any of them."""
        parent = self.program.parent(node)
        is_method = isinstance(parent, ast.Call) and parent.func is node
        at = label.into if isinstance(label, Given) else label.at
        return at is not None and at != node.attr and at in self.program.attribute_writes and not is_method

    def _of_options(self, base: ast.expr) -> Labels:
        """The labels of options by their names; a value put into an object that holds options is none."""
        if not isinstance(base, ast.Name):
            return self._of(base)
        found = NONE
        for definition in self.chains.definitions(base):
            names = {n.id for n in ast.walk(definition.node) if isinstance(n, ast.Name)}
            is_theirs = not isinstance(definition.node, ast.Call) or definition.variable.name in names
            if is_theirs and not self.settled(self, definition, base):
                found |= self._seen_from(base, definition)
        return found

    def _is_put_anywhere(self, node: ast.Attribute) -> bool:
        return bool(self.chains.definitions(node))

    def _is_tracked(self, base: ast.expr) -> bool:
        """Whether an object is made where its variable is, so that all that is put into it is known."""
        if not isinstance(base, ast.Name):
            return False
        made = [self.program.assigned(d.node)[0] for d in self.chains.definitions(base) if d.kind is Kind.ASSIGNMENT]
        others = [d for d in self.chains.definitions(base) if d.kind not in (Kind.ASSIGNMENT, Kind.IN_PLACE)]
        return bool(made) and not others and all(self._makes(value) for value in made)

    def _makes(self, value: ast.expr | None) -> bool:
        return isinstance(value, ast.Call) and any(isinstance(v, ClassValue) for v in self.program.values(value.func))

    def _of_self(self, node: ast.Attribute, base: ast.expr) -> Labels:
        """An attribute of the object whose method reads it."""
        getter = self._property(self.program.values(base), node.attr)
        if getter is not None:
            return self._for_receiver(self._get(_Returned(getter, None)), getter, base)
        found = self._read(node)
        for label in () if self._is_set_before(node) else self._of(base):
            if isinstance(label, Given):
                found |= {replace(label, at=node.attr)}
        return found

    def _is_set_before(self, node: ast.Attribute) -> bool:
        """Whether the method that reads an attribute has set it by then, so that what it was given does not matter."""
        frame = self.program.frame(node)
        stores = [d.node for d in self.chains.definitions(node) if d.kind is Kind.ASSIGNMENT]
        own = [store for store in stores if self.program.frame(store) is frame]
        return bool(own) and self.chains.flow(node).is_covered(own, node)

    def _property(self, owners: Iterable[object], name: str) -> Scope | None:
        for value in owners:
            method = self.program.flow.method(value.cls, name) if isinstance(value, Instance) else None
            if method is not None and method.is_property:
                return method
        return None

    def _for_receiver(self, labels: Labels, method: Scope, base: ast.expr) -> Labels:
        found: set[Label] = set()
        for label in labels:
            found |= self._part(self._of(base), label.at) if _is_of(label, method) else {label}
        return frozenset(found)

    def _subscript(self, node: ast.Subscript) -> Labels:
        labels, key = self._of(node.value), node.slice
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            return self._part(labels, key.value)
        if isinstance(key, ast.Constant) and isinstance(key.value, int):
            item = self._of_item(node.value, (key.value,))
            labels = labels if item is None else item
        return self._without_place(labels) | self._chosen(self._of(key), node)

    def _counted(self, labels: Labels, node: ast.AST) -> Labels:
        """The labels that are known of the shape, or the length, of values."""
        found: set[Label] = set()
        measured = node.args[0] if isinstance(node, ast.Call) and node.args else node
        if isinstance(measured, ast.expr) and self.chains.kinds.of(measured) & {"set", "counter"}:
            return labels  # of how many different values there are
        for label in labels:
            if isinstance(label, Given) or label.mark in (Mark.CHOSEN, Mark.PICKED, Mark.DRAW, Mark.SIMULATION):
                found.add(label)
            elif label.mark is Mark.RUNNING:
                found.add(Origin(Mark.RUNNING, label.node, differs=False))
            elif label.mark is Mark.BATCH:
                found.add(Origin(Mark.ROWS, label.node, differs=False))
            elif label.is_count:
                found.add(Origin(label.mark, label.node, differs=False))
        return frozenset(found)

    # Calls.

    def _of_arguments(self, call: ast.Call) -> Labels:
        return self._without_place(self._all([*call.args, *call.keywords]))

    def _called(self, call: ast.Call, position: int | None) -> Labels:
        labels, iterator = self._result(call, position), self.program.iterator(call)
        if not labels or iterator is None or self._may_count(iterator):
            return labels
        return frozenset(la for la in labels if isinstance(la, Given) or la.mark is not Mark.STEPS)

    def _may_count(self, iterator: ast.expr) -> bool:
        """Whether an iterator numbers the rounds in which it is asked: `itertools.count()`, a generator of our own."""
        made = [chain[-1].value for chain in self.chains.tracer.chains(iterator)]
        calls = [n for value in made if value is not None for n in ast.walk(value) if isinstance(n, ast.Call)]
        views = [v.node for v in self.program.values(iterator) if isinstance(v, View)]
        called = {name for n in (*calls, *views) if isinstance(n, ast.Call) for name in self.program.called(n)}
        is_own = any(self.program.flow.callees.get(call) for call in calls)
        counts = any(names.is_counter(name) or names.iteration(name) == "enumerate" for name in called)
        return None in made or not calls or is_own or counts

    def _result(self, call: ast.Call, position: int | None) -> Labels:
        if self._takes_a_batch(call):
            return frozenset({Origin(Mark.BATCH, call)})
        iterator = self.program.iterator(call)
        if iterator is not None and (drawn := self.draws.item(iterator, call)):
            return drawn
        if self._is_length_of_loader(call):
            return frozenset({Origin(Mark.STEPS, call, differs=False)})
        callees = self.program.flow.callees.get(call, set())
        if callees and not self.shards.is_alike(call.func):
            return self._run(call, callees, position)
        if "getattr" in self.program.called(call) and len(call.args) > 1 and not self._is_run(call):
            return self._of_arguments(call) | self._by_name(call)
        if "dict" in self.program.called(call) and all(k.arg for k in call.keywords) and not call.args:
            return self._displayed(
                ast.Dict([ast.Constant(k.arg) for k in call.keywords], [k.value for k in call.keywords])
            )
        rows = self.chains.kinds.called(call)
        labels = self._state_of(callees, position) | self.draws.by_model(call, callees)
        is_method = isinstance(call.func, ast.Attribute) and not self.chains.kinds.name_of(call.func)
        if not (is_method and rows and all(row.has(Trait.SAME_VALUES) for row in rows)):
            labels |= self._of_arguments(call)  # `a.type_as(b)` has the values of `a` alone
        if not isinstance(call.func, ast.Attribute):
            labels |= self._without_place(self._of(call.func))
        elif not self.chains.kinds.name_of(call.func):
            held = self._of(call.func if self._is_own_value(call.func) else call.func.value)
            labels |= self._without_place(held)
            rows = self._rows_of_batch(call.func.value, call.func.attr, held) or rows
        if rows is None:
            return labels
        found = NONE
        for row in rows:
            found |= self._by_row(row, labels, call)
        return found

    def _is_own_value(self, function: ast.Attribute) -> bool:
        """Whether what is called was put into an attribute of the object whose method calls it: `self.net(x)`."""
        return is_self(self.program, function.value) and function.attr in self.program.attribute_writes

    def _state_of(self, models: Iterable[Scope], position: int | None) -> Labels:
        """The labels of the state that earlier calls of a model's methods have left in it."""
        labels = (la for method in models for la in self._get(_Returned(method, position)))
        kept = frozenset(la for la in labels if isinstance(la, Origin) or la.update is not None)
        return frozenset(la for la in self._resolved(kept) if isinstance(la, Origin) and la.mark is Mark.RUNNING)

    def _is_run(self, node: ast.expr) -> bool:
        """Whether what an expression gives is called: a method is, and a value is not."""
        parent = self.program.parent(node)
        return isinstance(parent, ast.Call) and parent.func is node

    def _by_name(self, call: ast.Call) -> Labels:
        """The labels that `getattr(object, name)` reads: of an attribute, or of all that a project's own object has."""
        classes = {v.cls for v in self.program.values(call.args[0]) if isinstance(v, Instance)}
        name, found = call.args[1], NONE
        for attribute, writes in self.program.attribute_writes.items() if classes else ():
            if isinstance(name, ast.Constant) and name.value != attribute:
                continue
            for write in writes:
                if classes & {v.cls for v in self.program.values(write.value) if isinstance(v, Instance)}:
                    for definition in self.chains.facts(write).at(write):
                        found |= self._seen_from(call, definition)
        return found

    def _rows_of_batch(self, node: ast.expr, name: str, labels: Labels) -> tuple[Row, ...]:
        """The rows of the table for a method or attribute of a part of a batch, taken as a tensor."""
        is_of_batch = any(isinstance(la, Origin) and la.mark is Mark.BATCH for la in labels)
        row = table.member("tensor", name) if is_of_batch and UNKNOWN in self.chains.kinds.of(node) else None
        return () if row is None else (row,)

    def _run(self, call: ast.Call, callees: Iterable[Scope], position: int | None) -> Labels:
        found = NONE
        makes = any(isinstance(v, ClassValue) for v in self.program.values(call.func))
        for callee in callees:
            if makes and callee.is_method and callee.parameters:
                found |= self._for_call(self._get(_Filled(callee, callee.parameters[0].arg)), call, callee)
                continue
            found |= self._for_call(self._get(_Returned(callee, position)), call, callee)
        return found

    def _by_row(self, row: Row, labels: Labels, call: ast.Call) -> Labels:
        """The labels of the result of a library's function for arguments with some labels."""
        if leaves(row) or (row.role is Role.COLLECTIVE and row.same is Same.YES):
            return NONE
        found = labels
        if row.same is Same.YES:
            found = NONE
        elif row.has(Trait.SHAPE_ONLY):
            found = self._counted(labels, call)
        elif _keeps_some(row, call) and any(isinstance(la, Origin) and la.differs for la in labels):
            found = labels | {Origin(Mark.CHOSEN, call)}
        if row.has(Effect.READS_CLOCK):
            found |= {Origin(Mark.CLOCK, call)}
        elif row.has(Effect.SIMULATES) and self.shards.draws:
            found |= {Origin(Mark.SIMULATION, call)}
        elif self.draws.draws(row, call):
            found |= {Origin(Mark.DRAW, call)}
        elif row.same is Same.NO and Trait.SPREADS in row.traits:
            found |= {Origin(Mark.RANK, call)}
        return found

    def _takes_a_batch(self, call: ast.Call) -> bool:
        """`next(iter(loader))`"""
        iterator = self.program.iterator(call)
        return iterator is not None and self.shards.is_loader(iterator)

    def _is_length_of_loader(self, call: ast.Call) -> bool:
        is_length = isinstance(call.func, ast.Name) and call.func.id == "len" and len(call.args) == 1
        return is_length and self.shards.is_loader(call.args[0])


# Most labels are as they have to be already, and a set of hundreds costs less to look through than to make again.


def _keeps_some(row: Row, call: ast.Call) -> bool:
    """Whether a call gives as many rows as its argument's values say: `x.nonzero()`, `where(x > 0)`."""
    given = len(call.args) + len(call.keywords)
    return row.rows is Rows.SELECTS or (row.has(Trait.FINDS) and given <= 1)


@cache
def _says_of_what_sort(attribute: str) -> bool:
    """Whether an attribute says where a tensor is, or of what type, not what is in it: `x.device`, `x.dtype`."""
    rows = [row for row in table.members(attribute) if row.has(Trait.ATTRIBUTE)]
    return any(row.has(Trait.SAYS_WHERE) or row.returns == "dtype" for row in rows)


def _is_starred(node: ast.expr) -> bool:
    return isinstance(node, ast.Starred)


def _is_of(label: Label, method: Scope) -> bool:
    first = method.parameters[:1]
    return isinstance(label, Given) and label.scope is method and bool(first) and label.name == first[0].arg


def is_self(program: Program, node: ast.expr) -> bool:
    """Whether an expression is the object whose method it stands in: `self`."""
    if not isinstance(node, ast.Name):
        return False
    owner = program.scope(node).owner(node.id)
    if owner is None or not owner.is_method or owner.has_decorator("staticmethod"):
        return False
    return bool(owner.parameters) and owner.parameters[0].arg == node.id
