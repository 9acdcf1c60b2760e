"""Random numbers of loaders' workers, which belong to their rank."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy
import pytest
import torch

from accelify.runtime.data.random_state import WorkerStart, seed_libraries, set_seed


def drawn(own: Callable[[int], None] | None, *, rank: int, worker: int = 0) -> tuple[float, float, float]:
    """The first number of each library in a worker that the loader has seeded."""
    set_seed(7)
    WorkerStart(own, rank)(worker)
    return float(torch.rand(1)), float(numpy.random.rand()), random.random()


def numpy_by_worker(worker: int) -> None:
    numpy.random.seed(worker)


def all_by_worker(worker: int) -> None:
    set_seed(worker)


def none(worker: int) -> None:
    pass


@pytest.mark.parametrize("own", [None, none, numpy_by_worker, all_by_worker])
def test_each_rank_draws_its_own(own: Callable[[int], None] | None) -> None:
    each = [drawn(own, rank=rank) for rank in range(3)]
    for numbers in zip(*each, strict=True):
        assert len(set(numbers)) == 3


@pytest.mark.parametrize("own", [numpy_by_worker, all_by_worker])
def test_rank_0_draws_what_one_process_draws(own: Callable[[int], None]) -> None:
    with_runtime = drawn(own, rank=0, worker=1)
    set_seed(7)
    own(1)
    assert with_runtime == (float(torch.rand(1)), float(numpy.random.rand()), random.random())


def test_a_seed_is_followed() -> None:
    assert drawn(all_by_worker, rank=1, worker=1) == drawn(all_by_worker, rank=1, worker=1)
    assert drawn(all_by_worker, rank=1, worker=0) != drawn(all_by_worker, rank=1, worker=1)


def test_a_script_may_put_a_number_in_the_place_of_a_seeding_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """`random.seed = 0`, where `random.seed(0)` was meant, trains in plain PyTorch, too."""
    for module, name in ((random, "seed"), (numpy.random, "seed"), (torch, "manual_seed")):
        monkeypatch.setattr(module, name, 0)
    seed_libraries(3, torch.device("cpu"))
    first = random.random(), float(numpy.random.random()), torch.rand(1).item()
    set_seed(3)
    assert first == (random.random(), float(numpy.random.random()), torch.rand(1).item())
