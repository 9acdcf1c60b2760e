"""Finds out how a script is made to go on from a checkpoint that it wrote itself, by trying."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from accelify.verify.runs import Limits, Order
from accelify.verify.scratch import Project
from accelify.verify.trace import Checkpoint, Run

CHECKPOINTS = "checkpoints"  # as `inside/reach.py` calls them, which needs torch
# How long the original may take to its first checkpoint, and how many ways to go on from it are tried. Units: seconds.
SECONDS = 60.0
WAYS = 4
# How many steps are compared from there.
STEPS = 5


@dataclass(frozen=True, slots=True)
class Resume:
    """The project with what the original had written at its first checkpoint, and the arguments to go on from there."""

    project: Project
    arguments: tuple[str, ...]
    words: str

    def of(self, order: Order) -> Order:
        """The order, from there on."""
        project = replace(order.project, root=self.project.root)
        return replace(order, project=project, arguments=(*order.arguments, *self.arguments))


def find_resume(run: Callable[[Order, Limits], Run], original: Order, limits: Limits) -> Resume | None:
    """How the original goes on from a checkpoint: it gives an optimizer a state, and then takes a step.

    None where it does not, as where nothing is left to do after its checkpoint.
    """
    limits = replace(limits, steps=1, seconds=min(limits.seconds, SECONDS), reach=0.0)
    saved = run(replace(original, label="original, to its first checkpoint", until=CHECKPOINTS), limits)
    if saved.error is not None or saved.hang or saved.root is None or not saved.ranks[0].checkpoints:
        return None
    project = replace(original.project, root=saved.root)
    for arguments in islice(_ways(saved, project), WAYS):
        words = f"with {' '.join(arguments)}" if arguments else "from the files that it left"
        found = Resume(project, arguments, words)
        trial = run(found.of(replace(original, label=f"original, resumed {words}")), limits)
        if trial.error is None and not trial.hang and trial.ranks[0].has_resumed and trial.ranks[0].steps:
            return found
    return None


def _ways(saved: Run, project: Project) -> Iterator[tuple[str, ...]]:
    """Arguments that may make the script go on: none, where it looks for files itself; its options."""
    trace = saved.ranks[0]
    yield ()
    renamed = {write.source: write.path for write in trace.writes if write.source}
    written = [(renamed.get(each.path, each.path), each) for each in trace.checkpoints if each.path]
    paths = [path for path, _ in sorted(written, key=lambda pair: not _has_optimizer(pair[1])) if path]
    for name, takes_value in trace.options:
        if takes_value:
            yield from ((name, os.path.relpath(path, project.folder)) for path in dict.fromkeys(paths[:1]))
        else:
            yield (name,)


def _has_optimizer(checkpoint: Checkpoint) -> bool:
    return any("param_groups" in leaf.key for leaf in checkpoint.leaves)
