"""Which evaluation loops may be sharded batch by batch, because all that they leave is added up or collected?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from accelify.codemod.libraries import methods
from accelify.codemod.metrics.meters import Metering
from accelify.codemod.metrics.rounds import Rounds, stored_in
from accelify.codemod.metrics.rows.elements import Elements
from accelify.codemod.metrics.rows.lists import Collected, statements_of_each_round
from accelify.codemod.metrics.rows.places import made_at, variable_of
from accelify.codemod.metrics.sums.meter_classes import Meter, Meters
from accelify.codemod.metrics.sums.reductions import Sums
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, names_in
from accelify.codemod.semantics.values import Made
from accelify.codemod.training.certainty import Certainty
from accelify.codemod.training.harmless import Harmless
from accelify.codemod.training.loops.iterables import Iterables
from accelify.codemod.training.loops.nesting import Nesting
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.losses import all_losses, differentiated, without_gradients
from accelify.codemod.training.modes import Modes
from accelify.codemod.training.origins import Origins
from accelify.codemod.training.phases import Phase
from accelify.codemod.training.roles import Roles


@dataclass(frozen=True)
class ShardedEvaluation:
    """An evaluation loop whose loader, at `source`, is sharded in whole batches.

    sums and meters: what is added up over the processes after it. lists: what is gathered. shown: where it shows what
    is one process's own. phase: when it trains, if it does that too. lengths: what is read of the number of the last
    batch, and is the number of all batches.
    """

    loop: ast.For
    source: ast.expr
    sums: tuple[str, ...]
    meters: tuple[tuple[str, Meter], ...]
    lists: tuple[Collected, ...]
    shown: tuple[ast.AST, ...]
    phase: Phase | None = None
    lengths: tuple[ast.expr, ...] = ()


class Batchwise:
    """Find the loops that evaluate a model, and in which no batch needs another."""

    def __init__(
        self, program: Program, roles: Roles, tracer: Tracer, training: Training, prepared: Prepared, sums: Sums
    ) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.training = training
        self.prepared = prepared
        self.sums = sums
        self.nesting = Nesting(program, roles, tracer)
        self.iterables = Iterables(program, roles, tracer)
        steps = [d.loop for d in training.data if d.loop is not None and d.kind == "loaders"]
        self.harmless = Harmless(program, roles, steps)
        self.certainty = Certainty(program, training, self._is_alike)
        self.meters = Meters(program)
        self.metering = Metering(program, tracer, prepared, self.harmless, sums)
        self.modes = Modes(program, roles, tracer, self.harmless)

    def find(self, files: Iterable[str]) -> list[ShardedEvaluation]:
        """The loops in some files."""
        found: list[ShardedEvaluation] = []
        if any(isinstance(c.func, ast.Attribute) and methods.adds_a_hook(c.func.attr) for c in self.program.calls):
            return found  # a forward pass may do anything
        for path in sorted(files):
            for node in self.program.flow.parsed_of[path].parents:
                if isinstance(node, ast.For) and self._is_candidate(node):
                    evaluation = self._sharded(node)
                    if evaluation is not None:
                        found.append(evaluation)
        return found

    def _is_candidate(self, loop: ast.For) -> bool:
        frame = self.program.frame(loop)
        if frame not in self.program.reachable or loop.orelse or frame.kind not in ("module", "function"):
            return False
        phase = self.training.phases.get(loop)
        if phase is None and (self._trains(loop) or self._is_learned_from(loop)):
            return False
        if not self.iterables.is_loader_loop(loop) or not self.certainty.of(loop):
            return False
        return self.modes.evaluates(loop, phase)

    def _is_alike(self, test: ast.expr) -> bool:
        """Whether a condition has the same answer in every process."""
        calls = [n for n in ast.walk(test) if isinstance(n, ast.Call)]
        reads = any(self.harmless.effects.of_call(c).files_read for c in calls)  # which another may write meanwhile
        return not reads and all(map(self.harmless.is_call, calls)) and not self.sums.ranks.is_own(test)

    def _trains(self, loop: ast.For) -> bool:
        return loop in {d.loop for d in self.training.data} or any(
            self.program.inside(b, loop) for b in [*self.training.backwards, *self.training.steps]
        )

    def _is_learned_from(self, loop: ast.For) -> bool:
        """Whether a gradient is taken through what a loop leaves, which `reduce` would cut off: a sum of losses."""
        is_cut = without_gradients(self.program, loop) is not None
        return not is_cut and any(self.program.inside(call, loop) for call in self._learned)

    @cached_property
    def _learned(self) -> list[ast.Call]:
        """The calls whose results are made into that of which gradients are taken."""
        losses = all_losses(self.program, self.training.backwards)
        return Origins(self.program, self.roles, self.tracer).calls([*losses, *differentiated(self.program)])

    def _source(self, loop: ast.For) -> ast.expr | None:
        """The loader that is looped over as a whole: `loader`, `enumerate(loader)`, `tqdm(loader)`."""
        source = self.tracer.inside(loop.iter)
        if not isinstance(source, (ast.Name, ast.Attribute, ast.Subscript)):
            return None
        is_for_some = loop not in self.training.phases and self.prepared.is_loader_for_some(source)
        return None if is_for_some and self._counts(loop, source) else source

    def _counts(self, loop: ast.For, source: ast.expr) -> bool:
        """Whether the number of a loader's batches is asked for, which is another one where it is prepared."""
        text = ast.unparse(source)
        return any(ast.unparse(of) == text for of in sizes.measured_in(self.program.frame(loop).node))

    def _sharded(self, loop: ast.For) -> ShardedEvaluation | None:
        source, phase = self._source(loop), self.training.phases.get(loop)
        rounds = Rounds(self.program, self.tracer, self.harmless, self.meters, loop, phase)
        if source is None or not rounds.are_independent() or not self._forwards(loop):
            return None
        lengths = self._lengths(loop, rounds)
        if lengths is None:
            return None
        rounds.forget(name for name in rounds.sums if self._is_read_inside_alone(name, loop))
        if not all(self._begins(name, loop, rounds) for name in rounds.accumulators):
            return None
        if any(self._reads_last(name, meter, loop) for name, meter in rounds.meters.items()):
            return None
        elements = Elements(self.program, self.tracer, self.harmless, loop)
        if rounds.lists and self._is_in_a_pass(loop):
            return None
        if not all(elements.is_plain(part) for parts in rounds.lists.values() for part in parts):
            return None
        sums = tuple(n for n in rounds.accumulators if n not in rounds.meters and n not in rounds.lists)
        if {variable_of(n) for n in (*rounds.meters, *rounds.lists) if n != variable_of(n)} & {*rounds.accumulators}:
            return None
        meters = tuple((n, rounds.meters[n]) for n in rounds.accumulators if n in rounds.meters)
        lists = [
            Collected(name, self._unit(parts, elements), all(map(elements.is_number, parts)))
            for name, parts in rounds.lists.items()
        ]
        if any(each.per is None and not self._is_order_lost(each.name, loop) for each in lists):
            return None
        if not rounds.accumulators or (phase is not None and not self._are_shared(sums, rounds.lists, loop)):
            return None
        return ShardedEvaluation(loop, source, sums, meters, tuple(lists), tuple(rounds.shown), phase, lengths)

    def _unit(self, parts: list[ast.expr], elements: Elements) -> str | None:
        """The unit that one element of a list stands for, where each round appends the same."""
        loop = elements.loop
        (first, *others) = parts
        value = first.value if isinstance(first, ast.Starred) else first
        ends = any(isinstance(n, ast.Continue) and self.program.loops_round(n)[0] is loop for n in ast.walk(loop))
        if others or ends or self.program.statement(value) not in statements_of_each_round(loop.body):
            return None
        if not isinstance(first, ast.Starred):
            return "batch"
        return None if any(map(elements.may_select, ast.walk(value))) else "row"

    def _is_order_lost(self, name: str, loop: ast.For) -> bool:
        """Whether a list is read for what it says of all elements alike, so that their order does not count."""
        holders = self.program.reads_of(self.program.frame(loop), variable_of(name))
        after = [r for r in holders if not self.program.inside(r, loop) and not self.program.before(r, loop)]
        places = after if name == variable_of(name) else [self.program.parent(r) for r in after]
        keyed = [p for p in places if isinstance(p, ast.Subscript) and isinstance(p.slice, ast.Constant)]
        if name != variable_of(name) and len(keyed) < len(places):
            return False
        reads = [p for p in places if isinstance(p, ast.expr) and ast.unparse(p) == name]
        return bool(reads) and all(map(self.metering.lists.is_meant, reads))

    def _are_shared(self, names: Collection[str], lists: Collection[str], loop: ast.For) -> bool:
        """Whether the sums and lists of a loop are those that are reduced and gathered after it where it trains."""
        alike = (each for each in self.metering.lists_of(loop) if each.trimmed is None and not each.lengths)
        if not set(lists) <= {each.name for each in alike}:
            return False
        reductions = self.sums.of(loop)
        reduced = [n for r in reductions if set(r.names) & set(names) and r.anchor is loop for n in r.names]
        return sorted(reduced) == sorted(names)

    def _forwards(self, loop: ast.For) -> bool:
        """Whether a model is run: what only reads data gains little."""
        return any(
            isinstance(n, ast.Call) and (self.harmless.is_of_module(n) or self.program.flow.callees.get(n))
            for n in ast.walk(loop)
        )

    # Code before a loop, and reads after it.

    def _begins(self, name: str, loop: ast.For, rounds: Rounds) -> bool:
        """Whether an accumulator begins at nothing just before a loop, and gets nothing else on the way to it."""
        frame, variable = self.program.frame(loop), variable_of(name)
        reads = self.program.reads_of(frame, variable)
        first = self._start(frame, variable, loop)
        if first is None or any(self.program.frame(n) is not frame for n in [first, *reads]):
            return False
        if not self._stands_before(self.program.statement(first), loop):
            return False
        value = made_at(self.program, self.tracer.assigned(first), name)
        if name in rounds.sums and _is_empty(value):
            rounds.becomes_a_list(name)
        elif name in rounds.meters:
            if not isinstance(value, ast.Call):
                return False
        elif not (_is_empty(value) if name in rounds.lists else self.sums.is_zero(value)):
            return False
        between = (r for r in reads if self.program.before(first, r) and self.program.before(r, loop))
        return not any(map(self._is_changed_by, between))

    def _start(self, frame: Scope, name: str, loop: ast.For) -> ast.Name | None:
        """Where a variable gets the value with which a loop begins; None where that may be at several places."""
        before = [w for w in self.tracer.writes(frame, name) if self.program.before(w, loop)]
        last = [w for w in before if not any(self.program.before(w, other) for other in before if other is not w)]
        return last[0] if len(last) == 1 and isinstance(last[0], ast.Name) else None

    def _is_read_inside_alone(self, name: str, loop: ast.For) -> bool:
        """Whether nothing outside of a loop reads what it adds up."""
        frame = self.program.frame(loop)
        return frame.is_function and all(self.program.inside(r, loop) for r in self.program.reads_of(frame, name))

    def _stands_before(self, statement: ast.stmt, loop: ast.For) -> bool:
        """Whether a statement is run once before each pass of a loop: in its block, or in one of `with` round it."""
        child: ast.AST = loop
        for ancestor in self.program.ancestors(loop):
            block = self.program.block(child) if isinstance(child, ast.stmt) else []
            if any(s is statement for s in block):
                return True
            if isinstance(ancestor, (*LOOPS, ast.If, ast.Try)) or not isinstance(ancestor, ast.stmt):
                return False
            child = ancestor
        return False

    def _is_changed_by(self, read: ast.Name) -> bool:
        """Whether a variable is read only to change what it holds."""
        parent = self.program.parent(read)
        if isinstance(parent, ast.Attribute):
            return isinstance(parent.ctx, ast.Store) or methods.puts_in(parent.attr)
        return isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store)

    def _lengths(self, loop: ast.For, rounds: Rounds) -> tuple[ast.expr, ...] | None:
        """What counts all batches after a loop; None where the last batch, which one process has, is read otherwise."""
        frame = self.program.frame(loop)
        lengths: list[ast.expr] = []
        for name in sorted(rounds.local):
            inside = [w for w in frame.writes.get(name, ()) if self.program.inside(w, loop)]
            for read in self.program.reads_of(frame, name):
                if self.program.frame(read) is not frame:
                    return None
                if self.program.inside(read, loop) or not self.program.reaching(read, inside):
                    continue
                if self._is_bound_anew(read, loop):
                    continue
                length = self._length(read, loop) if name in rounds.counters else None
                if length is None:
                    return None
                lengths.append(length)
        return tuple(lengths)

    def _is_bound_anew(self, read: ast.Name, loop: ast.For) -> bool:
        """Whether other code binds a name for sure after a loop has, unless a loader there has no batches."""
        child: ast.AST = read
        for ancestor in self.program.ancestors(read):
            block = self.program.block(child) if isinstance(child, ast.stmt) else []
            for statement in reversed(block[: block.index(child)] if isinstance(child, ast.stmt) else []):
                if statement is loop or self.program.inside(loop, statement):
                    return False
                if self._binds(statement, read.id):
                    return True
            if isinstance(ancestor, LOOPS) and self.program.inside(loop, ancestor):
                return False
            child = ancestor
        return False

    def _binds(self, statement: ast.stmt, name: str) -> bool:
        """Whether a statement binds a name: a loop does so, in its target or in each of its rounds."""
        if isinstance(statement, ast.For):
            rounds = statements_of_each_round(statement.body)
            return name in names_in(statement.target) or any(self._binds(s, name) for s in rounds)
        if isinstance(statement, ast.With):
            return any(self._binds(s, name) for s in statement.body)
        return isinstance(statement, (ast.Assign, ast.AnnAssign)) and name in stored_in(statement)

    def _length(self, read: ast.Name, loop: ast.For) -> ast.expr | None:
        """The number of all batches that is calculated from the number of the last: `i + 1` after `enumerate`."""
        numbered = loop.iter if isinstance(loop.iter, ast.Call) else None
        while numbered is not None and "enumerate" not in self.program.called(numbered):
            numbered = numbered.args[0] if numbered.args and isinstance(numbered.args[0], ast.Call) else None
        source = self._source(loop)
        if numbered is None or source is None or not self._has_length(source) or self._is_bound_again(source, loop):
            return None
        start = [*numbered.args[1:], *(k.value for k in numbered.keywords if k.arg == "start")]
        text = ast.unparse(start[0]) if start else "0"
        parent = self.program.parent(read)
        if text == "1" and not isinstance(parent, ast.AugAssign):
            return read
        is_next = isinstance(parent, ast.BinOp) and ast.unparse(parent) in (f"{read.id} + 1", f"1 + {read.id}")
        return parent if text == "0" and is_next and isinstance(parent, ast.BinOp) else None

    def _has_length(self, source: ast.expr) -> bool:
        """Whether a loader has a length: all but those of data without positions."""
        held = self.program.values(source)
        calls = [v.node for v in held if isinstance(v, Made) and isinstance(v.node, ast.Call)]
        given = [n for c in calls for n in (*c.args[:1], *(k.value for k in c.keywords if k.arg == "dataset"))]
        is_known = bool(held) and len(calls) == len(held) and all(map(self.roles.is_torch_loader, held))
        return is_known and not any(self.roles.is_stream(v) for n in given for v in self.program.values(n))

    def _is_bound_again(self, source: ast.expr, loop: ast.For) -> bool:
        """Whether a loader's name gets another value after a loop, before it is run again."""
        parts = {ast.unparse(n) for n in ast.walk(source) if isinstance(n, ast.expr)}
        return any(
            isinstance(n, (ast.Name, ast.Attribute))
            and isinstance(n.ctx, ast.Store)
            and ast.unparse(n) in parts
            and self.program.position(n) > self.program.position(loop)
            for n in ast.walk(self.program.frame(loop).node)
        )

    def _reads_last(self, name: str, meter: Meter, loop: ast.For) -> bool:
        """Whether a meter's value of the last batch is read after a loop."""
        return any(
            self.metering.taken_of(read) in meter.last
            for read in self.program.reads_of(self.program.frame(loop), variable_of(name))
            if self.program.is_after(read, loop)
        )

    def _is_in_a_pass(self, loop: ast.For) -> bool:
        """Whether a loop is run in the middle of a pass over a prepared loader."""
        sharded: set[ast.AST | None] = {d.loop for d in self.training.data} | set(self.prepared.loops)
        return any(outer in sharded for outer in self.nesting.stack(loop))


def _is_empty(value: ast.expr | None) -> bool:
    """`[]` or `list()`."""
    if isinstance(value, ast.Call):
        return ast.unparse(value) == "list()"
    return isinstance(value, ast.List) and not value.elts
