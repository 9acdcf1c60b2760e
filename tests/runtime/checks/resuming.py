"""Two ranks resume bit for bit, each with the random numbers and samples it would have had."""

import tempfile
from pathlib import Path

from accelify.runtime import Accelerator, DataLoaderConfiguration
from tests.runtime import generators
from tests.runtime.training import train


def _resumes(accelerator, kind, workers, steps, make=Accelerator):
    folder = accelerator.gather_object(tempfile.mkdtemp())[0]
    whole = train(make(), kind, workers, 2)
    parts, load = [], None
    for number, step in enumerate(steps):
        target = str(Path(folder, str(step)))
        parts += train(make(), kind, workers, 2, [(step, target)], step, load, seeded=number)["seen"]
        load = target
    last = train(make(), kind, workers, 2, load=load, seeded=9)
    assert parts + last["seen"] == whole["seen"], kind
    assert {**last, "seen": None} == {**whole, "seen": None}, kind


def in_the_first_epoch(accelerator):
    for kind in (
        "sequential",
        "shuffle",
        "generator",
        "subset",
        "weighted",
        "replacement",
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
    for kind in ("shuffle", "drawing", "pairs", "augmented"):
        _resumes(accelerator, kind, 2, [1, 5])


def with_workers_that_live_on(accelerator):
    for kind in ("shuffle", "generator", "drawing"):
        _resumes(accelerator, kind, "persistent", [2, 6])
    _resumes(accelerator, "shuffle", "persistent", [4])


def with_a_sampler_that_shards(accelerator):
    _resumes(accelerator, "by hand", 0, [2, 5])
    _resumes(accelerator, "by hand, augmented", 2, [1, 5])
    _resumes(accelerator, "by hand", "persistent", [2, 6])


def what_process_0_reads_for_all(accelerator):
    def make():
        return Accelerator(dataloader_config=DataLoaderConfiguration(dispatch_batches=True))

    for kind in ("shuffle", "weighted", "drawing", "iterable", "pairs"):
        _resumes(accelerator, kind, 0, [2, 5], make)
    _resumes(accelerator, "augmented", 0, [1, 5], make)
    _resumes(accelerator, "augmented", 2, [1, 5], make)
    _resumes(accelerator, "iterable", 2, [1, 5], make)


def with_generators_of_their_own(accelerator):
    folder = accelerator.gather_object(tempfile.mkdtemp())[0]
    for kind in ("of the loader", "of a dataset", "of a stream"):
        generators.assert_goes_on(kind, Accelerator, Path(folder, kind))
