"""The facts of metrics that rules read: which loops' data are shared, and what is added up or collected over them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from accelify.codemod.libraries import methods, table
from accelify.codemod.libraries.row import Role, Row, Same
from accelify.codemod.metrics.batch_evaluations import ShardedEvaluation
from accelify.codemod.metrics.counted_passes import CountedPass, counted_passes
from accelify.codemod.metrics.meters import Metered, Metering
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.metrics.ranks.shards import Shards
from accelify.codemod.metrics.reports import Report, Reports, updated_text
from accelify.codemod.metrics.rows.trims import Trim, trim_of
from accelify.codemod.metrics.sums.reductions import Reduction, Sums
from accelify.codemod.options import Options
from accelify.codemod.preparing.placing import Access
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.semantics.call_conditions import Ways
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where
from accelify.codemod.semantics.definitions import Definition
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.values import Constant, Element, Instance, Made, Value
from accelify.codemod.training.experience import Experience
from accelify.codemod.training.harmless import Harmless
from accelify.codemod.training.item_numbers import sets_learning_rate
from accelify.codemod.training.loops.iterables import Iterables
from accelify.codemod.training.loops.nesting import Nesting
from accelify.codemod.training.loops.range_ends import range_end
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.losses import all_losses
from accelify.codemod.training.randomness.environment_seeds import EnvironmentSeeds
from accelify.codemod.training.randomness.loader_draws import LoaderDraws
from accelify.codemod.training.randomness.workers import run_beside
from accelify.codemod.training.roles import Roles

Loop = ast.For | ast.AsyncFor


@dataclass(frozen=True, slots=True)
class Metrics:
    """The table.

    sharded: the loops that evaluate, sharded batch by batch. shared_loops: the others whose items are sharded over the
    processes, each of which keeps what it makes of them. reductions: the sums that are reduced after their loops; a
    script that distributes itself does that by itself. metered: the meters and lists of loops over shared data, but for
    those of `sharded`. counted: the comprehensions that count rows for all processes. divided_by_steps: sums over all
    data that a number of one process's batches divides, with that. ranks: which values are one process's own, once what
    is reduced is everyone's. reports: those that leave the training though nothing reduced them over all ranks.
    draws_alike: whether all ranks draw the same training data, as a step sets its own learning rate by what it draws.
    """

    measured: Measured
    sharded: tuple[ShardedEvaluation, ...]
    shared_loops: tuple[Loop, ...]
    reductions: tuple[Reduction, ...]
    metered: tuple[Metered, ...]
    counted: tuple[CountedPass, ...]
    divided_by_steps: tuple[tuple[str, ast.expr], ...]
    ranks: Ranks
    reports: tuple[Report, ...]
    draws_alike: bool = False

    @property
    def evaluations(self) -> list[ast.For]:
        """The loops that evaluate, each process a part."""
        return [d.loop for d in self.sharded]

    def has_full_steps(self, loop: Loop) -> bool:
        """Whether a loop's loader drops what does not fill a batch on each process, so that no row is repeated."""
        measured = self.measured
        values = measured.yielding(loop)
        is_known = bool(values) and not measured.options.keep_global_batch
        return is_known and all(isinstance(v, Made) and _drops_last(v.node) for v in values)

    def trim(self, reduction: Reduction) -> Trim | None:
        """Where the rows that only even out the last step are left out of sums that are reduced."""
        loop = reduction.loop
        if reduction.how != "sum" or self.measured.prepared.is_sharded_sequence(loop) or self.has_full_steps(loop):
            return None
        updates = [call for m in self.metered if m.loop is reduction.loop for call in m.updates]
        return trim_of(self.measured.program, reduction.loop, reduction.names, updates)


def _drops_last(made: ast.AST) -> bool:
    given = made.keywords if isinstance(made, ast.Call) else []
    return any(k.arg == "drop_last" and isinstance(k.value, ast.Constant) and k.value.value is True for k in given)


