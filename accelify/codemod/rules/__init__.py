"""The rules, in the order in which users should read them; later ones see what earlier ones change."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator

from accelify.codemod.distributed.launched import Launched
from accelify.codemod.edits.values import Change, Obstacle, Plan, Remark
from accelify.codemod.rules import (
    accumulation,
    backward,
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
    unused,
    unwrap,
    writes,
)
from accelify.codemod.script import Script


def pages() -> dict[str, str]:
    """The page of each rule, by its name."""
    return {name: inspect.cleandoc(sys.modules[find.__module__].__doc__ or "") for name, find in (*FIRST_RULES, *RULES)}


Found = Iterator[Change | Remark | Obstacle]
# These come first, and make of a script that starts its processes itself one that a launcher starts.
FIRST_RULES: tuple[tuple[str, Callable[[Launched, Plan], Found]], ...] = (
    (optional.NAME, optional.find),
    (spawned.NAME, spawned.find),
    (launch_options.NAME, launch_options.find),
)
RULES: tuple[tuple[str, Callable[[Script, Plan], Found]], ...] = (
    (backward.NAME, backward.find),
    (prepare.NAME, prepare.find),
    (unwrap.NAME, unwrap.find),
    (data.NAME, data.find),
    (metrics.NAME, metrics.find),
    (schedules.NAME, schedules.find),
    (distributed.NAME, distributed.find),
    (parallel_wrappers.NAME, parallel_wrappers.find),
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
    (unused.NAME, unused.find),
    (own_methods.NAME, own_methods.find),
    (own_tensors.NAME, own_tensors.find),
    (elsewhere.NAME, elsewhere.find),
    (accumulation.NAME, accumulation.find),
    (notebooks.NAME, notebooks.find),
    (notes.NAME, notes.find),
)
