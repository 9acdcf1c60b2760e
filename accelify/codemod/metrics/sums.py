"""What does a sharded loop add up, and how is each sum made that of all processes after it?"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from accelify.codemod.libraries import methods, names
from accelify.codemod.libraries.row import Role, Trait
from accelify.codemod.metrics.ranks.expressions import is_self
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.metrics.ranks.round_methods import RoundMethods
from accelify.codemod.metrics.rounds import stops
from accelify.codemod.metrics.rows.trims import Summand
from accelify.codemod.metrics.updates import Addition, additions_in, assigned_to, extreme
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Definition, Kind, Variable
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, names_in
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
class Use:
    """An expression that a sum is part of: what it is divided by, what else it is made of, and whether it is known."""

    divisors: tuple[ast.expr, ...]
    others: frozenset[str]
    is_known: bool = True


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
    is what is added: of a batch's mean the mean, of what is summed over its rows the sum.
    """

    def __init__(
        self,
        chains: Chains,
        ranks: Ranks,
        prepared: Prepared,
        splits_batches: bool,
        phases: Mapping[ast.AST, Phase],
        only_if: Callable[[Loop], str | None],
    ) -> None:
        self.chains = chains
        self.program: Program = chains.program
        self.tracer: Tracer = chains.tracer
        self.ranks = ranks
        self.prepared = prepared
        self.splits_batches = splits_batches
        self.phases = phases
        self.only_if = only_if
        self.methods = RoundMethods(chains, ranks.rounds)
        self._added: dict[Loop, dict[str, list[Addition]]] = {}

    def of(self, loop: Loop) -> list[Reduction]:
        """The reductions after a loop over a loader that is shared, or over a shard of the script's own data."""
        phase, phases = self.phases.get(loop), self._phases(loop)
        condition = phase.text if phase else self._condition(loop) if phases is None else self._row(phases)
        always = (
            phase is None
            and phases is None
            and (loop in self.prepared.loops or self.prepared.is_sharded_sequence(loop))
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
        for name, how in self._extremes(loop):
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
            uses = [use for read in reads or () for use in self._use(read, anchor, _DEPTH)] if anchor else []
            divisors = [d for use in uses for d in use.divisors]
            parts = (n for a in additions for part in a.parts for n in ast.walk(part))
            divisors += [n.right for n in parts if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
            yield from ((name, d) for d in dict.fromkeys(divisors) if self.ranks.of(d).steps and not own & names_in(d))

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
            places = (loop, *(method.node for method in self.methods.of(loop)))
            made = (a for place in places for a in additions_in(self.chains, place))
            for each in sorted(made, key=lambda a: self.program.position(a.statement)):
                variable = self._root(each.target)
                is_there = self.program.inside(each.node, loop) or isinstance(variable, ast.Attribute)
                if variable is not None and is_there:
                    found.setdefault(ast.unparse(variable), []).append(each)
            self._added[loop] = found
        return self._added[loop]

    def _extremes(self, loop: Loop) -> Iterator[tuple[str, str]]:
        """The variables that keep the greatest or the least of what a loop has seen, whatever they begin with."""
        facts, frame = self.chains.facts(loop), self.program.frame(loop)
        stored = (
            n for n in ast.walk(loop) if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Store)
        )
        for name, node in {ast.unparse(n): n for n in stored if self._root(n) is n}.items():
            variable = self.chains.variable(node)
            if variable is None or variable.scope not in (frame, variable.is_attribute and frame.parent):
                continue
            inside = [d for d in facts.all_of(variable) if self.program.inside(d.node, loop)]
            hows = {extreme(self.chains, d.node) if d.kind is Kind.ASSIGNMENT else None for d in inside}
            is_read = any(not self.program.inside(r, loop) for d in inside for r in facts.uses(d))
            how = hows.pop()
            if not hows and how is not None and is_read and any(self.ranks.is_own(self._other(d.node)) for d in inside):
                yield name, how

    def _other(self, target: ast.AST) -> ast.expr:
        value = assigned_to(self.program, target)
        assert value is not None
        return value

    # Loops over several loaders in turn.

    def _condition(self, loop: Loop) -> str | None:
        """`phase == "train"`, where a loop iterates over `loaders[phase]` and only `loaders["train"]` is prepared."""
        keys: set[str | None] = set()
        for node in ast.walk(loop.iter):
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
                values = {n for n in ast.walk(outer.target) if isinstance(n, ast.Name) and n.id in names}
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
        places = (loop, *(method.node for method in self.methods.of(loop)))
        local = self.added(loop).keys() | bound_in(loop) | {text for p in places for text in self._own_stored_in(p)}
        changed = True
        while changed:
            changed = False
            for name, each in list(found.items()):
                beside = each.others & local
                if any(o not in found or (found[o].how, found[o].anchor) != (each.how, each.anchor) for o in beside):
                    del found[name]
                    changed = True

    def _own_stored_in(self, place: ast.AST) -> Iterator[str]:
        """The attributes of the object itself that a place gives values."""
        parts = (n for n in ast.walk(place) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
        return (ast.unparse(n) for n in parts if is_self(self.program, n.value))

    # One sum.

    def _is_within(self, node: ast.AST, loop: Loop) -> bool:
        """Whether rounds of a loop run a node, themselves or in methods of their object."""
        return self.program.inside(node, loop) or self.program.frame(node) in self.methods.of(loop)

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
        if anchor is None or inside is None or self._is_trained_on(name, frame):
            return None
        reads = self._reads_after(inside, anchor, loop)
        if reads is None:
            return None
        uses = [use for read in reads for use in self._use(read, anchor, _DEPTH)]
        if not uses or not all(u.is_known for u in uses):
            return None
        if self.splits_batches and not self.prepared.is_sharded_sequence(loop):
            if not all(self.program.inside(a.node, loop) for a in additions):
                return None  # what a parameter of a method holds is not asked there
            how = self._how_it_adds(additions, loop)
        else:
            how = self._how_it_is_divided(additions, uses, loop)
        if how is None:
            return None
        others = {o for u in uses for o in u.others} - {name}
        if how == "mean":
            others -= names_in(loop.target)
        is_count = self._counts_rounds(inside, anchor)
        wholes = tuple(d for u in uses for d in u.divisors if not self._named(d) & self.added(loop).keys())
        adds_means = how == "sum" and self._how_it_adds(additions, loop) == "mean"
        return _Sum(how, anchor, frozenset(others), is_count, wholes, adds_means)

    def _methods_adding(self, name: str, loop: Loop) -> list[Scope]:
        places = [a.node for a in self.added(loop).get(name, ()) if not self.program.inside(a.node, loop)]
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
        inside = [d for d in every if self._is_within(d.node, loop)]
        inside = [d for d in inside if d.node in known or not self._is_of_another(d, variable)]
        return inside if all(d.node in known for d in inside) else None

    def _is_of_another(self, definition: Definition, variable: Variable) -> bool:
        """Whether a call changes another object, which a number or tensor of the variable cannot hold."""
        node = definition.node
        if not isinstance(node, ast.Call) or definition.kind is not Kind.IN_PLACE:
            return False
        names = {n for changed in self.chains.changed_by(node) for n in ast.walk(changed) if isinstance(n, ast.Name)}
        values = (assigned_to(self.program, d.node) for n in names for d in self.chains.definitions(n))
        held = {n for v in values if v is not None for n in names_in(v)} | {n.id for n in names}
        reads = self._reads_of(variable)
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
        return any(
            isinstance(c.func, ast.Attribute) and c.func.attr == "backward" and self._names(c, name)
            for c in self.program.calls_in(frame)
        )

    # Where a sum begins.

    def _anchor(self, variable: Variable, inside: Sequence[Definition], loop: Loop) -> ast.stmt | None:
        """The loop after which a sum is complete, if it begins at zero just outside and nothing else adds to it."""
        facts = self.chains.facts(loop)
        reads = [r for r in self._reads_of(variable) if self._is_within(r, loop)]
        before = {d for r in [*reads, *(d.node for d in inside)] for d in self._given(r)} - set(inside)
        before = {d for d in before if not self._is_of_another(d, variable)}
        if variable.is_attribute:  # what another method gave is hidden by what is given here
            here = {d for d in before if self.program.frame(d.node) is self.program.frame(loop)}
            before = here if here and self.chains.flow(loop).is_covered([d.node for d in here], loop) else before
        first = before.pop() if len(before) == 1 else None
        if (
            first is None
            or first.kind is not Kind.ASSIGNMENT
            or not self.is_zero(assigned_to(self.program, first.node))
        ):
            return None
        if any(isinstance(self.program.statement(r), ast.Return) for r in reads):
            return None
        outer = self._child_of_block(loop, self.program.statement(first.node))
        if outer is None:
            return None
        anchor = next((a for a in self._way(loop, outer) if isinstance(a, LOOPS)), loop)
        others = [d for d in facts.all_of(variable) if d not in inside and d != first]
        others = [d for d in others if not self._is_of_another(d, variable)]
        if any(self._goes_on(d, inside) or self.program.inside(d.node, anchor) for d in others):
            return None
        run = {self.program.frame(d.node) for d in inside if not self.program.inside(d.node, loop)}
        if run and (anchor is not loop or not all(self.methods.begins_elsewhere(variable, loop, f) for f in run)):
            return None
        if anchor is not loop:
            around = (r for r in self._reads_of(variable) if self.program.inside(r, anchor))
            if any(not self.program.inside(r, loop) for r in around):
                return None
        return anchor

    @staticmethod
    def _names(node: ast.AST, name: str) -> bool:
        return any(isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) == name for n in ast.walk(node))

    def _reads_of(self, variable: Variable) -> Sequence[ast.expr]:
        if variable.scope is None:
            return []
        if not variable.is_attribute:
            return self.program.reads_of(variable.scope, variable.name)
        inside = (n for n in ast.walk(variable.scope.node) if isinstance(n, ast.Attribute) and n.attr == variable.name)
        return [n for n in inside if isinstance(n.ctx, ast.Load) and self.chains.variable(n) == variable]

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

    # Uses of the sum.

    def _reads_after(self, inside: Sequence[Definition], anchor: ast.stmt, loop: Loop) -> list[ast.expr] | None:
        """Where a sum is read after its loop; None where another function may read it."""
        facts = self.chains.facts(anchor)
        reads = {r for d in inside for r in facts.uses(d) if not self.program.inside(r, anchor)}
        reads = {r for r in reads if not self._is_within(r, loop)}
        if any(self._may_be_during(r, anchor) for r in reads):
            return None
        return sorted(reads, key=self.program.position)

    def _may_be_during(self, read: ast.expr, anchor: ast.stmt) -> bool:
        """Whether another function reads a sum, which may be run while it grows."""
        frame = self.program.frame(read)
        if frame is self.program.frame(anchor):
            return False
        return isinstance(read, ast.Name) or self.ranks.running.loop_that_runs(frame) is not None

    def _use(self, node: ast.expr, anchor: ast.stmt, depth: int) -> Iterator[Use]:
        """How a value is used where it is read: from the inside out, to what takes it."""
        if self.program.inside(node, anchor):  # in the loop's next run
            yield Use((), frozenset())
            return
        divisors: list[ast.expr] = []
        others: set[str] = set()
        while True:
            parent = self.program.parent(node)
            if isinstance(parent, ast.AugAssign) and node is parent.target:
                is_division = isinstance(parent.op, ast.Div)
                yield Use((parent.value,), frozenset(self._named(parent.value)), is_division)
                return
            if isinstance(parent, ast.BinOp):
                other = parent.right if parent.left is node else parent.left
                others |= self._named(other)
                if isinstance(parent.op, ast.Div) and node is parent.left:
                    divisors.append(other)
                elif isinstance(parent.op, ast.Mult):
                    divisors.extend(
                        n.right for n in ast.walk(other) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)
                    )
            elif not (
                isinstance(parent, (ast.UnaryOp, ast.Attribute))
                or (isinstance(parent, ast.Subscript) and parent.value is node)
                or (isinstance(parent, ast.Call) and self._hands_on(parent, node))
                or (isinstance(parent, (ast.ListComp, ast.SetComp, ast.GeneratorExp)) and parent.elt is node)
                or self._is_given_in_list(parent)
            ):
                break
            assert isinstance(parent, ast.expr)
            node = parent
        use = Use(tuple(divisors), frozenset(others))
        if divisors:
            yield use
        else:
            for taken in self._taken(use, node, anchor, depth):
                yield replace(taken, others=taken.others | use.others)

    def _named(self, node: ast.expr, depth: int = _DEPTH) -> set[str]:
        """The variables in an expression, and those in what was assigned to them in one expression each."""
        parts = [n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))]
        attributes = [n for n in parts if isinstance(n, ast.Attribute) and is_self(self.program, n.value)]
        reads = [n for n in parts if isinstance(n, ast.Name) and not is_self(self.program, n)]
        reads = [n for n in reads if not self._is_of_comprehension(n)]
        found = {n.id for n in reads if not self.program.externals(n)} | set(map(ast.unparse, attributes))
        for read in reads:
            if not isinstance(read.ctx, ast.Load) or not depth:
                continue
            for definition in self.chains.definitions(read):
                value = assigned_to(self.program, definition.node) if definition.kind is Kind.ASSIGNMENT else None
                if value is not None and not self.program.loops_round(definition.node)[:1]:
                    found |= self._named(value, depth - 1)
        return found

    def _is_of_comprehension(self, name: ast.Name) -> bool:
        """Whether a comprehension binds a name for itself, whatever the loop calls so."""
        owner = self.program.scope(name).owner(name.id)
        return owner is not None and owner.kind == "comprehension"

    def _hands_on(self, call: ast.Call, node: ast.AST | None) -> bool:
        """Whether what a library's function makes of a value is to be looked at in its place."""
        return (call.func is node or node in call.args) and not self.program.flow.callees.get(call)

    def _is_given_in_list(self, parent: ast.AST | None) -> bool:
        """Whether a library's function is given a value among others: `sum([a, b])`, `np.array((a, b))`."""
        call = self.program.parent(parent) if isinstance(parent, (ast.List, ast.Tuple)) else None
        return isinstance(call, ast.Call) and parent in call.args and self._hands_on(call, parent)

    def _taken(self, use: Use, node: ast.expr, anchor: ast.stmt, depth: int) -> Iterator[Use]:
        """The uses of a sum that is divided by nothing where it is read."""
        unknown = Use(use.divisors, use.others, False)
        parent, position = self.program.parent(node), None
        if isinstance(parent, ast.Tuple):
            position = parent.elts.index(node)
            node, parent = parent, self.program.parent(parent)
        if isinstance(parent, ast.Assign) and parent.value is node:
            for target in parent.targets:
                yield from self._followed(target, position, anchor, depth)
        elif isinstance(parent, ast.Return):
            frame = self.program.frame(parent)
            if not self.program.flow.callers.get(frame):
                yield use
            for call in self.program.flow.callers.get(frame, ()):
                yield from self._returned(call, position, anchor, depth) if depth else [unknown]
        elif isinstance(parent, (ast.comprehension, *LOOPS)) and not isinstance(parent, ast.While):
            yield from self._of_elements(parent, anchor, depth) if depth else [unknown]
        elif isinstance(parent, ast.Call) and self.program.flow.callees.get(parent):
            yield unknown
        elif isinstance(parent, ast.AugAssign):  # `losses[epoch] /= rows`
            yield replace(use, others=use.others | names_in(parent.target))
        elif isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div):
            yield use
        else:
            yield use

    def _of_elements(
        self, over: ast.comprehension | ast.For | ast.AsyncFor, anchor: ast.stmt, depth: int
    ) -> Iterator[Use]:
        """How the elements of a table of sums are used: `[total / n for total in totals]`."""
        asked = over.iter.func if isinstance(over.iter, ast.Call) else None
        is_keyed = isinstance(asked, ast.Attribute) and methods.passes(asked.attr) == "items"
        values = over.target.elts[1:] if is_keyed and isinstance(over.target, ast.Tuple) else [over.target]
        names = [n for value in values for n in ast.walk(value) if isinstance(n, ast.Name)]
        owners = {n.id: self.program.scope(n).owner(n.id) for n in names}
        around = self.program.parent(over) if isinstance(over, ast.comprehension) else over
        reads = [r for name, owner in owners.items() if owner for r in self.program.reads_of(owner, name)]
        for read in sorted(reads, key=self.program.position):
            if around is not None and self.program.inside(read, around) and self.ranks.is_own(read):
                yield from self._use(read, anchor, depth - 1)

    def _followed(self, target: ast.expr, position: int | None, anchor: ast.stmt, depth: int) -> Iterator[Use]:
        if position is not None and isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) > position:
            target, position = target.elts[position], None
        is_own = isinstance(target, ast.Name) and self.program.scope(target).owner(target.id) is self.program.frame(
            target
        )
        if position is not None:
            yield Use((), frozenset(), False)
        elif is_own and depth:
            for definition in self.chains.facts(target).at(target):
                reads = self.chains.facts(target).uses(definition)
                for read in sorted(reads, key=self.program.position):
                    yield from self._use(read, anchor, depth - 1)
        else:
            yield from self._kept(target, anchor, depth) if depth else [Use((), frozenset())]

    def _kept(self, target: ast.expr, anchor: ast.stmt, depth: int) -> Iterator[Use]:
        """How a variable of the module, or an attribute, that a sum is kept in is used."""
        variable = self.chains.variable(target) if isinstance(target, (ast.Name, ast.Attribute)) else None
        reads = self._reads_of(variable) if variable is not None else ()
        for read in reads:
            yield from self._use(read, anchor, depth - 1)
        if not reads:
            yield Use((), frozenset())

    def _returned(self, call: ast.Call, position: int | None, anchor: ast.stmt, depth: int) -> Iterator[Use]:
        """How a caller uses what a function returns."""
        parent = self.program.parent(call)
        if isinstance(parent, ast.Assign) and parent.value is call:
            for target in parent.targets:
                yield from self._followed(target, position, anchor, depth - 1)
        elif position is None:
            yield from self._use(call, anchor, depth - 1)

    # How it is reduced.

    def _how_it_is_divided(self, additions: Sequence[Addition], uses: Sequence[Use], loop: Loop) -> str | None:
        counts = {self._counts_own_batches(d, loop) for u in uses for d in u.divisors}
        if None in counts or len(counts) > 1 or (counts == {True} and any(not u.divisors for u in uses)):
            return None
        divided = {any(self._is_divided(part, loop) for part in a.parts) for a in additions}
        if divided != {False}:  # part by part: `mean += loss / len(loader)`
            return "mean" if divided == {True} and counts <= {False} else None
        return "mean" if counts == {True} else "sum"

    def _counts_own_batches(self, divisor: ast.expr, loop: Loop) -> bool | None:
        """Whether a divisor is the number of batches that one process takes; None where that is not known."""
        if self._named(divisor) & self.added(loop).keys():
            return False  # it is a sum itself
        if names_in(divisor) & names_in(loop.target):
            return None if self.prepared.is_sharded_sequence(loop) else True
        if self.prepared.is_sharded_sequence(loop):
            return False
        values = self._given_to(divisor, 1) or [divisor]
        counts = {self._is_limit(divisor, loop) or self._counts_steps(v, loop) for v in values}
        return counts.pop() if len(counts) == 1 else None

    def _is_limit(self, node: ast.AST, loop: Loop) -> bool:
        """Whether a number is that of the rounds after which each process ends a loop: `islice(loader, limit)`."""
        return any(ast.unparse(limit) == ast.unparse(node) for limit in self._limits(loop))

    def _limits(self, loop: Loop) -> Iterator[ast.expr]:
        held = [v for n in ast.walk(loop.iter) if isinstance(n, ast.Name) for v in self._given_to(n, 1)]
        calls = (n for head in (loop.iter, *held) for n in ast.walk(head) if isinstance(n, ast.Call))
        yield from (limit for call in calls for limit in stops(self.chains, call))
        breaks = [n for n in ast.walk(loop) if isinstance(n, ast.Break) and self.program.loops_round(n)[0] is loop]
        for test in (branch.test for n in breaks for branch, _ in self.program.branches_round(n)):
            if isinstance(test, ast.Compare) and self.program.inside(test, loop) and self.ranks.of(test.left).steps:
                yield from test.comparators

    def _counts_steps(self, node: ast.expr, loop: Loop, depth: int = _DEPTH) -> bool:
        """Whether the number of batches that one process takes goes into a value."""
        parts: list[ast.AST] = [node]
        while parts:
            part = parts.pop()
            if self._is_limit(part, loop) or (isinstance(part, ast.Call) and self._is_length(part, loop)):
                return True
            if isinstance(part, (ast.Name, ast.Attribute)) and (
                self.ranks.of(part).steps
                or any(self._counts_steps(v, loop, depth - 1) for v in self._given_to(part, depth))
            ):
                return True
            if not isinstance(part, ast.Attribute) or isinstance(part.value, ast.Call):  # no object, of an attribute
                parts.extend(ast.iter_child_nodes(part))
        return False

    def _is_length(self, call: ast.Call, loop: Loop) -> bool:
        """`len(loader)`, of what the loop iterates over or of another prepared loader."""
        if ast.unparse(call.func) != "len" or len(call.args) != 1:
            return False
        text = ast.unparse(call.args[0])
        is_gone_over = any(ast.unparse(loader) == text for loader in self._gone_over(loop.iter))
        return is_gone_over or self.ranks.of(call).steps

    def _gone_over(self, node: ast.expr) -> Iterator[ast.expr]:
        """The iterable inside `enumerate(tqdm(loader))`; not the data a loader is made from: `DataLoader(data)`."""
        yield node
        inner: list[ast.expr] = []
        if isinstance(node, ast.IfExp):
            inner = [node.body, node.orelse]
        elif isinstance(node, ast.Call):
            passes = any(map(names.iteration, self.program.called(node))) or self.tracer.is_progress(node)
            inner = self.tracer.gone_over(node) if passes else []
        for each in inner:
            yield from self._gone_over(each)

    def _given_to(self, node: ast.expr, depth: int) -> list[ast.expr]:
        """The values that a variable or an attribute may have been given."""
        values: list[ast.expr | None] = []
        for definition in self.chains.definitions(node) if depth else ():
            if definition.kind is Kind.ASSIGNMENT:
                values.append(assigned_to(self.program, definition.node))
            elif definition.kind is Kind.PARAMETER and definition.variable.scope is not None:
                scope, name = definition.variable.scope, definition.variable.name
                values.extend(self.chains.given(call, scope, name) for call in self.program.calls_of(scope))
        return [value for value in values if value is not None]

    def _is_divided(self, summand: ast.expr, loop: Loop) -> bool:
        """Whether what is added is divided by the number of batches that one process takes."""
        if self.prepared.is_sharded_sequence(loop):
            return False
        names = [n for n in ast.walk(summand) if isinstance(n, ast.Name)]
        nodes = [n for v in [summand, *(v for n in names for v in self._values_in(n, loop))] for n in ast.walk(v)]
        divisors = [n.right for n in nodes if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
        return any(self._counts_steps(d, loop) for d in divisors)

    def _values_in(self, name: ast.Name, loop: Loop) -> list[ast.expr]:
        """The values of a variable that the loop sets."""
        inside = [d for d in self.chains.definitions(name) if self.program.inside(d.node, loop)]
        values = [assigned_to(self.program, d.node) for d in inside if d.kind is Kind.ASSIGNMENT]
        return [value for value in values if value is not None]

    def _how_it_adds(self, additions: Sequence[Addition], loop: Loop) -> str | None:
        summand = Summand(self.program, loop)
        kinds = {self._is_for_each_row(a, loop) or summand.is_of_rows(part) for a in additions for part in a.parts}
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
        values = [node, *self._given_to(node, 1)]
        is_held_together = any(isinstance(v, (ast.List, ast.Tuple, ast.Dict)) for v in values)
        viewed = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        is_of_dict = viewed is not None and "dict" in self.chains.kinds.of(viewed)  # `losses.items()`
        return bool(origins) and not is_held_together and not is_of_dict


def bound_in(loop: Loop | ast.While) -> set[str]:
    """The variables that hold something of one process after a loop."""
    found: set[str] = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and methods.puts_in(node.func.attr):
            found |= names_in(node.func.value)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            found |= names_in(node.value)
    return found


def is_zero(chains: Chains, value: ast.expr | None) -> bool:
    """Whether a sum begins at nothing: a number or a tensor of zeros."""
    while (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and (methods.keeps_values(value.func.attr) or methods.moves(value.func.attr))
    ):
        value = value.func.value
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, (ast.USub, ast.UAdd)):
        return is_zero(chains, value.operand)
    if isinstance(value, ast.Constant):
        return type(value.value) in (int, float) and value.value == 0
    if not isinstance(value, ast.Call):
        return False
    rows = chains.kinds.called(value) or ()
    if rows and all(row.has(Trait.ZEROS) for row in rows):
        return True
    numbers = [a.value for a in ast.walk(value) if isinstance(a, ast.Constant) and not isinstance(a.value, str)]
    converts = bool(rows) and all(row.role is Role.FACTORY or row.has(Trait.SCALAR) for row in rows)
    is_plain = not any(isinstance(a, ast.Name) and isinstance(a.ctx, ast.Load) for g in value.args for a in ast.walk(g))
    return converts and is_plain and bool(value.args) and all(n == 0 for n in numbers if n is not None)


def is_table_of_zeros(chains: Chains, value: ast.expr | None) -> bool:
    """Whether a list or a dict begins with a number of zeros."""
    if isinstance(value, (ast.List, ast.Dict)):
        parts = value.elts if isinstance(value, ast.List) else value.values
        return bool(parts) and all(is_zero(chains, p) for p in parts)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        return any(isinstance(side, ast.List) and is_table_of_zeros(chains, side) for side in (value.left, value.right))
    if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        return is_zero(chains, value.elt)
    if isinstance(value, ast.DictComp):
        return is_zero(chains, value.value)
    is_list = isinstance(value, ast.Call) and ast.unparse(value.func) == "list"
    return is_list and any(is_table_of_zeros(chains, a) for a in value.args)  # type: ignore[union-attr]  # a call
