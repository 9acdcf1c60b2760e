"""The rules, in the order in which users should read them; none sees what another finds."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

from accelify.codemod import leftovers
from accelify.codemod.accelerate.uses import AccelerateUses
from accelify.codemod.distributed.launched import Launched
from accelify.codemod.edits.values import Found
from accelify.codemod.rules import (
    accelerate,
    accelerate_wrappers,
    accumulation,
    backward,
    batch_size,
    checkpoints,
    creation,
    data,
    decisions,
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
# These move a script that uses Hugging Face Accelerate; no other rule looks at one.
ACCELERATE_RULES: tuple[tuple[str, Callable[[AccelerateUses], Iterator[Found]]], ...] = (
    (accelerate.NAME, accelerate.find),
    (accelerate_wrappers.NAME, accelerate_wrappers.find),
)
RULES: tuple[tuple[str, Rule], ...] = (
    (backward.NAME, backward.find),
    (prepare.NAME, prepare.find),
    (unwrap.NAME, unwrap.find),
    (batch_size.NAME, batch_size.find),
    (data.NAME, data.find),
    (metrics.NAME, metrics.find),
    (schedules.NAME, schedules.find),
    (decisions.NAME, decisions.find),
    (distributed.NAME, distributed.find),
    (parallel_wrappers.NAME, parallel_wrappers.find),
    (gpu_counts.NAME, gpu_counts.find),
    (device_moves.NAME, device_moves.find),
    (named_devices.NAME, named_devices.find),
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
# Names in reports that are no rules: decisions made beside them.
BESIDE = {
    "callers": """Name the files that set up or call what changes.

    trainer.py: `fit(model, device)`  ->  `fit(model, accelerator)`, while main.py calls it by its old parameters

Why: a function that is migrated without its callers breaks them. Callers that train are migrated with it; others may
leave the accelerator out.
Left alone: callers where more than a few could be meant: name those that are to be migrated too.
""",
    "comments": """List comments that went with removed lines.

    model.to(device)  # 11 GB at most    ->    (nothing), and the report says what the comment said

Why: nothing that a person wrote is lost silently.
Left alone: comments on lines that stay.
""",
    "suppressions": """Report comments for accelify that have no effect or cannot be read.

    loss.backward()  # accelify: ignore[backwards]    there is no rule `backwards`

Why: a comment that does nothing misleads whoever reads it.
Left alone: files that do not change, where it cannot be told what a comment would leave out.
""",
    "gate": """Leave a file as it was where the result does not pass a check.

    it compiles; it means what was planned; every name is bound; a second run changes nothing; no comment is lost

Why: a wrong migration is worse than none. A result that fails is a fault of accelify: please report it with the line.
Left alone: the whole program, whose files belong together.
""",
    "verify": """Keep only what is proven to train the same model.

    accelify rewrite --verify train.py    runs the script before and after, on one process and on two

Why: a rule may be wrong about a script; a run is not.
Left alone: files whose two runs differ. The note names what differs, and where.
""",
}


def pages() -> dict[str, str]:
    """The page of each rule, and of each other name in a report."""
    optional = optional_rules()
    return {
        name: f"{inspect.cleandoc(module.__doc__ or '')}\n{_OPTIONAL if name in optional else _NEEDED}"
        for name, module in _modules().items()
    } | {name: page.strip() for name, page in BESIDE.items()}


def optional_rules() -> frozenset[str]:
    """The rules whose changes a migration can do without: without them it still trains the same model.

    Where such a change cannot be made, a note stands in for it. Each says so itself, by OPTIONAL in its module.
    """
    return frozenset(name for name, module in _modules().items() if getattr(module, "OPTIONAL", False))


def _modules() -> dict[str, ModuleType]:
    finds = [(name, find.__module__) for name, find in (*LAUNCH_RULES, *SETTING_RULES, *RULES, *ACCELERATE_RULES)]
    return {name: sys.modules[module] for name, module in [*finds, (leftovers.NAME, leftovers.__name__)]}


_OPTIONAL = "If ignored: its changes and notes are left out."
_NEEDED = "If ignored: its notes are left out; a file that needs one of its changes is declined."
