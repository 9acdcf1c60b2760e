"""Notes on loops and functions that go over a loader and are not sharded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from accelify.codemod.distributed.findings import Guards
from accelify.codemod.edits.values import Remark
from accelify.codemod.libraries.row import Trait
from accelify.codemod.metrics.sums.reductions import bound_in
from accelify.codemod.result import Tier
from accelify.codemod.rules.notes.remarks import NAME, review, run_by_files
from accelify.codemod.script import Script
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.scopes import names_in
from accelify.codemod.training.loops.iterables import Iterables

_SHARD = "{}, called with a prepared loader, sees this process's shard only, and so do its sums"


def whole(script: Script) -> Iterator[Remark]:
    """Loops over loaders that are not sharded, in the changed files."""
    known = {*script.metrics.shared_loops, *script.metrics.evaluations}
    guards = Guards(script.program, script.distribution) if script.distribution is not None else None
    for path in sorted(script.files):
        for node in script.program.flow.parsed_of[path].parents:
            if not isinstance(node, (ast.For, ast.AsyncFor)) or node in known or script.program.frame(node).generates:
                continue
            if not (isinstance(node, ast.For) and guards is not None and guards.only_main_runs(node)):
                yield from _evaluation(script, node)


def elsewhere(script: Script) -> Iterator[Remark]:
    """Loops of files that do not change, over loaders: each is said where a changed file calls what holds it."""
    others = (parsed for parsed in script.program.files if parsed.path not in script.files)
    for node in (n for parsed in others for n in parsed.nodes if isinstance(n, (ast.For, ast.AsyncFor))):
        frame = script.program.frame(node)
        if frame not in script.run.run or frame.generates:
            continue
        calls = run_by_files(script, node)
        for remark in _evaluation(script, node, "the loop in {0}"):
            lines = (((script.path(node), node),),)
            for call in (c for c in calls if c is not node):
                yield replace(remark, path=script.path(call), node=call, lines=lines, once=True)
        if not calls or node in calls:
            yield from _evaluation(script, node)


def by_libraries(script: Script) -> Iterator[Remark]:
    """Functions of libraries that iterate over a prepared loader: each process has a result of its own."""
    kinds = script.program.once(Kinds)
    for call in script.program.calls:
        rows = kinds.called(call) if script.path(call) in script.files and not script.is_by_hand else None
        given = [*call.args, *(k.value for k in call.keywords)]
        is_gone_over = rows and all(row.has(Trait.GOES_OVER) for row in rows)
        loader = next(filter(script.prepared.is_loader, given if is_gone_over else ()), None)
        # The statistics of a prepared model become means over the processes where the loop over its loader ends.
        if loader is not None and not any(map(script.prepared.is_model, given)):
            message = (
                f"this goes over the shard of each process, and `{ast.unparse(loader)}` is prepared: what it computes "
                "differs between the processes; give it a loader that is not prepared"
            )
            yield review(script, call, message)


def _evaluation(script: Script, loop: ast.For | ast.AsyncFor, named: str = "this loop") -> Iterator[Remark]:
    if not _iterates_a_loader(script, loop) or _goes_over_parts(script, loop) or script.run.experience.holds(loop.iter):
        return
    if not script.program.control_flow(loop).repeats(loop):
        return  # it takes one batch
    if any(script.program.inside(nested.backward, loop) for nested in script.training.nested):
        return  # it trains for this process alone
    if any(script.program.inside(shared, loop) for shared in script.metrics.shared_loops):
        return  # what each of its rounds goes over is sharded
    if script.prepared.is_loader_for_some(loop.iter):
        if any(report.loop is loop for report in script.metrics.reports):
            return  # which name what it adds up
        yield Remark(NAME, script.path(loop), loop, _SHARD.format(named), Tier.REVIEW)
    elif metrics := sorted(_metrics_in(script, loop)):
        message = (
            f"{named} is not sharded, but {', '.join(metrics)} sums across processes by itself: sums and counts "
            "come out N times as large, means are unchanged"
        )
        yield review(script, loop, message)
    elif script.metrics.ranks.draws.draws_batches(loop):
        message = (
            f"{named} is not sharded, but it is run within a loop over sharded data, where each process draws random "
            "numbers of its own: if it draws in evaluation, too, processes evaluate different batches, and what the "
            "main process shows or saves is its own value"
        )
        yield Remark(NAME, script.path(loop), loop, message, Tier.ADVICE)


def _iterates_a_loader(script: Script, loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop iterates over a loader of batches."""
    return Iterables(script.program, script.roles, script.tracer).is_loader_loop(loop)


def _metrics_in(script: Script, loop: ast.For | ast.AsyncFor) -> set[str]:
    """The metrics that get something in a loop and add up over the processes by themselves: `acc(x, y)`."""
    calls = [n.func for n in ast.walk(loop) if isinstance(n, ast.Call)]
    given = [f.value if isinstance(f, ast.Attribute) and f.attr == "update" else f for f in calls]
    return {f"`{ast.unparse(g)}`" for g in given if script.roles.adds_up_itself(g)}


def _goes_over_parts(script: Script, loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop iterates over parts of a batch, or of what was collected: `zip(shown, labels)`, `preds[:5]`."""
    if any(isinstance(n, ast.Slice) for n in ast.walk(loop.iter)):
        return True
    round_it = [n for n in script.program.loops_round(loop) if isinstance(n, ast.For) and n is not loop]
    return any(_iterates_a_loader(script, n) and names_in(loop.iter) & bound_in(n) for n in round_it)
