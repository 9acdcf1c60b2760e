"""The checks of `accelify check`, in the order in which users should read them; none sees what another finds."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator

from accelify.codemod.checks import every_rank_writes, missing_set_epoch, plain_backward, unreached_collective
from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import Processes

Check = Callable[[Processes], Iterator[Finding]]
CHECKS: tuple[tuple[str, Check], ...] = (
    (unreached_collective.NAME, unreached_collective.find),
    (every_rank_writes.NAME, every_rank_writes.find),
    (missing_set_epoch.NAME, missing_set_epoch.find),
    (plain_backward.NAME, plain_backward.find),
)


def pages() -> dict[str, str]:
    """The page of each check."""
    modules = {name: sys.modules[find.__module__] for name, find in CHECKS}
    return {name: inspect.cleandoc(module.__doc__ or "") for name, module in modules.items()}
