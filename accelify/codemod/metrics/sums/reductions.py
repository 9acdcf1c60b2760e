"""What does a sharded loop add up, and how is each sum made that of all processes after it?"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods, names
from accelify.codemod.metrics.ranks.expressions import is_self
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.metrics.ranks.round_methods import RoundMethods
from accelify.codemod.metrics.rows.trims import Summand
from accelify.codemod.metrics.sums.differentiated import Differentiated
from accelify.codemod.metrics.sums.divisors import Divisors
from accelify.codemod.metrics.sums.uses import Uses
from accelify.codemod.metrics.sums.zeros import is_table_of_zeros, is_zero
from accelify.codemod.metrics.updates import Addition, additions_in, assigned_to, averages, extreme
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Definition, Kind, Variable
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, method_of_call, names_in, names_written_in
from accelify.codemod.semantics.values import Made
from accelify.codemod.training.phases import Phase

Loop = ast.For | ast.AsyncFor
_PLAIN = frozenset({"number", "tensor", "ndarray"})
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Reduction:
    """Sums over one process's shard of a loop that become sums over all of it, after `anchor`.

    how: `sum`, `mean` for what the script divides by the number of batches that one process takes, `max` or `min`.
    condition: when the loop goes over a shared loader at all; None for always. training: when it trains, of a loop that
    is sharded in whole batches otherwise; a mean then is a sum where it does not. wholes: what a sum is divided by that
    the loop has not counted. leaves_out_its_end: whether these count what the loop leaves out at its end. adds_means:
    whether a batch adds its rows' mean, so that the sum counts batches. methods: those in which the loop adds to them,
    too.
    """

    loop: Loop
    anchor: ast.stmt
    names: tuple[str, ...]
    how: str
    condition: str | None
    training: str | None = None
    wholes: tuple[ast.expr, ...] = ()
    leaves_out_its_end: bool = False
    adds_means: bool = False
    methods: tuple[Scope, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum of a loop: how and where it is reduced, what it is calculated with, and whether it counts rounds alone.

    wholes: what it is divided by that is no sum itself. adds_means: whether it adds means over the rows of a batch.
    """

    how: str
    anchor: ast.stmt
    others: frozenset[str]
    numbers_rounds: bool
    wholes: tuple[ast.expr, ...] = ()
    adds_means: bool = False


