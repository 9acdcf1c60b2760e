"""Unseeded ranks draw alike from the first accelerator on, and each by itself after `seed_by_rank`."""

import itertools
import random

import numpy
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, Sampler

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


class Listed(Sampler):
    """Draws its order when it is asked for an iterator, and then has it."""

    def __len__(self):
        return 12

    def __iter__(self):
        return iter(random.sample(range(12), 12))


def _messages(accelerator, loader):
    """How many objects are broadcast for an epoch of it, and how many numbers are exchanged."""
    sent = []
    broadcast, gather = dist.broadcast_object_list, dist.all_gather
    dist.broadcast_object_list = lambda *given, **options: sent.append("object") or broadcast(*given, **options)
    dist.all_gather = lambda *given, **options: sent.append("numbers") or gather(*given, **options)
    try:
        order = [index for batch in loader for index in batch[0].tolist()]
    finally:
        dist.broadcast_object_list, dist.all_gather = broadcast, gather
    return sent, accelerator.gather_object(order)


def ranks_in_step_only_compare_their_random_states(accelerator):
    loader = accelerator.prepare(DataLoader(Noisy(), batch_size=2, shuffle=True))
    _seed(accelerator)
    assert _messages(accelerator, loader)[0] == ["numbers"]
    if accelerator.process_index:
        torch.rand(1)
    sent, orders = _messages(accelerator, loader)
    assert "object" in sent
    assert sorted(orders[0] + orders[1]) == list(range(12))
    # From there on rank 1 draws by itself again, as a script's dropout has it draw; what numpy drew concerns nobody.
    _seed(accelerator)
    numpy.random.rand(accelerator.process_index)
    assert _messages(accelerator, loader)[0] == ["numbers"]


def an_order_that_a_sampler_drew_as_a_list_is_one_for_all(accelerator):
    _seed(accelerator)
    expected = random.sample(range(12), 12)
    _seed(accelerator)
    random.seed(accelerator.process_index + 7)
    loader = accelerator.prepare(DataLoader(Noisy(), batch_size=2, sampler=Listed()))
    _, orders = _messages(accelerator, loader)
    assert orders[0] + orders[1] == [expected[i] for i in (0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11)]


def a_generator_is_left_as_one_process_leaves_it(accelerator):
    """A RandomSampler draws once more when it comes to its end, and not when the loop is left before."""

    def epochs(prepare):
        generator = torch.Generator().manual_seed(3)
        loader = prepare(DataLoader(Noisy(), batch_size=2, shuffle=True, generator=generator))
        stops = (2, None, 1, None)
        return [[batch[0].tolist() for batch in itertools.islice(iter(loader), stop)] for stop in stops]

    alone = epochs(lambda loader: loader)
    mine = epochs(accelerator.prepare)
    other = accelerator.gather_object(mine)
    for plain, *both in zip(alone, *other, strict=True):
        sharded = [batch for step in zip(*both, strict=True) for batch in step]
        assert sharded[: len(plain)] == plain[: len(sharded)]