@dataclass(frozen=True, slots=True)
class Measured:
    """A program with what is prepared in it, as far as its metrics need it."""

    program: Program
    roles: Roles
    tracer: Tracer
    training: Training
    prepared: Prepared
    options: Options
    chains: Chains

    @property
    def range_ends(self) -> frozenset[ast.If]:
        """The conditions that leave out the last numbers of a sharded range, which ends before them instead."""
        found = (range_end(self.chains, d.loop, source) for d, source in self.prepared.preparation.sharded)
        return frozenset(end.node for end in found if end is not None)

    def shard_of(self, loop: Loop | ast.While) -> ast.expr | None:
        """What `shard` is given for a loop, where it divides that whenever the loop runs, and to its end."""
        source = next((source for d, source in self.prepared.preparation.sharded if d.loop is loop), None)
        if source is None or self.trains_only_if(loop) is not None:
            return None
        return source if range_end(self.chains, loop, source) is None else None

    def yielding(self, loop: Loop) -> set[Value]:
        """The loaders, or other objects, whose items a loop gets, whatever it names what shows its progress."""
        return Iterables(self.program, self.roles, self.tracer).yielding(loop)

    def sums(self, shared: Sequence[Loop]) -> Sums:
        """The sums that its loops make, some of them shared."""
        ranks = Ranks(self.chains, self.shards(shared))  # before anything is reduced
        splits, phases = self.options.keep_global_batch, self.training.phases
        asking = frozenset(loop for loop in shared if self.asks_prepared_loaders(loop))
        return Sums(self.chains, ranks, self.prepared, splits, phases, self.trains_only_if, asking)

    def metering(self, sums: Sums, shared: Sequence[Loop]) -> Metering:
        """The meters and lists of its loops, some of them shared."""
        asking = frozenset(loop for loop in shared if self.asks_prepared_loaders(loop))
        harmless = Harmless(self.program, self.roles)
        return Metering(self.program, self.tracer, self.prepared, harmless, sums, asking)

    def combined_loops(self, shared: Sequence[Loop]) -> Iterator[Loop]:
        """The shared loops after which sums, meters or lists can be combined across processes."""
        sums = self.sums(shared)
        metering = self.metering(sums, shared)
        for loop in shared:
            metered = metering.of(loop)
            if metered.together or metered.lists or any(sums.of(loop)):
                yield loop

    def shards(self, shared: Sequence[Loop]) -> Shards:
        """Where ranks get data of their own."""
        rounds = [loop for loop in shared if loop not in self.prepared.loops and self._asks_for_batches(loop)]
        endless = [d.loop for d in self.training.data if d.kind == "loaders" and isinstance(d.loop, ast.While)]
        random = [d for d in self.training.data if d.kind == "random"]
        # The results of an environment are a rank's own by intent.
        asks = Experience(self.program, self.tracer).asks
        drawn = tuple(d.loop for d in random if d.loop is not None and not asks)
        loops = tuple(loop for loop in shared if loop not in rounds)
        return Shards(
            loops,
            (*rounds, *endless, *drawn),
            self._may_be_sharded_loader,
            self._is_alike,
            bool(random),
            drawn,
            LoaderDraws(self.program, self.roles),
            tuple(loop for loop in loops if self.prepared.is_sharded_sequence(loop)),
        )

    def _asks_for_batches(self, loop: Loop) -> bool:
        """Whether a loop's items are no batches, which it gets by `next`."""
        listed = [s for d in self.training.data if d.loop is loop for s in d.sources]
        return bool(listed) and all(map(self._is_asked, listed))

    def asks_prepared_loaders(self, loop: Loop) -> bool:
        """Whether each batch of a loop is got by `next`, from a loader that is prepared whoever calls the loop."""
        listed = [s for d in self.training.data if d.loop is loop and d.kind == "loaders" for s in d.sources]
        return self._asks_for_batches(loop) and bool(listed) and all(map(self._is_sharded_loader, listed))

    def _is_asked(self, source: ast.expr) -> bool:
        parent = self.program.parent(source)
        if isinstance(parent, ast.Attribute):
            return methods.takes_the_next(parent.attr)
        return isinstance(parent, ast.Call) and "next" in self.program.called(parent)

    def sets_learning_rate(self, shared: Collection[ast.AST], ranks: Ranks) -> bool:
        """Whether a step sets its own learning rate, which ranks with random numbers of their own might set apart."""
        listed = list(self.training.loops.values())
        places: set[ast.AST] = {loop for loops in listed for loop in loops[:1]}
        places |= {f.node for f in map(self.program.frame, self.training.backwards) if f.kind == "function"}
        setting = [node for place in places for node in ast.walk(place) if sets_learning_rate(node)]
        return bool(setting and shared) or any(map(ranks.sets_own, setting))

    @property
    def plays_alike(self) -> bool:
        """Whether ranks that draw alike have the same episodes, too: the system seeds what the script does not."""
        nesting, beside = Nesting(self.program, self.roles, self.tracer), run_beside(self.program, self.training.frames)
        return EnvironmentSeeds(self.program, self.roles, nesting, self.training, beside).are_complete

    def is_of_whole_phase(self, node: ast.AST, sharded: Collection[ast.AST]) -> bool:
        """Whether a place is reached only where a loop that trains in another phase evaluates all of the data."""
        phases = [self.training.phases.get(loop) for loop in self.program.loops_round(node) if loop not in sharded]
        return any(
            phase is not None and self.program.inside(branching, phase.loop) and phase.is_over(branching.test, holds)
            for phase in phases
            for branching, holds in self.program.branches_round(node)
        )

    def _is_sharded_loader(self, node: ast.expr) -> bool:
        return bool(self.program.values(node)) and self.prepared.is_loader(node)

    def _may_be_sharded_loader(self, node: ast.expr) -> bool:
        """Whether an expression is a prepared loader, at least for some callers."""
        return self._is_sharded_loader(node) or self.prepared.is_loader_for_some(node)

    def _is_alike(self, node: ast.expr) -> bool:
        """Whether an expression holds what all processes have alike: a model, an optimizer, a prepared loader."""
        held = [v for v in self.program.values(node) if not isinstance(v, Constant)]
        if any(isinstance(v, Element) and self.roles.is_loader(v.owner) for v in held):
            return False
        is_role = bool(held) and all(map(self._is_in_training, held))
        if self._is_of_losses(node, held) and not self.prepared.is_model(node):
            return False  # the weights of its classes are what it was made with
        if isinstance(node, ast.Attribute) and node.attr == "param_groups":
            return is_role or any(map(self.roles.is_optimizer, self.program.values(node.value)))
        if is_role and any(map(self.roles.is_loader, held)) and not self._may_be_sharded_loader(node):
            return False  # every process iterates over all of it, which may be rows that it has drawn
        return is_role or self.prepared.is_model(node) or self.roles.adds_up_itself(node)

    def _is_of_losses(self, node: ast.expr, held: Sequence[Value]) -> bool:
        """Whether an expression is a loss, of a library or a module of the project's own that has no weights."""
        return self.chains.kinds.of(node) == {"loss"} or (bool(held) and all(map(self._has_no_weights, held)))

    def _has_no_weights(self, value: Value) -> bool:
        roles, prepared = self.roles, self.prepared.preparation.models
        is_own = isinstance(value, Instance) and roles.is_module(value) and not roles.has_weights(value.cls)
        return is_own and value not in prepared and value not in roles.trained

    def _is_in_training(self, value: Value) -> bool:
        roles = self.roles
        kinds = (roles.is_model, roles.is_module, roles.is_optimizer, roles.is_scheduler, roles.is_loader)
        row = table.function(value.name) if isinstance(value, Made) else None
        return any(is_it(value) for is_it in kinds) or (row is not None and row.role is Role.SCALER)

    def trains_only_if(self, loop: ast.AST) -> str | None:
        """The condition under which a loop whose items are sharded trains; None where it does so always."""
        if not self.prepared.is_sharded_sequence(loop):
            return None
        frame = self.program.frame(loop)
        return Ways(self.program, self.tracer).only_if(frame, self.training.ways.get(frame, frozenset()))

    def shared_loops(self, files: frozenset[str], evaluations: Sequence[ast.For]) -> tuple[Loop, ...]:
        """The loops of some files whose items are sharded, but for those that evaluate."""
        found: set[ast.AST | None] = {n for n in self.prepared.loops if self.program.path(n) in files}
        found -= set(evaluations)
        found |= {d.loop for d in self.training.data if d.kind == "loaders"}
        found |= {d.loop for d, _ in self.prepared.preparation.sharded}
        loops = [n for n in found if isinstance(n, (ast.For, ast.AsyncFor))]
        return tuple(sorted(loops, key=self.program.position))

    def loops_over_all(self, files: frozenset[str], shared: Collection[ast.AST]) -> Iterator[Loop]:
        """The loops of some files over loaders of which each process takes all batches, or its part of them."""
        for node in (n for path in sorted(files) for n in self.program.flow.parsed_of[path].nodes):
            if isinstance(node, (ast.For, ast.AsyncFor)) and node not in shared:
                source = self.tracer.inside(node.iter)
                if any(map(self.roles.is_loader, self.program.values(source))) and not self.prepared.is_loader(source):
                    yield node

    def loops_shared_for_some(self, files: frozenset[str], others: Collection[ast.AST]) -> Iterator[Loop]:
        """The loops of some files, but for others, that iterate over a prepared loader for some of their callers."""
        nodes = (n for path in sorted(files) for n in self.program.flow.parsed_of[path].nodes)
        for node in nodes:
            if not isinstance(node, (ast.For, ast.AsyncFor)) or node in others or not self.program.values(node.iter):
                continue
            if self.prepared.is_loader_for_some(node.iter):
                yield node


