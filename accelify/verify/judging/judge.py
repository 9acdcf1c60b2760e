"""The rows of a verdict, in the order in which they are best read: the cause before what follows from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from accelify.verify.judging import (
    calls,
    contents,
    data,
    endings,
    launched,
    operations,
    outputs,
    randomness,
    settings,
    training,
)
from accelify.verify.judging.devices import devices
from accelify.verify.judging.evidence import Evidence
from accelify.verify.trace import Run, Trace
from accelify.verify.verdict import Row, Status, Which


def judge(evidence: Evidence) -> tuple[Row, ...]:
    """One process against the original, then several."""
    single = [row(evidence.original, evidence.one) for row in SINGLE]
    single += [row(evidence) for row in SINGLE_OUTPUT]
    several = [row(evidence) for row in SEVERAL]
    single, several = (_earliest_first(rows, evidence.original.ranks[0]) for rows in (single, several))
    _put_late_samples_last(single)
    if single[0].status is Status.DIFFERS and evidence.one.error is None and not evidence.one.hang:
        _put_before("learning rate", single.pop(0), single)  # how many steps there were follows from something
    if evidence.operations is not None:
        _put_before("random numbers", operations.operations_of_one(*evidence.operations), single)
    if evidence.operations_of_ranks is not None:
        _put_before("ranks agree", operations.operations_of_ranks(evidence.operations_of_ranks), several)
    found = [] if evidence.launched is None else [row(evidence.as_launched) for row in LAUNCHED]
    launched_rows = [replace(row, shown_by=Which.LAUNCHED) for row in found]
    kind = Which.GPU if evidence.are_real else Which.PRETEND
    resumed = [] if evidence.resumed is None else _resumed(evidence.resumed)
    on_gpus = [] if evidence.on_gpus is None else [replace(devices(evidence), shown_by=kind)]
    return (*single, *several, *launched_rows, *resumed, *on_gpus)


def _resumed(evidence: Evidence) -> list[Row]:
    """The rows of runs that go on from a checkpoint."""
    single = [replace(row(evidence.original, evidence.one), shown_by=Which.RESUMED) for row in RESUMED]
    several = RESUMED_TOGETHER if evidence.has_many else ()
    return [*single, *(replace(row(evidence), shown_by=Which.RESUMED_TOGETHER) for row in several)]


def _put_before(name: str, row: Row | None, rows: list[Row]) -> None:
    if row is not None:
        rows.insert(next(index for index, each in enumerate(rows) if each.name == name), row)


def _put_late_samples_last(rows: list[Row]) -> None:
    """Move other samples behind losses that differ before them: what is drawn otherwise also shuffles otherwise."""
    names = [row.name for row in rows]
    samples, losses = (rows[names.index(name)] for name in ("samples", "losses"))
    both = samples.status is losses.status is Status.DIFFERS
    if both and (losses.step or math.inf) < (samples.step or 0):
        rows.insert(names.index("output"), rows.pop(names.index("samples")))


def _earliest_first(rows: list[Row], trace: Trace) -> list[Row]:
    """The rows, those on losses, gradients and parameters in the order in which they differ: what is later follows."""
    places = [index for index, row in enumerate(rows) if row.name in ("losses", "gradients", "parameters")]
    passes, steps = ([at for at, call in enumerate(trace.calls) if call.kind == kind] for kind in ("backward", "step"))

    def time_of(row: Row) -> float:
        known = passes if row.name == "losses" else steps
        is_known = row.status is Status.DIFFERS and row.step is not None and row.step <= len(known)
        return known[row.step - 1] if is_known and row.step else math.inf

    found = list(rows)
    for place, row in zip(places, sorted((rows[index] for index in places), key=time_of), strict=True):
        found[place] = row
    return found


SINGLE: tuple[Callable[[Run, Run], Row], ...] = (
    endings.ending,
    settings.settings_of_one,
    training.start_of_one,
    randomness.random_numbers_of_one,
    data.samples_of_one,
    calls.calls_of_one,
    training.learning_rate_of_one,
    training.losses_of_one,
    training.parameters_of_one,
    outputs.checkpoints_of_one,
)
SINGLE_OUTPUT: tuple[Callable[[Evidence], Row], ...] = (outputs.output_of_one, contents.contents_of_one)
SEVERAL: tuple[Callable[[Evidence], Row], ...] = (
    endings.ending_of_many,
    endings.work,
    data.samples,
    data.data,
    settings.settings,
    training.agreement,
    calls.calls,
    training.learning_rate,
    training.losses,
    training.gradients,
    training.parameters,
    outputs.printed,
    outputs.evaluation,
    outputs.checkpoints,
    outputs.files,
    contents.contents,
)
LAUNCHED: tuple[Callable[[Evidence], Row], ...] = (
    launched.ending,
    endings.work,
    launched.samples,
    launched.batches,
    data.data,
    launched.random_numbers,
    settings.settings_of_ranks,
    settings.buffers,
    training.agreement,
    launched.learning_rate,
    launched.printed,
    outputs.written_once,
)
# Of runs that go on from a checkpoint: whether they do so as the original, and from the same state.
RESUMED: tuple[Callable[[Run, Run], Row], ...] = (
    endings.ending,
    settings.settings_of_one,
    training.start_of_one,
    data.samples_of_one,
    training.learning_rate_of_one,
    training.losses_of_one,
    training.parameters_of_one,
)
RESUMED_TOGETHER: tuple[Callable[[Evidence], Row], ...] = (
    endings.ending_of_many,
    endings.work,
    data.samples,
    settings.settings,
    training.agreement,
    training.learning_rate,
    training.losses,
    training.gradients,
    training.parameters,
)
