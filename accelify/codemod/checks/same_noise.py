"""Noise that is the same in all processes.

    set_seed(seed)                               set_seed(seed, device_specific=True)
    torch.manual_seed(seed)            ->        torch.manual_seed(seed + dist.get_rank())

Why: with one seed everywhere, each process draws the same noise, time steps and masks for its batch, so that N
processes together see 1/N of the noise that their batches should have.
Left alone: scripts that seed by rank anywhere; draws outside the training loop, which must agree; those with a
generator of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import OTHER, Processes
from accelify.codemod.checks.training import Trained
from accelify.codemod.libraries import vocabulary
from accelify.codemod.libraries.row import Effect

NAME = "same_noise"


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for the first draw of each training loop, where all processes were given one seed."""
    seeds = [c for c in processes.program.calls if any(Effect.SEEDS_TORCH in r.effects for r in processes.rows(c))]
    trained = processes.once(Trained)
    if (
        not (trained.wraps or trained.prepares)
        or not processes.is_distributed
        or any(_is_own(processes, trained, seed) for seed in seeds)
    ):
        return
    seeds = [s for s in seeds if processes.is_run(s) and processes.runs(s, OTHER)]
    if not seeds:
        return
    first_seed = min(seeds, key=processes.program.position)
    where = f"{processes.program.path(first_seed).rpartition('/')[2]}:{processes.program.line(first_seed)}"
    loops = {trained.loop(backward) for backward in trained.backwards if processes.is_run(backward)}
    for loop in sorted((loop for loop in loops if loop is not None), key=processes.program.position):
        drawn = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Call) and trained.draws(n)]
        if drawn:
            first = min(drawn, key=processes.program.position)
            message = (
                f"all processes draw the same random numbers here, because they have the same seed ({where}): add "
                "the rank to it"
            )
            yield Finding(NAME, first, message)


def _is_own(processes: Processes, trained: Trained, seed: ast.Call) -> bool:
    """Whether a seed may be another one in each process."""
    given = [*seed.args, *(k.value for k in seed.keywords)]
    if any(k.arg in (None, "device_specific") for k in seed.keywords) or len(seed.args) > 1:
        return True
    texts = [ast.unparse(source) for each in given for source in trained.sources(each)]
    return not given or any(map(vocabulary.may_be_one_ranks_path, texts))
