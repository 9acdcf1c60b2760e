"""Which comprehensions count the rows of a prepared loader, so that the processes can count them together?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.semantics.provenance import Tracer


@dataclass(frozen=True, slots=True)
class CountedPass:
    """`sum(len(x) for x, _ in loader)`: the call, and the loader that is sharded for it, in whole batches."""

    call: ast.Call
    source: ast.expr


def counted_passes(ranks: Ranks, tracer: Tracer, files: frozenset[str]) -> Iterator[CountedPass]:
    """Those in some files that a statement keeps, outside of the loops that are sharded."""
    for call in ranks.program.calls:
        counted = call.args[0] if len(call.args) == 1 and not call.keywords else None
        if not isinstance(counted, (ast.GeneratorExp, ast.ListComp)) or ranks.program.path(call) not in files:
            continue
        (over, *others), source = counted.generators, tracer.inside(counted.generators[0].iter)
        if others or over.ifs or not ranks.shards.is_loader(source) or "sum" not in ranks.program.called(call):
            continue
        rows = ranks.of(counted.elt)
        is_of_rows = bool(rows.origins) and rows.origins == rows.of(Mark.ROWS)
        if is_of_rows and _is_kept(ranks, call) and not _is_in_a_round(ranks, call):
            yield CountedPass(call, source)


def _is_kept(ranks: Ranks, call: ast.Call) -> bool:
    """Whether a statement gives the number a name, and nothing divides it by a number of batches."""
    statement = ranks.program.parent(call)
    if not isinstance(statement, ast.Assign):
        return False
    definitions = [d for target in statement.targets for d in ranks.chains.facts(statement).at(target)]
    reads = [read for d in definitions for read in ranks.chains.facts(statement).uses(d)]
    quotients = (ranks.program.parent(read) for read in reads)
    return not any(isinstance(q, ast.BinOp) and ranks.of(q.right).steps for q in quotients)


def _is_in_a_round(ranks: Ranks, call: ast.Call) -> bool:
    frame = ranks.program.frame(call)
    return not ranks.rounds.isdisjoint(ranks.program.loops_round(call)) or bool(ranks.running.loop_that_runs(frame))
