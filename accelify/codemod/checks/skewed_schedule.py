"""A learning rate schedule that runs N times too fast, or too slow.

    model, loader = accelerator.prepare(model, loader)
    scheduler = get_scheduler("linear", optimizer, num_training_steps=len(loader) * epochs)
    scheduler = accelerator.prepare(scheduler)

Why: a prepared schedule advances once for each process in every step, so that its length is that of one process. The
length of a prepared loader is that of N: the schedule is over after 1/N of the training. Read the length before
`prepare`, or multiply it by `accelerator.num_processes`. A schedule that is not prepared needs the length afterwards.
Left alone: lengths that cannot be followed, that are multiplied, and loaders that split batches.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import Processes
from accelify.codemod.checks.training import Trained
from accelify.codemod.libraries.row import Role

NAME = "skewed_schedule"
_FAST = "this schedule is prepared and ends N times too early: its length is read from a prepared loader"


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each prepared schedule whose length is that of a prepared loader."""
    trained = Trained(processes)
    if not trained.prepares or any("split_batches" in p.text for p in processes.program.files):
        return
    for made in sorted(trained.made_by(Role.SCHEDULER), key=processes.program.position):
        length = next((k.value for k in made.keywords if k.arg in ("num_training_steps", "total_steps", "T_max")), None)
        if length is None or not trained.is_given_to_prepare(made):
            continue
        sources = list(trained.sources(length))
        if any("process" in ast.unparse(s) or "world" in ast.unparse(s) for s in sources):
            continue
        lengths = [n for s in sources for n in ast.walk(s) if _is_length(n)]
        if lengths and all(isinstance(n, ast.Call) and _is_prepared(processes, trained, n.args[0]) for n in lengths):
            yield Finding(NAME, made, _FAST)


def _is_length(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and bool(node.args)


def _is_prepared(processes: Processes, trained: Trained, loader: ast.expr) -> bool:
    """Whether every definition that reaches a loader is that of a `prepare`."""
    nodes = [d.node for d in processes.chains.definitions(loader)] if isinstance(loader, ast.Name) else []
    return bool(nodes) and all(
        any(call is getattr(processes.program.statement(node), "value", None) for call in trained.prepares)
        for node in nodes
    )
