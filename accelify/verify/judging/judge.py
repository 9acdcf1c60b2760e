"""The rows of a verdict, in the order in which they are best read: the cause before what follows from it."""

from __future__ import annotations

from collections.abc import Callable

from accelify.verify.judging import data, endings, outputs, training
from accelify.verify.judging.evidence import Evidence
from accelify.verify.trace import Run
from accelify.verify.verdict import Row


def judge(evidence: Evidence) -> tuple[Row, ...]:
    """One process against the original, then several."""
    single = [row(evidence.original, evidence.one) for row in SINGLE]
    several = [row(evidence) for row in SEVERAL]
    return (*single, *several)


SINGLE: tuple[Callable[[Run, Run], Row], ...] = (
    endings.ending,
    data.samples_of_one,
    training.learning_rate_of_one,
    training.losses_of_one,
    training.parameters_of_one,
    outputs.output_of_one,
    outputs.checkpoints_of_one,
)
SEVERAL: tuple[Callable[[Evidence], Row], ...] = (
    endings.ending_of_many,
    endings.work,
    data.samples,
    data.data,
    training.agreement,
    training.learning_rate,
    training.losses,
    training.gradients,
    training.parameters,
    outputs.evaluation,
    outputs.checkpoints,
    outputs.files,
)