def metrics_of(
    measured: Measured,
    files: frozenset[str],
    access: Access,
    sharded: tuple[ShardedEvaluation, ...],
    *,
    by_hand: bool,
) -> Metrics:
    """The table of some files."""
    program = measured.program
    evaluations = [d.loop for d in sharded]
    shared = measured.shared_loops(files, evaluations)
    loops = [n for n in shared if access.at(n) is not None]
    if by_hand or not measured.options.runtime.has("reduce"):
        loops = []
    sums = measured.sums(shared)
    reductions = tuple(_in_all_phases(r, sharded) for r in _once(r for loop in loops for r in sums.of(loop)))
    metering = measured.metering(sums, loops)
    metered = tuple(metering.of(n) for n in loops if n not in {d.loop for d in sharded})
    reduced = [((r.anchor, *(f.node for f in r.methods)), name) for r in reductions for name in r.names]
    reduced += [((loop,), name) for loop, names in _put_together(sharded, metered) for name in names]
    settled = _Settled(measured.chains, tuple(reduced), tuple(_reduced_by_hand(measured.chains)) if by_hand else ())
    shared_at_times = [*shared, *measured.loops_shared_for_some(files, {*shared, *evaluations})]
    reduces = not by_hand and measured.options.runtime.has("reduce")
    passes = counted_passes(sums.ranks, measured.tracer, files) if reduces else ()
    counted = tuple(c for c in passes if access.at(c.call) is not None)
    shards = replace(measured.shards(shared_at_times), whole=frozenset(c.call for c in counted))
    ranks = Ranks(measured.chains, shards, settled)
    draws_alike = shards.draws and measured.sets_learning_rate(shared, ranks) and measured.plays_alike
    if draws_alike:
        rounds = tuple(loop for loop in shards.rounds if loop not in shards.drawn)
        ranks = Ranks(measured.chains, replace(shards, rounds=rounds, draws=False, drawn=()), settled)
    found = Reports(ranks, settled.holds, all_losses(program, measured.training.backwards)).find()
    reports = tuple(r for r in found if not measured.is_of_whole_phase(r.node, evaluations))
    over_all = () if by_hand or measured.options.keep_global_batch else measured.loops_over_all(files, shared)
    lengths = {node for evaluation in sharded for node in evaluation.lengths}
    divided = tuple(pair for loop in over_all for pair in sums.divided_by_steps(loop) if pair[1] not in lengths)
    return Metrics(measured, sharded, shared, reductions, metered, counted, divided, ranks, reports, draws_alike)


