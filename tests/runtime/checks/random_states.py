"""Unseeded ranks draw alike from the first accelerator on, and each by itself after `seed_by_rank`."""

import random

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

from accelify.runtime import Accelerator

# As this process started, before any accelerator was there.
_ALONE = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()


def _draws():
    return torch.rand(1).item(), random.random(), numpy.random.rand()


class Noisy(Dataset):
    """Each element and a number drawn when it is fetched."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return index, torch.rand(1).item(), random.random(), numpy.random.rand()


def unseeded_ranks_draw_what_rank_0_would_have_drawn(accelerator):
    starts = accelerator.gather_object(_ALONE[0].tolist())
    assert starts[0] != starts[1]
    if accelerator.is_main_process:
        assert torch.equal(torch.get_rng_state(), _ALONE[0])
        assert random.getstate() == _ALONE[1]
        assert numpy.random.get_state()[1].tolist() == _ALONE[2]
    permutations = accelerator.gather_object((torch.randperm(20).tolist(), *_draws()))
    assert permutations[0] == permutations[1]


def a_later_accelerator_changes_no_state(accelerator):
    torch.manual_seed(accelerator.process_index)
    random.seed(accelerator.process_index)
    before = torch.get_rng_state(), random.getstate()
    Accelerator()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]


def _seed(accelerator):
    for seed in (torch.manual_seed, random.seed, numpy.random.seed):
        seed(7)
    return accelerator


def rank_0_draws_what_it_would_have_drawn(accelerator):
    _seed(accelerator)
    plain = _draws()
    _seed(accelerator).seed_by_rank()
    everyone = accelerator.gather_object(_draws())
    assert everyone[0] == plain
    assert all(a != b for a, b in zip(*everyone, strict=True))


def loaders_and_shards_still_deal_one_epoch(accelerator):
    _seed(accelerator).seed_by_rank()
    loader = accelerator.prepare(DataLoader(Noisy(), batch_size=2, shuffle=True))
    orders = []
    for _ in range(2):
        seen = [batch[0].tolist() for batch in loader]
        everyone = accelerator.gather_object(seen)
        assert sorted(i for mine in everyone for batch in mine for i in batch) == list(range(12))
        orders.append(everyone)
    assert orders[0] != orders[1]
    shares = accelerator.gather_object(accelerator.shard(list(range(10))))
    assert sorted(shares[0] + shares[1]) == list(range(10))


def what_a_dataset_draws_differs_by_rank(accelerator):
    for workers in (0, 2):
        _seed(accelerator).seed_by_rank()
        loader = accelerator.prepare(DataLoader(Noisy(), batch_size=2, shuffle=True, num_workers=workers))
        drawn = [value for batch in loader for values in batch[1:] for value in values.tolist()]
        flat = [value for mine in accelerator.gather_object(drawn) for value in mine]
        assert len(flat) == 12 * 3
        assert len(set(flat)) == len(flat), workers


def rank_0_of_a_seeded_run_has_the_workers_of_one_process(accelerator):
    _seed(accelerator)
    plain = next(iter(DataLoader(Noisy(), batch_size=2, shuffle=True, num_workers=1)))
    _seed(accelerator).seed_by_rank()
    first = next(iter(accelerator.prepare(DataLoader(Noisy(), batch_size=2, shuffle=True, num_workers=1))))
    if accelerator.is_main_process:
        assert all(torch.equal(a, b) for a, b in zip(plain, first, strict=True))
