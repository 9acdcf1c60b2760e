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
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property, partial

from accelify.codemod.libraries.row import Effect, Trait
from accelify.codemod.metrics.ranks.expressions import Expressions
from accelify.codemod.metrics.ranks.labels import (
    NONE,
    Given,
    Label,
    Labels,
    Mark,
    Origin,
    Rank,
)
from accelify.codemod.metrics.ranks.shards import Loop, Shards
from accelify.codemod.metrics.ranks.solver import (
    Decided,
    Filled,
    Joined,
    Key,
    Outside,
    OwnArgument,
    Returned,
    Rounds,
)
from accelify.codemod.metrics.sinks import leaves
from accelify.codemod.metrics.updates import Renewals
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Definition, Kind, Variable
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import FunctionValue

_SAME = Rank()


class Ranks(Expressions):
    """Work out the rank of expressions, each fact when it is first asked for."""

    def __init__(
        self,
        chains: Chains,
        shards: Shards,
        settled: Callable[[Ranks, Definition, ast.AST], bool] = lambda ranks, definition, read: False,
    ) -> None:
        super().__init__(chains, shards)
        self.settled = partial(settled, self)
        self._changes_in = cache(self._find_changes)
        self._renewals = Renewals(chains)

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

    def _worked_out(self, key: Key) -> Labels:
        if isinstance(key, Definition):
            return self._defined(key)
        if isinstance(key, Returned):
            return self._of_returned(key)
        if isinstance(key, Filled):
            return self._of_filled(key)
        if isinstance(key, OwnArgument):
            return self._of_own_argument(key)
        if isinstance(key, Outside):
            return self._of_outside(key)
        if isinstance(key, Joined):
            return NONE.union(*map(self._get, key.definitions))
        if isinstance(key, Decided):
            return self._chosen(self._of(key.test), key.about, decides=True)
        if isinstance(key, Rounds):
            return self._how_often(key.loop)
        return self._of_argument(key)

    # Definitions.

    def _defined(self, definition: Definition) -> Labels:
        """The labels of a definition's value, with those of the conditions that decide whether it is reached."""
        if self.running.is_of_a_number(definition) or self._is_logged(definition.node):
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

    def _is_logged(self, node: ast.AST) -> bool:
        """Whether a call shows in a log what it is given, `writer.add_scalar(name, x)`, and keeps nothing of it."""
        rows = self.chains.kinds.called(node) or () if isinstance(node, ast.Call) else ()
        return bool(rows) and all(Effect.LOGS in row.effects for row in rows)

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
        """The labels of a value that is updated in each round; the part that is measured in time alone stays that."""
        clocks = frozenset(la for la in labels if isinstance(la, Origin) and la.mark is Mark.CLOCK)
        timed = {la.at for la in clocks}
        others = frozenset(la for la in labels - clocks if _is_of_data(la) or _place(la) not in timed)
        if clocks and not others:
            return clocks
        updated = clocks | self._updated(others, node)
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
        passed = (a for a in (*call.args, *(k.value for k in call.keywords)) if self.running.variable_of(a) == variable)
        if any(self.chains.kinds.of(each) == {"loader"} for each in passed):
            return NONE  # a loader keeps nothing of the steps that are taken with its batches
        callees = self.program.flow.callees.get(call, set())
        for callee in callees:
            for name in self.chains.filled_parameters(callee):
                given = self.chains.given(call, callee, name)
                if given is None:
                    continue
                labels = self._for_call(self._get(Filled(callee, name)), call, callee)
                place = self._place(given, variable)
                is_it = self.running.variable_of(given) == variable
                found |= labels if is_it else self._at(self._without_place(labels), place)
        if callees or any(map(leaves, self.chains.kinds.called(call) or ())):
            return found
        match call.args:
            case [_, ast.Constant(value=str(attribute)), value] if "setattr" in self.program.called(call):
                return self._at(self._without_place(self._of(value)), attribute)
        rows = self.chains.kinds.called(call) or ()
        drawn = {Origin(Mark.DRAW, call) for row in rows if self.draws.draws(row, call)}  # the order of a shuffled list
        labels = self._of_arguments(call) | drawn
        for changed in self.chains.changed_by(call):
            if not self.shards.is_alike(changed):  # `scaler.scale(loss)` leaves nothing of the loss behind
                found |= self._at(self._without_place(labels), self._place(changed, variable))
        return found

    def _of_filled(self, key: Filled) -> Labels:
        """The labels of the values that a function puts into the object that one of its parameters holds."""
        found = NONE
        is_self = key.scope.is_method and key.scope.parameters[:1] and key.scope.parameters[0].arg == key.name
        for node, definitions in self._changes_in(key.scope):
            for definition in definitions:
                variable = definition.variable
                if self.settled(definition, key.scope.node):
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

    def _filled_by_own_call(self, call: ast.Call, key: Filled) -> Labels:
        """The labels of the values that `self.other(x)` puts into `self`."""
        found = NONE
        for callee in self.program.flow.callees.get(call, set()):
            for name in self.chains.filled_parameters(callee):
                given = self.chains.given(call, callee, name)
                if isinstance(given, ast.Name) and given.id == key.name:
                    found |= self._for_call(self._get(Filled(callee, name)), call, callee)
        return found


def _is_starred(node: ast.expr) -> bool:
    return isinstance(node, ast.Starred)


def _place(label: Label) -> str | None:
    """The one part of an object that has a label; None for all of it."""
    return label.at if isinstance(label, Origin) else label.into


def _is_of_data(label: Label) -> bool:
    """Whether a label says that what data say, not only how many there are, goes into a value; or what is passed."""
    return isinstance(label, Given) or (label.differs and label.mark in (Mark.BATCH, Mark.RUNNING))
