"""Notes on numbers of rounds, of which each process has 1/N."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.edits.values import Remark
from accelify.codemod.metrics.batch_numbers import counted_off
from accelify.codemod.metrics.steps.bars import overstated_bars, overstated_samples
from accelify.codemod.metrics.steps.ends import Ends
from accelify.codemod.metrics.steps.ranges import overlong_rounds
from accelify.codemod.metrics.steps.rates import Rates
from accelify.codemod.metrics.steps.samples import Samples
from accelify.codemod.result import Tier
from accelify.codemod.rules.notes.remarks import NAME, review
from accelify.codemod.script import Script

_STEPS = (
    "this is the length for all processes together, and each process takes only its shard of the steps: use `len` of "
    "the prepared loader, or divide by `accelerator.num_processes`"
)
_ROUNDS = (
    "each process has only its shard of the loader's batches, and `next` fails after them: use `len` of the prepared "
    "loader, or begin a new iterator there"
)
_SAMPLES = (
    "this bar ends at 1/N of its length: each of N processes counts only the samples of its shard. Divide this number "
    "by `accelerator.num_processes`"
)
_FEWER = (
    "this schedule steps once per epoch, but its length is `len` of a prepared loader, which shrinks with more "
    "processes: give it a length that does not depend on their number"
)


def ends(script: Script) -> Iterator[Remark]:
    """Where a round is measured by the number of all processes' rounds: by a condition, or by a bar."""
    for end in Ends(script.metrics).find():
        message = (
            f"`{ast.unparse(end.number)}` counts this process's rounds and never reaches `{ast.unparse(end.length)}`, "
            "the number of all processes' rounds: move this code to after the loop"
        )
        place, tier = (end.length, Tier.ADVICE) if end.is_bar else (end.number, Tier.REVIEW)
        yield Remark(NAME, script.path(place), place, _STEPS if end.is_bar else message, tier)


def overstated(script: Script) -> Iterator[Remark]:
    """Lengths that are for all processes where each counts its own, and the reverse."""
    if script.divides_batches:
        return
    found = (
        (overstated_bars(script.metrics), _STEPS, Tier.ADVICE),
        (overstated_samples(script.metrics), _SAMPLES, Tier.ADVICE),
        (overlong_rounds(script.metrics), _ROUNDS, Tier.REVIEW),
        (Rates(script.limits).shrunken_schedules(), _FEWER, Tier.REVIEW),
    )
    for lengths, message, tier in found:
        yield from (Remark(NAME, script.path(length), length, message, tier) for length in lengths)


def sizes_of_shards(script: Script) -> Iterator[Remark]:
    """Sizes of the data that are worked out from the length of a loader, which is that of a shard once prepared."""
    sizes = Samples(script.step_counts).shard_sizes(script.batch_sizes.loaders) if not script.is_by_hand else ()
    for node in (n for n in sizes if not script.divides_batches and script.path(n) in script.files):
        message = (
            f"`{ast.unparse(node)}` is the size of this process's shard, as the loader is prepared: take the length of "
            "its data set for that of all data"
        )
        yield review(script, node, message)


def counters(script: Script) -> Iterator[Remark]:
    """Items that are picked by the number of one process's batches: every process takes the same."""
    for counter, picked in counted_off(script.metrics):
        message = f"`{counter}` counts this process's batches: " if counter else ""
        message += (
            "every process takes the same {} here, beside its own batch: let a prepared loader yield it, or count the "
            "batches of all processes (batch i of process r is number i * num_processes + r)"
        )
        yield Remark(NAME, script.path(picked), picked, message, Tier.REVIEW, about=f"`{ast.unparse(picked)}`")
