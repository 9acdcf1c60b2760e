"""The checks of `accelify check`, in the order in which users should read them; none sees what another finds."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator

from accelify.codemod.checks import (
    around_wrapper,
    eager_synchronisation,
    every_rank_writes,
    gathered_padding,
    hidden_attribute,
    loaded_on_one_rank,
    missing_sampler,
    missing_set_epoch,
    not_prepared,
    plain_backward,
    same_noise,
    seeded_by_rank,
    skewed_schedule,
    skipped_backward,
    unreached_collective,
    unreduced_value,
)
from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import Processes

Check = Callable[[Processes], Iterator[Finding]]
CHECKS: tuple[tuple[str, Check], ...] = (
    (unreached_collective.NAME, unreached_collective.find),
    (skipped_backward.NAME, skipped_backward.find),
    (every_rank_writes.NAME, every_rank_writes.find),
    (unreduced_value.NAME, unreduced_value.find),
    (loaded_on_one_rank.NAME, loaded_on_one_rank.find),
    (missing_sampler.NAME, missing_sampler.find),
    (missing_set_epoch.NAME, missing_set_epoch.find),
    (same_noise.NAME, same_noise.find),
    (seeded_by_rank.NAME, seeded_by_rank.find),
    (around_wrapper.NAME, around_wrapper.find),
    (hidden_attribute.NAME, hidden_attribute.find),
    (eager_synchronisation.NAME, eager_synchronisation.find),
    (gathered_padding.NAME, gathered_padding.find),
    (skewed_schedule.NAME, skewed_schedule.find),
    (not_prepared.NAME, not_prepared.find),
    (plain_backward.NAME, plain_backward.find),
)


COMMENTS = "unknown_comment"
_COMMENTS_PAGE = """A comment for accelify that cannot be read, or names no rule.

    torch.save(x, path)  # accelify: ignore[every_rank_write]
    ->
    torch.save(x, path)  # accelify: ignore[every_rank_writes]

Why: the comment does nothing, and whoever reads it believes that it does.
Left alone: comments that leave nothing out, as a file may be imported by one where they do.
"""


def pages() -> dict[str, str]:
    """The page of each check."""
    modules = {name: sys.modules[find.__module__] for name, find in CHECKS}
    found = {name: inspect.cleandoc(module.__doc__ or "") for name, module in modules.items()}
    return {**found, COMMENTS: inspect.cleandoc(_COMMENTS_PAGE)}
