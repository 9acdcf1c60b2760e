"""What the rules are told of metrics: which loops' data are shared, and what is added up or collected over them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from accelify.codemod.metrics.batch_evaluations import Dealing
from accelify.codemod.metrics.meters import Metered, Metering
from accelify.codemod.metrics.rank_local import Locality
from accelify.codemod.metrics.row_evaluations import Gathering
from accelify.codemod.metrics.sums import Reduction, Sums
from accelify.codemod.metrics.trims import Trim, trim_of
from accelify.codemod.options import Options
from accelify.codemod.preparing.placing import Access
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.semantics.call_conditions import Ways
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.training.harmless import Harmless
from accelify.codemod.training.loops import Training
from accelify.codemod.training.roles import Roles

Loop = ast.For | ast.AsyncFor


@dataclass(frozen=True, slots=True)
class Metrics:
    """The table.

    gathered: the loops that evaluate, and gather their rows. dealt: those whose batches are sharded. shared_loops: the
    others whose items are sharded over the processes, each of which keeps what it makes of them. reductions: the sums
    that are reduced after their loops; a script that distributes itself does that by itself. metered: the meters and
    lists of loops over shared data, but for those of `dealt`. sums: what loops add up. locality: which values are one
    process's own.
    """

    measured: Measured
    gathered: tuple[Gathering, ...]
    dealt: tuple[Dealing, ...]
    shared_loops: tuple[Loop, ...]
    reductions: tuple[Reduction, ...]
    metered: tuple[Metered, ...]
    sums: Sums
    locality: Locality

    @property
    def evaluations(self) -> list[ast.For]:
        """The loops that evaluate, each process a part."""
        return [*(g.loop for g in self.gathered), *(d.loop for d in self.dealt)]

    @property
    def put_together(self) -> list[tuple[Loop, list[str]]]:
        """The meters and lists of shared loops that are made those of all processes after them."""
        return _put_together(self.dealt, self.metered)

    def trim(self, reduction: Reduction) -> Trim | None:
        """Where the rows that only even out the last step are left out of sums that are reduced."""
        if reduction.how != "sum" or self.measured.prepared.is_dealt_by_hand(reduction.loop):
            return None
        updates = [call for m in self.metered if m.loop is reduction.loop for call in m.updates]
        return trim_of(self.measured.program, reduction.loop, reduction.names, updates)


@dataclass(frozen=True, slots=True)
class Measured:
    """A program with what is prepared in it, as far as its metrics need it."""

    program: Program
    roles: Roles
    tracer: Tracer
    training: Training
    prepared: Prepared
    options: Options

    def sums(self) -> Sums:
        """What its loops add up."""
        splits = self.options.keep_global_batch
        return Sums(self.program, self.tracer, self.prepared, splits, self.training.phases, self.trains_only_if)

    def trains_only_if(self, loop: ast.AST) -> str | None:
        """The condition under which a loop whose items are sharded trains; None where it does so always."""
        if not self.prepared.is_dealt_by_hand(loop):
            return None
        frame = self.program.frame(loop)
        return Ways(self.program, self.tracer).only_if(frame, self.training.told.get(frame, frozenset()))

    def shared_loops(self, files: frozenset[str], evaluations: Sequence[ast.For]) -> tuple[Loop, ...]:
        """The loops of some files whose items are sharded, but for those that evaluate."""
        found: set[ast.AST | None] = {n for n in self.prepared.loops if self.program.path(n) in files}
        found -= set(evaluations)
        found |= {d.loop for d in self.training.data if d.kind == "loaders"}
        found |= {d.loop for d, _ in self.prepared.preparation.sharded}
        loops = [n for n in found if isinstance(n, (ast.For, ast.AsyncFor))]
        return tuple(sorted(loops, key=self.program.position))


def metrics_of(
    measured: Measured,
    files: frozenset[str],
    access: Access,
    gathered: tuple[Gathering, ...],
    dealt: tuple[Dealing, ...],
    *,
    by_hand: bool,
) -> Metrics:
    """The table of some files."""
    program, sums = measured.program, measured.sums()
    shared = measured.shared_loops(files, [*(g.loop for g in gathered), *(d.loop for d in dealt)])
    loops = [n for n in shared if access.at(n) is not None]
    if by_hand or not measured.options.runtime.has("reduce"):
        loops = []
    reductions = tuple(_in_all_phases(reduction, dealt) for loop in loops for reduction in sums.of(loop))
    metering = Metering(program, measured.tracer, measured.prepared, Harmless(program, measured.roles))
    metered = tuple(metering.of(n) for n in loops if n not in {d.loop for d in dealt})
    locality = _locality(measured, shared, [*((r.loop, r.names) for r in reductions), *_put_together(dealt, metered)])
    return Metrics(measured, gathered, dealt, shared, reductions, metered, sums, locality)


def _in_all_phases(reduction: Reduction, dealt: Sequence[Dealing]) -> Reduction:
    """A reduction that is made where its loop evaluates, too, if that is sharded then."""
    shared = {name for d in dealt if d.loop is reduction.loop for name in d.sums}
    if shared.isdisjoint(reduction.names):
        return reduction
    return replace(reduction, condition=None, training=reduction.condition)


def _put_together(dealt: Sequence[Dealing], metered: Sequence[Metered]) -> list[tuple[Loop, list[str]]]:
    listed = [*((d.loop, d.meters, ()) for d in dealt), *((m.loop, m.together, m.lists) for m in metered)]
    return [(loop, [*(name for name, _ in meters), *lists]) for loop, meters, lists in listed]


def _locality(measured: Measured, shared: Sequence[Loop], reduced: Sequence[tuple[Loop, Sequence[str]]]) -> Locality:
    program, training, prepared = measured.program, measured.training, measured.prepared
    counting = {  # loops that ask for their batches by `next`
        d.loop
        for d in training.data
        if isinstance(d.loop, ast.For) and not any(program.inside(s, d.loop.iter) for s in d.sources)
    }
    dealing = [loop for loop in shared if loop not in counting or loop in prepared.loops]
    return Locality(program, dealing, reduced, draws=any(d.kind == "random" for d in training.data))
