"""A sampler that shuffles, and is never given the epoch.

    for epoch in range(epochs):                  for epoch in range(epochs):
        for x, y in train_loader:         ->         train_sampler.set_epoch(epoch)
                                                     for x, y in train_loader:

Why: a `DistributedSampler` draws its order from its seed and the epoch. Without `set_epoch` each epoch goes over the
same order, and every process sees the same part of the data again, as long as the run lasts.
Left alone: samplers with `shuffle=False`, those of data that nothing is trained on, and programs that call `set_epoch`
anywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.loaders import Loaders, Sampled
from accelify.codemod.checks.processes import Processes
from accelify.codemod.edits.values import Edit, Insert

NAME = "missing_set_epoch"
_MESSAGE = "no `set_epoch` is called for this sampler: every epoch has the same order: call `sampler.set_epoch(epoch)`"


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each sampler that shuffles data which is trained on for several epochs."""
    if any("set_epoch" in parsed.text for parsed in processes.program.files):
        return
    loaders = processes.program.once(Loaders)
    for sampled in loaders.sampled:
        trained = [loop for loop in sampled.loops if loaders.trains(loop) and loaders.epochs_round(loop)]
        if sampled.shuffles and trained:
            yield Finding(NAME, sampled.sampler, _MESSAGE, _fix(processes, loaders, sampled))


def _fix(processes: Processes, loaders: Loaders, sampled: Sampled) -> tuple[Edit, ...]:
    """`sampler.set_epoch(epoch)` at the top of the loop, where all three stand in one function."""
    program, statement = processes.program, processes.program.statement(sampled.sampler)
    if not isinstance(statement, ast.Assign) or statement.value is not sampled.sampler or len(sampled.loops) != 1:
        return ()
    target, (loop,) = statement.targets[0], sampled.loops
    around = program.loops_round(loop)
    if len(around) != 1 or not isinstance(around[0], ast.For) or not isinstance(target, ast.Name):
        return ()
    epoch = around[0].target
    is_near = program.frame(loop) is program.frame(statement) and len(statement.targets) == 1
    is_counted = ast.unparse(around[0].iter).startswith(("range(", "trange("))
    is_always = program.control_flow(loop).dominates(statement, loop)
    if not (is_near and is_counted and is_always and isinstance(epoch, ast.Name)):
        return ()
    return (Insert(around[0].body[0], "before", f"{target.id}.set_epoch({epoch.id})"),)
