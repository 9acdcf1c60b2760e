"""Say what the batch size means on N processes, once for a program.

    loader = DataLoader(data, batch_size=64)    each of N processes takes 64 samples for a step: 64 * N together

Why: a learning rate is chosen for a batch size. On N processes a step learns from N batches, and an epoch has 1/N of
the steps. `--keep-global-batch` writes `Accelerator(split_batches=True)`: the processes divide each batch between them,
and the learning rate, the steps of an epoch and all schedules stay as they are. So it is done where `nn.DataParallel`
goes, which divided each batch between the GPUs.
Left alone: all of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from accelify.codemod.edits.values import Remark
from accelify.codemod.metrics.progress import StepCounts
from accelify.codemod.metrics.reports import About
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "batch_size"
_PARALLEL = "`DataParallel` divided each batch between the GPUs"
_ITEMS = {True: "batches of this size", False: "items of this loop"}
_RATE = "consider a larger learning rate (often N times, with a warm-up)"


def find(script: Script) -> Iterator[Remark]:
    """One note, at the first place that says how large the training batches are."""
    sizes = script.batch_sizes
    if not sizes.loaders and not sizes.loops:
        return
    first, *others = ((script.path(place), place) for place in sizes.loaders or sizes.loops)
    counts = StepCounts(script)
    ends = tuple((script.path(node), node) for node in counts.limits() if script.distribution is None)
    counted = tuple(place for n in counts.intervals() if (place := (script.path(n), n)) not in ends)
    shown = tuple((script.path(r.node), r.node) for r in script.metrics.reports if r.about is About.BATCH)
    learned = f"on N processes a step learns from N {_ITEMS[bool(sizes.loaders)]}{' (and of {0})' if others else ''}"
    epoch = "an epoch that no limit ends" if ends else "an epoch"
    learned += f", one from each process, and {epoch} has 1/N of the steps{' (counted in {1})' if counted else ''}"
    message, tier = _of_loaders(script, learned) if sizes.loaders else (_of_loops(script, learned), Tier.REVIEW)
    if ends and "1/N" in message:
        message += ". A limit ({3}) counts what one process does: N times the data come before it"
    if shown and script.distribution is None:
        message += ". What is shown of single batches ({2}) is of one process's own"
    yield Remark(NAME, *first, message, tier, lines=(tuple(others), counted, shown, ends))


def _of_loaders(script: Script, learned: str) -> tuple[str, Tier]:
    split = script.options.runtime.sharing
    if script.distribution is not None:
        return f"{learned}, as before", Tier.ADVICE
    if script.batch_sizes.parallel and script.options.keep_global_batch:
        message = f"{_PARALLEL}, and `{split}` divides it between the processes: the learning rate stays right. "
        return f"{message}A batch needs {script.options.runtime.shared_size}", Tier.REVIEW
    if script.options.keep_global_batch:
        return f"`{split}` divides each batch between the processes: the learning rate stays right", Tier.ADVICE
    keep = "rewrite with `--keep-global-batch` to divide each batch between the processes"
    return f"{learned}: {_RATE}, or {keep}", Tier.REVIEW


def _of_loops(script: Script, learned: str) -> str:
    before = f"{_PARALLEL}; now, " if script.batch_sizes.parallel else ""
    if any(script.roles.has_no_length(source) for _, source in script.preparation.sharded):
        learned += " (what has no length loses an incomplete last round)"
    return f"{before}{learned}: {_RATE}, or divide the batch size by `{script.reach.name}.num_processes`"
