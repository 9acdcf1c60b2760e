"""Two ranks resume bit for bit, each with the random numbers and samples it would have had."""

import tempfile
from pathlib import Path

from accelify.runtime import Accelerator
from tests.runtime.training import train


def _resumes(accelerator, kind, workers, steps):
    folder = accelerator.gather_object(tempfile.mkdtemp())[0]
    whole = train(Accelerator(), kind, workers, 2)
    parts, load = [], None
    for number, step in enumerate(steps):
        target = str(Path(folder, str(step)))
        parts += train(Accelerator(), kind, workers, 2, [(step, target)], step, load, seeded=number)["seen"]
        load = target
    last = train(Accelerator(), kind, workers, 2, load=load, seeded=9)
    assert parts + last["seen"] == whole["seen"], kind
    assert {**last, "seen": None} == {**whole, "seen": None}, kind


def in_the_first_epoch(accelerator):
    for kind in (
        "sequential",
        "shuffle",
        "generator",
        "subset",
        "weighted",
        "drop_last",
        "drawing",
        "iterable",
        "pairs",
    ):
        _resumes(accelerator, kind, 0, [2])


def in_a_later_epoch_and_twice(accelerator):
    for kind in ("shuffle", "generator", "weighted", "drawing", "iterable", "pairs"):
        _resumes(accelerator, kind, 0, [2, 5])


def with_workers(accelerator):
    for kind in ("sequential", "shuffle", "drawing", "pairs", "replacement", "augmented"):
        _resumes(accelerator, kind, 2, [1, 5])


def with_workers_that_live_on(accelerator):
    for kind in ("shuffle", "generator", "drawing"):
        _resumes(accelerator, kind, "persistent", [2, 6])
    _resumes(accelerator, "shuffle", "persistent", [4])
