"""A learning rate schedule that runs N times too fast, or too slow.

    model, loader = accelerator.prepare(model, loader)
    scheduler = get_scheduler("linear", optimizer, num_training_steps=len(loader) * epochs)
    scheduler = accelerator.prepare(scheduler)
    ->
    scheduler = get_scheduler("linear", optimizer, num_training_steps=len(loader) * epochs)
    model, loader, scheduler = accelerator.prepare(model, loader, scheduler)

Why: a prepared schedule advances once for each process in every step, so that its length is that of one process. The
length of a prepared loader is that of N: the schedule is over after 1/N of the training. Read the length before
`prepare`, or multiply it by `accelerator.num_processes`. A schedule that is not prepared advances once in each step:
with the length from before `prepare` it comes to 1/N of its way only. The length of a loader that is sharded is divided
by N already; divided again by the number of processes, it ends too early.
Left alone: lengths that cannot be followed, schedules that are stepped once per epoch, and loaders that split batches.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import Processes
from accelify.codemod.checks.rank_values import RankValues, last
from accelify.codemod.checks.training import Trained
from accelify.codemod.libraries import vocabulary
from accelify.codemod.libraries.row import Asks, Role
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.values import Made

NAME = "skewed_schedule"
_FAST = "this schedule is prepared and ends N times too early: its length is read from a prepared loader"
_SLOW = "this schedule is not prepared and comes to 1/N of its way only: its length is that before `prepare`"
_TWICE = (
    "this schedule ends N times too early: the length of a sharded loader is divided by the number of processes again"
)


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each schedule whose length is not that of the steps which it is advanced by."""
    trained = processes.once(Trained)
    if not processes.is_distributed or any("split_batches" in p.text for p in processes.program.files):
        return
    for made in sorted(trained.made_by(Role.SCHEDULER), key=processes.program.position):
        message = _judged(processes, trained, made)
        if message:
            yield Finding(NAME, made, message)


def _judged(processes: Processes, trained: Trained, made: ast.Call) -> str:
    """The fault in a schedule's length; empty if there is none, or if the length cannot be followed."""
    given = [*made.args, *(k.value for k in made.keywords)]
    sources = list(dict.fromkeys(s for each in given for s in trained.sources(each)))
    loaders = [of for s in sources for of in sizes.measured_in(s)]
    is_prepared = trained.is_given_to_prepare(made)
    if not loaders:
        return ""
    if any(_asks_for_size(processes, s) for s in sources):
        is_again = not is_prepared and any(_divides_by_size(processes, s) for s in sources)
        is_sharded = all(_is_prepared(processes, trained, x) or _is_sampled(processes, x) for x in loaders)
        return _TWICE if is_again and is_sharded and _steps_with_its_batches(trained, made) else ""
    if is_prepared:
        return _FAST if all(_is_prepared(processes, trained, x) for x in loaders) else ""
    is_early = all(_is_prepared_later(processes, trained, x) for x in loaders)
    return _SLOW if is_early and _steps_with_its_batches(trained, made) else ""


def _asks_for_size(processes: Processes, source: ast.expr) -> bool:
    return any(_is_size(processes, n) for n in ast.walk(source))


def _is_size(processes: Processes, node: ast.AST) -> bool:
    """`world_size`, `accelerator.num_processes`, `dist.get_world_size()`."""
    name = last(node.func) if isinstance(node, ast.Call) else last(node)
    return bool(name) and vocabulary.asked_by_name(name) is Asks.SIZE


def _divides_by_size(processes: Processes, source: ast.expr) -> bool:
    """Whether a length is divided by the number of processes."""
    divisions = [n for n in ast.walk(source) if isinstance(n, ast.BinOp) and isinstance(n.op, (ast.Div, ast.FloorDiv))]
    return any(_is_size(processes, n.right) for n in divisions)


def _is_prepared(processes: Processes, trained: Trained, loader: ast.expr) -> bool:
    """Whether every definition that reaches a loader is that of a `prepare`."""
    made = {getattr(s, "value", None) for s in _statements(processes, loader)}
    return bool(made) and made <= set(trained.prepares)


def _is_sampled(processes: Processes, loader: ast.expr) -> bool:
    """Whether a loader has a sampler that shards its data."""
    made = {v.node for v in processes.program.values(loader) if isinstance(v, Made)}
    return bool(made) and made <= processes.once(RankValues).sampled


def _is_prepared_later(processes: Processes, trained: Trained, loader: ast.expr) -> bool:
    """Whether a loader is one of torch's that is given to `prepare`, and is read before that."""
    made = {getattr(s, "value", None) for s in _statements(processes, loader)}
    loaders = {c for c in processes.once(RankValues).loaders.calls_of_loaders if trained.is_given_to_prepare(c)}
    return bool(made) and made <= loaders


def _statements(processes: Processes, loader: ast.expr) -> list[ast.stmt]:
    """The statements that may have given a loader its value, where it is a variable."""
    definitions = processes.chains.definitions(loader) if isinstance(loader, ast.Name) else ()
    return [processes.program.statement(d.node) for d in definitions]


def _steps_with_its_batches(trained: Trained, made: ast.Call) -> bool:
    """Whether a schedule is stepped wherever it is in the loop of a backward pass, and nowhere else."""
    loops = {trained.loop(backward) for backward in trained.backwards} - {None}
    steps = trained.steps(made)
    return bool(steps) and all(trained.loop(step) in loops for step in steps)