class Sums:
    """Find the sums that can be shown to come out over all processes as over one.

    Such a sum begins at zero just outside its loop, nothing but the loop adds to it, and it is read after the loop.
    Where each process takes batches of its own, what the script divides by decides: the number of batches that one
    process takes asks for the mean, all else for the sum. Where the processes share each batch (`splits_batches`), it
    is what is added: of a batch's mean the mean, of what is summed over its rows the sum. asking: loops of `next`.
    """

    def __init__(
        self,
        chains: Chains,
        ranks: Ranks,
        prepared: Prepared,
        splits_batches: bool,
        phases: Mapping[ast.AST, Phase],
        only_if: Callable[[Loop], str | None],
        asking: Collection[Loop] = (),
    ) -> None:
        self.chains = chains
        self.program: Program = chains.program
        self.tracer: Tracer = chains.tracer
        self.ranks = ranks
        self.prepared = prepared
        self.splits_batches = splits_batches
        self.phases = phases
        self.only_if = only_if
        self.asking = asking if not splits_batches else ()
        self.methods = RoundMethods(chains, ranks.rounds)
        self.uses = Uses(chains, ranks)
        self.divisors = Divisors(chains, ranks, prepared, self.uses, self.asking)
        self._differentiated = Differentiated(chains)
        self._added: dict[Loop, dict[str, list[Addition]]] = {}

    def of(self, loop: Loop) -> list[Reduction]:
        """The reductions after a loop over a loader that is shared, or over a shard of the script's own data."""
        phase, phases = self.phases.get(loop), self._phases(loop)
        condition = phase.text if phase else self._condition(loop) if phases is None else self._row(phases)
        always = (
            phase is None
            and phases is None
            and (loop in self.prepared.loops or self.prepared.is_sharded_sequence(loop) or loop in self.asking)
        )
        if condition is None and not always:
            return []
        condition = condition or self.only_if(loop)
        judged = {name: self._judge(name, loop) for name in self.added(loop)}
        found = {name: each for name, each in judged.items() if each is not None}
        divisors = {other for each in found.values() for other in each.others}
        found = {n: s for n, s in found.items() if not s.numbers_rounds or n in divisors or s.others & found.keys()}
        self._drop_the_unlinked(found, loop)
        grouped: dict[tuple[str, ast.stmt], list[str]] = {}
        for name, each in found.items():
            grouped.setdefault((each.how, each.anchor), []).append(name)
        summed = {name for name, each in found.items() if each.how == "sum"}
        for name, how in (*self._extremes(loop), *self._averages(loop, summed)):
            grouped.setdefault((how, loop), []).append(name)
        drops = self._leaves_out_its_end(loop)
        return [
            Reduction(
                loop,
                anchor,
                tuple(names),
                how,
                condition,
                wholes=tuple(w for n in names if n in found and how == "sum" for w in found[n].wholes),
                leaves_out_its_end=drops,
                adds_means=any(found[n].adds_means for n in names if n in found and found[n].wholes),
                methods=tuple(dict.fromkeys(f for n in names for f in self._methods_adding(n, loop))),
            )
            for (how, anchor), names in grouped.items()
        ]

    def divided_by_steps(self, loop: Loop) -> Iterator[tuple[str, ast.expr]]:
        """What a loop over all data adds up, with the number of one process's batches that it is divided by.

        Its own counter is none, though that has the name of another loop's, which is still there if it has no rounds.
        """
        own = names_in(loop.target)
        for name, additions in self.added(loop).items():
            variable = self._variable(additions)
            inside = None if variable is None else self._changes_in(variable, loop, additions)
            anchor = None if variable is None or inside is None else self._anchor(variable, inside, loop)
            reads = self._reads_after(inside, anchor, loop) if inside is not None and anchor is not None else None
            uses = [use for read in reads or () for use in self.uses.of(read, anchor)] if anchor else []
            divisors = [d for use in uses for d in use.divisors]
            parts = (n for a in additions for part in a.parts for n in walk(part))
            divisors += [n.right for n in parts if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
            counts = (d for d in dict.fromkeys(divisors) if self.ranks.of(d).steps and not own & names_in(d))
            yield from ((name, d) for d in counts if not self.divisors.is_of_loop(d, loop))

    def _leaves_out_its_end(self, loop: Loop) -> bool:
        """Whether a loop leaves out what does not fill its last batch, or the last round of a generator's batches."""
        if self.prepared.is_sharded_sequence(loop):
            return self.prepared.has_no_length(loop)
        made = [v.node for v in self.program.values(self.tracer.inside(loop.iter)) if isinstance(v, Made)]
        given = [k.value for node in made if isinstance(node, ast.Call) for k in node.keywords if k.arg == "drop_last"]
        return any(not isinstance(v, ast.Constant) or v.value for v in given)

    def added(self, loop: Loop) -> dict[str, list[Addition]]:
        """The variables that a loop adds to, each with what is added, in the order of the text."""
        if loop not in self._added:
            found: dict[str, list[Addition]] = {}
            made = (a for place in self._places(loop) for a in additions_in(self.chains, place))
            for each in sorted(made, key=lambda a: self.program.position(a.statement)):
                variable = self._root(each.target)
                is_there = self.program.in_rounds(each.node, loop) or isinstance(variable, ast.Attribute)
                if variable is not None and is_there:
                    found.setdefault(ast.unparse(variable), []).append(each)
            self._added[loop] = found
        return self._added[loop]

    def _extremes(self, loop: Loop) -> Iterator[tuple[str, str]]:
        """The variables that keep the greatest or the least of what a loop has seen, whatever they begin with."""
        facts, frame = self.chains.facts(loop), self.program.frame(loop)
        stored = (n for n in walk(loop) if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Store))
        here = (n for n in stored if self._root(n) is n and self.program.in_rounds(n, loop))
        for name, node in {ast.unparse(n): n for n in here}.items():
            variable = self.chains.variable(node)
            if variable is None or variable.scope not in (frame, variable.is_attribute and frame.parent):
                continue
            inside = [d for d in facts.all_of(variable) if self.program.in_rounds(d.node, loop)]
            hows = {extreme(self.chains, d.node) if d.kind is Kind.ASSIGNMENT else None for d in inside}
            is_read = any(not self.program.in_rounds(r, loop) for d in inside for r in facts.uses(d))
            how = hows.pop()
            if not hows and how is not None and is_read and any(self.ranks.is_own(self._other(d.node)) for d in inside):
                yield name, how

    def _averages(self, loop: Loop, summed: Collection[str]) -> Iterator[tuple[str, str]]:
        """The running means that a loop keeps, of which the mean over the processes is that over all data.

        A weight must not be `summed` over the processes itself, since the next pass may go on with it.
        """
        facts, frame = self.chains.facts(loop), self.program.frame(loop)
        stored = [n for n in walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        for name, node in {n.id: n for n in stored if self.program.in_rounds(n, loop)}.items():
            variable = self.chains.variable(node)
            if variable is None or variable.scope is not frame or name in self.added(loop):
                continue
            every = [d for d in facts.all_of(variable) if not self._changes_holder(d, variable)]
            inside = [d for d in every if self.program.in_rounds(d.node, loop)]
            outside = [assigned_to(self.program, d.node) for d in self._before(variable, inside, loop) if d in every]
            weights = {n for d in inside for n in names_in(self.program.statement(d.node))}
            if not all(map(self._is_number_of_all, outside)) or not weights.isdisjoint(summed):
                continue
            reads = [r for d in inside for r in facts.uses(d) if not self.program.in_rounds(r, loop)]
            is_free = not any(self.may_be_during(r, loop) for r in reads) and not self._is_trained_on(name, frame)
            is_mixed = any(self._takes_of_loop(d, {n.id for n in stored} - {name}) for d in inside)
            if reads and is_free and is_mixed and self._are_averages(inside, loop):
                yield name, "mean"

    def _takes_of_loop(self, definition: Definition, stored: Collection[str]) -> bool:
        """Whether a variable is mixed with what a loop sets: `rate = rate / 10` goes the same way in all processes."""
        value = getattr(self.program.statement(definition.node), "value", None)
        parts = list(walk(value)) if isinstance(value, ast.expr) else []
        is_set = any(isinstance(n, ast.Call) or (isinstance(n, ast.Name) and n.id in stored) for n in parts)
        return is_set or any(self.ranks.is_own(n) for n in parts if isinstance(n, ast.Attribute))

    def _is_number_of_all(self, value: ast.expr | None) -> bool:
        """Whether a value is the same on all processes, and not `None`, which cannot be reduced."""
        is_none = isinstance(value, ast.Constant) and value.value is None
        return value is not None and not is_none and not self.ranks.is_own(value)

    def _are_averages(self, inside: Sequence[Definition], loop: Loop) -> bool:
        """Whether all rounds of all processes mix a variable's last value and their own with the same weights."""
        kinds = {d.kind for d in inside}
        if not kinds <= {Kind.ASSIGNMENT, Kind.AUGMENTED} or not any(map(self._reads_itself, inside)):
            return False
        ends = [n for n in walk(loop) if isinstance(n, (ast.Break, ast.Continue, ast.Return))]
        places = [*(d.node for d in inside), *ends]
        tests = (b.test for p in places for b, _ in self.program.branches_round(p) if self.program.inside(b, loop))
        return all(averages(self.chains, d.node, self.ranks.is_own) for d in inside) and not any(
            map(self.ranks.is_own, tests)
        )

    def _changes_holder(self, definition: Definition, variable: Variable) -> bool:
        """Whether a container changes that a number or tensor is put in: `losses["train"].append(mean)`."""
        node = definition.node
        if definition.kind is not Kind.IN_PLACE:
            return False
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and methods.puts_in(node.func.attr):
            return variable.name not in names_in(node.func.value)
        return self._is_of_another(definition, variable)

    def _reads_itself(self, definition: Definition) -> bool:
        value, text = assigned_to(self.program, definition.node), ast.unparse(definition.node)
        return definition.kind is Kind.AUGMENTED or (value is not None and self._names(value, text))

    def _other(self, target: ast.AST) -> ast.expr:
        value = assigned_to(self.program, target)
        assert value is not None
        return value

    # Loops over several loaders in turn.

    def _condition(self, loop: Loop) -> str | None:
        """`phase == "train"`, where a loop iterates over `loaders[phase]` and only `loaders["train"]` is prepared."""
        keys: set[str | None] = set()
        for node in walk(loop.iter):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Name, ast.Attribute)):
                keys |= {self.prepared.key_of(chain) for chain in self.tracer.chains(node)}
                text = ast.unparse(node.slice)
        key = keys.pop() if len(keys) == 1 else None
        return None if key is None else f"{text} == {key}"

    def _phases(self, loop: Loop) -> Loop | None:
        """The loop over the loaders themselves: `for phase, loader in [("train", a), ("val", b)]`."""
        names = names_in(loop.iter)
        for outer in self.program.loops_round(loop):
            listed = outer.iter if isinstance(outer, ast.For) else None
            if isinstance(outer, ast.For) and isinstance(listed, (ast.List, ast.Tuple)) and len(listed.elts) > 1:
                values = {n for n in walk(outer.target) if isinstance(n, ast.Name) and n.id in names}
                if any(self.tracer.chains(n) for n in values):
                    return outer
        return None

    @staticmethod
    def _row(phases: Loop) -> str | None:
        """`phase == "train"`, for the one row of the phases that trains."""
        rows = [e.elts for e in getattr(phases.iter, "elts", []) if isinstance(e, (ast.Tuple, ast.List))]
        targets = phases.target.elts if isinstance(phases.target, (ast.Tuple, ast.List)) else []
        told = [
            (target.id, e.value)
            for row in rows
            for target, e in zip(targets, row, strict=False)
            if isinstance(target, ast.Name) and isinstance(e, ast.Constant) and "train" in str(e.value).lower()
        ]
        return f'{told[0][0]} == "{told[0][1]}"' if len(told) == 1 and isinstance(told[0][1], str) else None

    def _drop_the_unlinked(self, found: dict[str, _Sum], loop: Loop) -> None:
        """A sum that stands beside another of the loop's in one calculation is reduced with it, or not at all."""
        local = (
            self.added(loop).keys()
            | bound_in(loop)
            | {text for p in self._places(loop) for text in self._own_stored_in(p)}
        )
        changed = True
        while changed:
            changed = False
            for name, each in list(found.items()):
                beside = each.others & local
                if any(o not in found or (found[o].how, found[o].anchor) != (each.how, each.anchor) for o in beside):
                    del found[name]
                    changed = True

    def _places(self, loop: Loop) -> list[ast.AST]:
        """Where a loop may add to a sum: in itself, and in the methods of its object that its rounds run."""
        return [loop, *(method.node for method in self.methods.of(loop))]

    def _own_stored_in(self, place: ast.AST) -> Iterator[str]:
        """The attributes of the object itself that a place gives values."""
        parts = (n for n in walk(place) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
        return (ast.unparse(n) for n in parts if is_self(self.program, n.value))

    # One sum.

    def _is_within(self, node: ast.AST, loop: Loop) -> bool:
        """Whether rounds of a loop run a node, themselves or in methods of their object."""
        return self.program.in_rounds(node, loop) or self.program.frame(node) in self.methods.of(loop)

    def _judge(self, name: str, loop: Loop) -> _Sum | None:
        """How a sum is reduced, after which statement, and what else it is calculated with; None where unclear."""
        additions = self.added(loop)[name]
        variable = self._variable(additions)
        frame = self.program.frame(loop)
        if variable is None or variable.scope not in (frame, variable.is_attribute and frame.parent):
            return None
        if self._is_of_time(additions):
            return None
        inside = self._changes_in(variable, loop, additions)
        anchor = None if inside is None else self._anchor(variable, inside, loop)
        is_trained_on = self._is_trained_on(name, frame) or self._differentiated.holds(additions)
        if anchor is None or inside is None or is_trained_on:
            return None
        reads = self._reads_after(inside, anchor, loop)
        if reads is None:
            return None
        uses = [use for read in reads for use in self.uses.of(read, anchor)]
        if not uses or not all(u.is_known for u in uses):
            return None
        if self.splits_batches and not self.prepared.is_sharded_sequence(loop):
            if not all(self.program.in_rounds(a.node, loop) for a in additions):
                return None  # what a parameter of a method holds is not asked there
            how = self._how_it_adds(additions, loop)
        else:
            how = self.divisors.how(additions, uses, loop, self.added(loop))
        if how is None:
            return None
        others = {o for u in uses for o in u.others} - {name}
        if how == "mean":
            others -= names_in(loop.target) | self._asked_in(loop)
        is_count = self._counts_rounds(inside, anchor)
        wholes = tuple(d for u in uses for d in u.divisors if not self.uses.named(d) & self.added(loop).keys())
        adds_means = how == "sum" and self._how_it_adds(additions, loop) == "mean"
        return _Sum(how, anchor, frozenset(others), is_count, wholes, adds_means)

    def _asked_in(self, loop: Loop) -> set[str]:
        """The variables that a batch got by `next` is unpacked into: `x, y = next(batches)`."""
        given = (n for n in walk(loop) if isinstance(n, ast.Assign) and loop in self.asking)
        return {v for n in given if self.program.iterator(n.value) for v in names_written_in(n.targets[0])}

    def _methods_adding(self, name: str, loop: Loop) -> list[Scope]:
        places = [a.node for a in self.added(loop).get(name, ()) if not self.program.in_rounds(a.node, loop)]
        return [self.program.frame(node) for node in places]

    def _variable(self, additions: Sequence[Addition]) -> Variable | None:
        root = self._root(additions[0].target)
        return None if root is None else self.chains.variable(root)

    def _root(self, target: ast.expr) -> ast.expr | None:
        """The variable that an addition changes, `table` of `table[i] += x`, or `self.total`; None for other places."""
        while isinstance(target, ast.Subscript):
            target = target.value
        is_own = isinstance(target, ast.Attribute) and is_self(self.program, target.value)
        return target if is_own or isinstance(target, ast.Name) else None

    def _changes_in(self, variable: Variable, loop: Loop, additions: Sequence[Addition]) -> list[Definition] | None:
        """The definitions of a variable in a loop, if each of them adds to it."""
        every = self.chains.facts(loop).all_of(variable)
        known = {a.node for a in additions}
        known |= {a.statement.value for a in additions if isinstance(a.statement, ast.Assign)}  # a call that adds to it
        inside = [d for d in every if self._is_within(d.node, loop)]
        inside = [d for d in inside if d.node in known or not self._is_of_another(d, variable)]
        return inside if all(d.node in known for d in inside) else None

    def _is_of_another(self, definition: Definition, variable: Variable) -> bool:
        """Whether a call changes another object, which a number or tensor of the variable cannot hold."""
        node = definition.node
        if not isinstance(node, ast.Call) or definition.kind is not Kind.IN_PLACE:
            return False
        names = {n for changed in self.chains.changed_by(node) for n in walk(changed) if isinstance(n, ast.Name)}
        values = (assigned_to(self.program, d.node) for n in names for d in self.chains.definitions(n))
        held = {n for v in values if v is not None for n in names_in(v)} | {n.id for n in names}
        reads = self.uses.reads_of(variable)
        return variable.name not in held and all(self.chains.kinds.of(r) <= _PLAIN for r in reads)

    def _counts_rounds(self, inside: Sequence[Definition], anchor: ast.stmt) -> bool:
        """Whether a sum counts rounds or steps, as those of all processes do."""
        reads = {r for d in inside for r in self.chains.facts(anchor).uses(d)}
        return bool(reads) and all(self.ranks.of(r).steps for r in reads)

    def _is_of_time(self, additions: Sequence[Addition]) -> bool:
        """Whether what is added is the time that a round took, while the processes work at once."""
        return any(self.ranks.of(part).of(Mark.CLOCK) for a in additions for part in a.parts)

    def _is_trained_on(self, name: str, frame: Scope) -> bool:
        """Whether a sum is of losses with their graphs, on which a backward pass runs."""
        return any(method_of_call(c) == "backward" and self._names(c, name) for c in self.program.calls_in(frame))

    # Where a sum begins.

    def _anchor(self, variable: Variable, inside: Sequence[Definition], loop: Loop) -> ast.stmt | None:
        """The loop after which a sum is complete, if it begins at zero just outside and nothing else adds to it."""
        facts = self.chains.facts(loop)
        reads = [r for r in self.uses.reads_of(variable) if self._is_within(r, loop)]
        before = self._before(variable, inside, loop)
        before = {d for d in before if not self._is_of_another(d, variable)}
        before = self.given_here(variable, before, loop)
        first = self.first_of(before, inside, loop, self._is_begun)
        if first is None:
            return None
        if any(isinstance(self.program.statement(r), ast.Return) for r in reads):
            return None
        outer = self._child_of_block(loop, self.program.statement(first.node))
        if outer is None:
            return None
        anchor = next((a for a in self._way(loop, outer) if isinstance(a, LOOPS)), loop)
        others = [d for d in facts.all_of(variable) if d not in inside and d != first]
        others = [d for d in others if not self._is_of_another(d, variable)]
        if any(self._goes_on(d, inside) or self.program.in_rounds(d.node, anchor) for d in others):
            return None
        run = {self.program.frame(d.node) for d in inside if not self.program.in_rounds(d.node, loop)}
        if run and (anchor is not loop or not all(self.methods.begins_elsewhere(variable, loop, f) for f in run)):
            return None
        if anchor is not loop:
            around = (r for r in self.uses.reads_of(variable) if self.program.in_rounds(r, anchor))
            if any(not self.program.in_rounds(r, loop) for r in around):
                return None
        return anchor

    def _before(self, variable: Variable, inside: Sequence[Definition], loop: Loop) -> set[Definition]:
        """The definitions from outside a loop that its rounds may go on with."""
        reads = [r for r in self.uses.reads_of(variable) if self._is_within(r, loop)]
        return {d for r in [*reads, *(d.node for d in inside)] for d in self._given(r)} - set(inside)

    def _is_begun(self, definition: Definition) -> bool:
        return definition.kind is Kind.ASSIGNMENT and self.is_zero(assigned_to(self.program, definition.node))

    def first_of(
        self,
        before: Collection[Definition],
        inside: Collection[Definition],
        loop: Loop,
        is_begun: Callable[[Definition], bool],
    ) -> Definition | None:
        """The assignment that a loop begins with. Of two, the second is made after each pass, for the next one."""
        if not before or not all(map(is_begun, before)):
            return None
        if len(before) == 1:
            return next(iter(before))
        flow, places = self.chains.flow(loop), [d.node for d in before]
        again = [d for d in before if self.program.is_after(d.node, loop)]
        is_here = all(self.program.frame(p) is self.program.frame(loop) for p in places)
        if len(before) != 2 or len(again) != 1 or not is_here:
            return None
        is_kept = any(flow.reaches(d.node, loop.iter, without=places) for d in inside)
        return None if is_kept else again[0]

    def given_here(self, variable: Variable, before: set[Definition], loop: Loop) -> set[Definition]:
        """What a loop begins with: what another method gave an attribute is hidden by what its own does before."""
        here = {d for d in before if self.program.frame(d.node) is self.program.frame(loop)}
        is_hidden = variable.is_attribute and here and self.chains.flow(loop).is_covered([d.node for d in here], loop)
        return here if is_hidden else before

    @staticmethod
    def _names(node: ast.AST, name: str) -> bool:
        return any(isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) == name for n in walk(node))

    def _given(self, node: ast.AST) -> Iterable[Definition]:
        """The definitions that reach a read, or the variable that an addition reads itself."""
        if isinstance(node, ast.Call):
            return ()
        return self.chains.definitions(node) if isinstance(node, ast.expr) else ()

    def _goes_on(self, definition: Definition, inside: Sequence[Definition]) -> bool:
        """Whether something else adds to what a loop has added up, or changes it in place; but for a division."""
        node = definition.node
        if self._is_division(node):
            return False
        if definition.kind is Kind.AUGMENTED and isinstance(node, ast.expr):
            return bool(self.chains.definitions(node) & set(inside))
        return definition.kind is Kind.IN_PLACE

    def _is_division(self, node: ast.AST) -> bool:
        """`total /= rows`, `totals[k] /= rows`, `totals[k] = totals[k] / rows`."""
        statement = self.program.statement(node)
        if isinstance(statement, ast.AugAssign):
            return statement.target is node and isinstance(statement.op, ast.Div)
        value = statement.value if isinstance(statement, ast.Assign) and statement.targets == [node] else None
        return (
            isinstance(value, ast.BinOp)
            and isinstance(value.op, ast.Div)
            and ast.unparse(value.left) == ast.unparse(node)
        )

    def _way(self, loop: Loop, outer: ast.stmt) -> Iterator[ast.AST]:
        """A statement, and what it holds down to a loop."""
        inner = [loop, *self.program.ancestors(loop)]
        yield from reversed(inner[: inner.index(outer) + 1])

    def _child_of_block(self, node: ast.stmt, statement: ast.stmt) -> ast.stmt | None:
        """The statement of another's block that holds a node."""
        block = self.program.block(statement)
        for candidate in [node, *self.program.ancestors(node)]:
            if isinstance(candidate, ast.stmt) and any(s is candidate for s in block):
                return candidate
        return None

    def is_zero(self, value: ast.expr | None) -> bool:
        """Whether a sum begins at nothing: a number, a tensor or a table of zeros."""
        return is_zero(self.chains, value) or is_table_of_zeros(self.chains, value)

    # Where it is read.

    def _reads_after(self, inside: Sequence[Definition], anchor: ast.stmt, loop: Loop) -> list[ast.expr] | None:
        """Where a sum is read after its loop; None where another function may read it."""
        facts = self.chains.facts(anchor)
        reads = {r for d in inside for r in facts.uses(d) if not self.program.in_rounds(r, anchor)}
        reads = {r for r in reads if not self._is_within(r, loop)}
        if any(self.may_be_during(r, anchor) for r in reads):
            return None
        return sorted(reads, key=self.program.position)

    def may_be_during(self, read: ast.expr, anchor: ast.stmt) -> bool:
        """Whether another function reads a sum, which may be run while it grows."""
        frame = self.program.frame(read)
        if frame is self.program.frame(anchor):
            return False
        return isinstance(read, ast.Name) or self.ranks.running.loop_that_runs(frame) is not None

    # How it is reduced.

    def _how_it_adds(self, additions: Sequence[Addition], loop: Loop) -> str | None:
        summand = Summand(self.program, loop)
        parts = ((a, part) for a in additions for part in a.parts if not self.is_zero(part))
        kinds = {self._is_for_each_row(a, loop) or summand.is_of_rows(part) for a, part in parts}
        kind = kinds.pop() if len(kinds) == 1 else None
        return None if kind is None else "sum" if kind else "mean"

    def _is_for_each_row(self, added: Addition, loop: Loop) -> bool:
        """Whether something is added once for each row of a batch: `for p, t in zip(found, y): table[t, p] += 1`."""
        around = itertools.takewhile(lambda n: n is not loop, self.program.ancestors(added.statement))
        return any(self._goes_over_rows(n.iter) for n in around if isinstance(n, ast.For))

    def _goes_over_rows(self, node: ast.expr) -> bool:
        """Whether an expression gives the rows of a batch or their numbers, one after the other; not several losses."""
        if isinstance(node, ast.Call) and any(map(names.iteration, self.program.called(node))):
            return any(map(self._goes_over_rows, self.tracer.gone_over(node)))
        origins = self.ranks.of(node).of(Mark.BATCH, Mark.ROWS)
        values = [node, *self.divisors.given_to(node, 1)]
        is_held_together = any(isinstance(v, (ast.List, ast.Tuple, ast.Dict)) for v in values)
        viewed = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        is_of_dict = viewed is not None and "dict" in self.chains.kinds.of(viewed)  # `losses.items()`
        return bool(origins) and not is_held_together and not is_of_dict


def bound_in(loop: Loop | ast.While) -> set[str]:
    """The variables that hold something of one process after a loop."""
    found: set[str] = set()
    for node in walk(loop):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and methods.puts_in(node.func.attr):
            found |= names_in(node.func.value)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            found |= names_in(node.value)
    return found