def _once(reductions: Iterable[Reduction]) -> Iterator[Reduction]:
    """Some reductions, each sum in one of them: rounds within rounds add to the same, up to the same statement."""
    made = set[tuple[ast.stmt, str]]()
    for each in reductions:
        left = tuple(name for name in each.names if (each.anchor, name) not in made)
        made.update((each.anchor, name) for name in left)
        if left:
            yield each if left == each.names else replace(each, names=left)


def ranks_by_hand(chains: Chains, shards: Shards) -> Ranks:
    """Which values are one rank's own in a script that reduces by itself what it reduces."""
    return Ranks(chains, shards, _Settled(chains, (), tuple(_reduced_by_hand(chains))))


@dataclass(frozen=True, slots=True)
class _Settled:
    """The values that become the same on all ranks, and the statements after which they are.

    reduced: the loop after which a variable is, with the methods in which that changes it, too.
    by_hand: what the script reduces itself, with the statements: the question whether there are several processes, too.
    """

    chains: Chains
    reduced: tuple[tuple[tuple[ast.AST, ...], str], ...]
    by_hand: tuple[tuple[ast.expr, tuple[ast.AST, ...]], ...] = ()

    def __call__(self, ranks: Ranks, definition: Definition, read: ast.AST) -> bool:
        """Whether what a definition gave has become the same on all ranks where it is read."""
        if any(not self._is_during(ranks, read, anchor) for anchor in self._anchors(definition.node)):
            return True
        return any(self._lies_between(each, statements, definition, read) for each, statements in self.by_hand)

    def _lies_between(
        self, changed: ast.expr, statements: Sequence[ast.AST], definition: Definition, read: ast.AST
    ) -> bool:
        """Whether what the script reduces is what a definition gave, on each way to where it is read."""
        if self.chains.variable(changed) != definition.variable or self.chains.program.inside(read, statements[0]):
            return False
        if len({self.chains.program.path(n) for n in (read, definition.node, *statements)}) > 1:
            return False  # an attribute that several files know
        return definition.node is statements[0] or not self.chains.flow(read).reaches(
            definition.node, read, without=statements
        )

    def holds(self, node: ast.AST) -> bool:
        """Whether what a definition gives becomes the same on all ranks at some time."""
        return bool(self._anchors(node))

    def _anchors(self, node: ast.AST) -> list[ast.AST]:
        """The loops after which what a definition changes is reduced."""
        inside = self.chains.program.in_rounds
        around = [(places[0], name) for places, name in self.reduced if any(inside(node, p) for p in places)]
        if around and isinstance(node, ast.Call):  # `meters["loss"].update(x)`: one place of what holds them
            places = {ast.unparse(changed) for changed in self.chains.changed_by(node)}
            around = [
                (anchor, name if name not in places else updated_text(self.chains, node)) for anchor, name in around
            ]
        while around and isinstance(node, ast.Subscript):
            node = node.value
        return [anchor for anchor, name in around if name == updated_text(self.chains, node)]

    def _is_during(self, ranks: Ranks, read: ast.AST, anchor: ast.AST) -> bool:
        program = self.chains.program
        if program.in_rounds(read, anchor):
            return True
        frame = program.frame(read)
        return frame is not program.frame(anchor) and ranks.running.loop_that_runs(frame) is anchor


