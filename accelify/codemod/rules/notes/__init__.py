"""List what a person should look at: right as it stands, or not ours to decide.

    total += loss.item()                  a sum over one process's shard
    output, hidden = model(x, hidden)     a state carried from one batch of a shard to the next

Why: what a migrated script still holds is never hidden; "0 notes" means it.
Left alone: everything; the rule only reports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from accelify.codemod.edits.values import Remark
from accelify.codemod.files.parse import remedy
from accelify.codemod.libraries import table
from accelify.codemod.libraries.row import Trait
from accelify.codemod.metrics.forward_state import forward_states
from accelify.codemod.preparing.objects.parted_batches import parted_batches
from accelify.codemod.result import Tier
from accelify.codemod.rules.notes import (
    evaluations,
    failures,
    gpus,
    lengths,
    losses,
    own_values,
    randomness,
    remarks,
    states,
)
from accelify.codemod.rules.notes.remarks import review
from accelify.codemod.script import Script
from accelify.codemod.semantics.provenance import imported_by_name

NAME = remarks.NAME


def find(script: Script) -> Iterator[Remark]:
    """The notes of the changed files."""
    changed = list(forward_states(script.metrics)) if not script.is_by_hand else []
    yield from own_values.left(script, {node for node, _ in changed})
    yield from evaluations.whole(script)
    yield from evaluations.elsewhere(script)
    yield from evaluations.by_libraries(script)
    yield from failures.caught_apart(script)
    yield from failures.stopped_by_hand(script)
    yield from lengths.overstated(script)
    yield from lengths.sizes_of_shards(script)
    yield from lengths.ends(script)
    yield from lengths.counters(script)
    yield from randomness.late_weights(script)
    yield from randomness.seeded_apart(script)
    yield from randomness.drawn_early(script)
    yield from randomness.drawn_beside_kept_iterators(script)
    yield from states.changed_in_forward(script, changed)
    if not script.is_by_hand:
        yield from states.carried(script)
        yield from states.kept_by_hooks(script)
        yield from states.kept_by_loaders(script)
        yield from states.set_by_hand(script)
        yield from states.refreshed(script)
        yield from states.rescaled(script)
        yield from _parted(script)
    yield from losses.summed(script)
    yield from _kept_batches(script)
    yield from gpus.chosen(script)
    yield from _not_parsed(script)
    yield from _imported_by_name(script)


def _parted(script: Script) -> Iterator[Remark]:
    """Loaders that yield several parts of each batch, at which the processes take turns."""
    for node in parted_batches(script.program, script.roles, script.preparation.loaders):
        name = script.reach.name
        message = (
            "this yields several parts of each batch, and each process gets only every N-th part: where one needs the "
            "part before it (a hidden state, a reset), do not prepare this loader, and give it "
            f"`sampler=DistributedSampler(data, {name}.num_processes, {name}.process_index)`, with its `set_epoch`"
        )
        yield review(script, node, message)


def _not_parsed(script: Script) -> Iterator[Remark]:
    """Files of the project that no Python of today can import, and so no script that imports them runs."""
    for path in sorted(script.files) if script.options.follow else ():
        for node, error in script.program.flow.project.unreadable(script.program.flow.parsed_of[path]):
            message = f"this imports a file that cannot be parsed ({error}), so it was not read: {remedy(error)}"
            yield Remark(NAME, path, node, message, Tier.REVIEW)


def _imported_by_name(script: Script) -> Iterator[Remark]:
    """Files that train, and that are imported by a name that the script builds: `import_module("models." + name)`."""
    for call, trained in imported_by_name(script.program, ".backward("):
        listed = ", ".join(f"`{Path(p).name}`" for p in trained[:3]) + ("" if len(trained) < 4 else ", ...")
        message = (
            f"this may import {listed}, which also train; the import is decided only at run time, so none was "
            "read: migrate the file that you use as well"
        )
        yield review(script, call, message)


def _kept_batches(script: Script) -> Iterator[Remark]:
    """All batches of a loader that is prepared, held at a time."""
    for call in script.program.calls:
        rows = map(table.function, sorted(script.program.called(call)))
        is_kept = any(row is not None and row.has(Trait.KEEPS_ITEMS) for row in rows)
        if is_kept and len(call.args) == 1 and script.prepared.is_loader(call.args[0]):
            message = (
                f"`{ast.unparse(call.func)}` keeps all batches, and those of a prepared loader are on the device: if "
                "they do not fit into a GPU's memory, go over the loader again and again instead, as "
                "`while True: yield from loader` does, which draws a new order each time"
            )
            yield review(script, call, message)
