"""An optimizer that is stepped beside the accelerator.

    model, loader = accelerator.prepare(model, loader)
    ->
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

Why: the accelerator does not know of it. Its gradients are not unscaled in fp16, it steps in each of several
accumulated passes, and its state is not in the checkpoints that the accelerator saves.
Left alone: scripts that prepare a list which is filled elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import Processes
from accelify.codemod.checks.training import Trained
from accelify.codemod.libraries.row import Role

NAME = "not_prepared"
_MESSAGE = "this optimizer is stepped and never prepared: the accelerator neither unscales nor saves it"


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each optimizer that takes steps and is not given to `prepare`."""
    trained = Trained(processes)
    if not trained.prepares or not trained.is_prepared_as_listed:
        return
    for made in sorted(trained.made_by(Role.OPTIMIZER), key=processes.program.position):
        if trained.steps(made) and not trained.is_given_to_prepare(made):
            yield Finding(NAME, made, _MESSAGE)