def _reduced_by_hand(chains: Chains) -> Iterator[tuple[ast.expr, tuple[ast.AST, ...]]]:
    """The values that calls of a script's own reduce over all ranks, with the calls and the questions round them.

    A method that reduces does so for its object: `meter.synchronize()`.
    """
    program, conditions = chains.program, chains.program.once(Conditions)
    several = worlds_where(Process.MAIN) | worlds_where(Process.OTHER)
    reducing = [c for c in program.calls if any(map(_reduces, chains.kinds.called(c) or ()))]
    frames = {program.frame(c) for c in reducing}
    methods_of_objects = [
        c
        for c in program.calls
        if isinstance(c.func, ast.Attribute)
        and (callees := program.flow.callees.get(c))
        and all(callee.is_method and not frames.isdisjoint(program.run_from([callee])) for callee in callees)
    ]
    for call in [*reducing, *methods_of_objects]:
        around = [b for b, _ in program.branches_round(call) if isinstance(b, ast.If)]
        asking = [b for b in around if conditions.truth_in(b.test, several) is True]
        for changed in chains.changed_by(call):
            is_its_own = call in reducing or changed is getattr(call.func, "value", None)
            yield from [(changed, (call, *asking))] if is_its_own else ()


def _reduces(row: Row) -> bool:
    """Whether a library's function reduces its argument over all ranks."""
    return row.role is Role.COLLECTIVE and row.same is Same.YES and bool(row.mutates)


def _in_all_phases(reduction: Reduction, sharded: Sequence[ShardedEvaluation]) -> Reduction:
    """A reduction that is made where its loop evaluates, too, if that is sharded then."""
    shared = {name for d in sharded if d.loop is reduction.loop for name in d.sums}
    if shared.isdisjoint(reduction.names):
        return reduction
    return replace(reduction, condition=None, training=reduction.condition)


def _put_together(sharded: Sequence[ShardedEvaluation], metered: Sequence[Metered]) -> list[tuple[Loop, list[str]]]:
    listed = [
        *((d.loop, d.meters, tuple(c.name for c in d.lists)) for d in sharded),
        *((m.loop, m.together, tuple(c.name for c in m.lists)) for m in metered),
    ]
    return [(loop, [*(name for name, _ in meters), *lists]) for loop, meters, lists in listed]
