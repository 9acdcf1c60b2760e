"""The rules, in the order in which users should read them; none sees what another finds."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator

from accelify.codemod import leftovers
from accelify.codemod.distributed.launched import Launched
from accelify.codemod.edits.values import Found
from accelify.codemod.rules import (
    accumulation,
    backward,
    batch_size,
    checkpoints,
    creation,
    data,
    device_moves,
    devices,
    distributed,
    downloads,
    elsewhere,
    experiments,
    folders,
    gpu_counts,
    launch_options,
    metrics,
    mixed_precision,
    named_devices,
    notebooks,
    notes,
    optional,
    own_methods,
    own_tensors,
    parallel_wrappers,
    prepare,
    schedules,
    spawned,
    to_numpy,
    unwrap,
    writes,
)
from accelify.codemod.script import Script

Rule = Callable[[Script], Iterator[Found]]
# These come first, and make of a script that starts its processes itself one that a launcher starts.
LAUNCH_RULES: tuple[tuple[str, Callable[[Launched], Iterator[Found]]], ...] = (
    (optional.NAME, optional.find),
    (spawned.NAME, spawned.find),
)
# These take out the settings that only the others' changes have left unread.
SETTING_RULES: tuple[tuple[str, Callable[[Launched], Iterator[Found]]], ...] = (
    (launch_options.NAME, launch_options.find),
)
RULES: tuple[tuple[str, Rule], ...] = (
    (backward.NAME, backward.find),
    (prepare.NAME, prepare.find),
    (unwrap.NAME, unwrap.find),
    (batch_size.NAME, batch_size.find),
    (data.NAME, data.find),
    (metrics.NAME, metrics.find),
    (schedules.NAME, schedules.find),
    (distributed.NAME, distributed.find),
    (parallel_wrappers.NAME, parallel_wrappers.find),
    (gpu_counts.NAME, gpu_counts.find),
    (device_moves.NAME, device_moves.find),
    (named_devices.NAME, named_devices.find),
    (to_numpy.NAME, to_numpy.find),
    (checkpoints.NAME, checkpoints.find),
    (devices.NAME, devices.find),
    (folders.NAME, folders.find),
    (mixed_precision.NAME, mixed_precision.find),
    (creation.NAME, creation.find),
    (downloads.NAME, downloads.find),
    (experiments.NAME, experiments.find),
    (writes.NAME, writes.find),
    (own_methods.NAME, own_methods.find),
    (own_tensors.NAME, own_tensors.find),
    (elsewhere.NAME, elsewhere.find),
    (accumulation.NAME, accumulation.find),
    (notebooks.NAME, notebooks.find),
    (notes.NAME, notes.find),
)


def pages() -> dict[str, str]:
    """The page of each rule, by its name."""
    finds = [(name, find.__module__) for name, find in (*LAUNCH_RULES, *SETTING_RULES, *RULES)]
    listed = [*finds, (leftovers.NAME, leftovers.__name__)]
    return {name: inspect.cleandoc(sys.modules[module].__doc__ or "") for name, module in listed}
