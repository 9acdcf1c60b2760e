"""Random numbers in loops over shards are each rank's own; outside them, and for orders, all ranks draw the same."""

import contextlib
import copy
import itertools
import random

import numpy
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, TensorDataset

from tests.runtime.noisy_models import KINDS, train
from tests.runtime.training import seed

LENGTH = 12


class Noisy(Dataset):
    """Each element, and a number of each library drawn when it is fetched."""

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        return index, torch.rand(1).item(), random.random(), numpy.random.rand()


def _loader(**options):
    return DataLoader(Noisy(), batch_size=2, **{"shuffle": True, **options})


def _draws():
    return torch.rand(1).item(), random.random(), numpy.random.rand()


def _are_alike(accelerator, *draws):
    everyone = accelerator.gather_object([*draws])
    return everyone[0] == everyone[1]


def _all_differ(accelerator, draws):
    flat = [number for mine in accelerator.gather_object(list(draws)) for number in mine]
    return len(set(flat)) == len(flat) > 0


def noise_differs_in_a_loop_and_is_alike_around_it(accelerator):
    seed(3)
    expected = _draws()
    seed(3)
    loader = accelerator.prepare(_loader())
    assert _draws() == expected
    inside, fetched, outside = [], [], []
    for _ in range(2):
        for batch in loader:
            inside += _draws()
            fetched += [number for drawn in batch[1:] for number in drawn.tolist()]
        outside += _draws()
    assert _all_differ(accelerator, inside)
    assert _all_differ(accelerator, fetched)
    assert _are_alike(accelerator, outside)
    assert len(set(outside)) == len(outside)


def _permutation():
    """Numbers in an order that each library has a part in."""
    rows = list(range(LENGTH))
    random.shuffle(rows)
    return numpy.random.permutation(rows)[torch.randperm(LENGTH)].tolist()


class Batches:
    """Batches in an order of their own, of no loader of torch's."""

    def __iter__(self):
        for row in _permutation():
            yield torch.tensor([row])

    def __len__(self):
        return LENGTH


class Lazy(Sampler):
    """An order that is drawn when its first element is asked for."""

    def __iter__(self):
        yield from _permutation()

    def __len__(self):
        return LENGTH


class Rows(IterableDataset):
    def __iter__(self):
        yield from _permutation()


LOADERS = (
    lambda: DataLoader(range(LENGTH), batch_size=2, shuffle=True),
    lambda: DataLoader(range(LENGTH), batch_size=2, sampler=Lazy()),
    lambda: DataLoader(Rows(), batch_size=2),
    Batches,
)


def orders_and_what_follows_are_those_of_one_process(accelerator):
    """Where nothing is drawn in the loop, the shared stream is at every point where one process has it."""

    def epochs(make, prepare):
        seed(4)
        loader, seen = prepare(make()), []
        for _ in range(3):
            seen.append([batch.tolist() for batch in loader])
            seen.append(_draws())
        return seen

    for make in LOADERS:
        alone = epochs(make, lambda loader: loader)
        mine = epochs(make, accelerator.prepare)
        assert mine[1::2] == alone[1::2]
        for plain, *both in zip(alone[::2], *(each[::2] for each in accelerator.gather_object(mine)), strict=True):
            assert [batch for step in zip(*both, strict=True) for batch in step] == plain


def passes_that_are_left_early_have_orders_of_their_own(accelerator):
    for make in LOADERS:
        seed(8)
        loader, firsts = accelerator.prepare(make()), []
        for _ in range(6):
            for batch in loader:
                firsts.append(batch.tolist())
                break
            assert _are_alike(accelerator, *_draws())
        assert len({str(first) for first in firsts}) > 2


def noise_in_a_loop_does_not_move_the_order_of_the_next(accelerator):
    def orders(has_noise):
        seed(5)
        loader, seen = accelerator.prepare(DataLoader(range(LENGTH), batch_size=2, shuffle=True)), []
        for _ in range(2):
            for batch in loader:
                seen.append(batch.tolist())
                if has_noise:
                    _draws()
        return seen

    assert orders(True) == orders(False)


def a_repeated_run_draws_the_same_and_another_epoch_does_not(accelerator):
    def run():
        seed(6)
        generator = torch.Generator().manual_seed(1)  # the shared stream stands still from epoch to epoch
        loader = accelerator.prepare(_loader(generator=generator))
        return [torch.rand(1).item() for _ in range(2) for _ in loader]

    first = run()
    assert len(set(first)) == len(first)
    accelerator._streams._loops -= 2  # as a run of its own counts them
    assert run() == first


def a_loop_that_is_left_early_gives_the_shared_stream_back(accelerator):
    loader = accelerator.prepare(_loader())
    seed(7)
    for _ in loader:
        _draws()
        break
    assert _are_alike(accelerator, *_draws())
    try:
        for _ in loader:
            _draws()
            raise KeyError
    except KeyError:
        assert _are_alike(accelerator, *_draws())
    next(iter(loader))
    assert _are_alike(accelerator, *_draws())


class Broken(Noisy):
    def __getitem__(self, index):
        if index == LENGTH - 1:
            raise OSError("a broken file")
        return super().__getitem__(index)


def an_element_that_cannot_be_read_ends_nothing(accelerator):
    batches = iter(accelerator.prepare(DataLoader(Broken(), batch_size=3)))
    inside = []
    for _ in range(2):
        with contextlib.suppress(OSError):
            next(batches)
        inside += _draws()
    assert _all_differ(accelerator, inside)
    assert next(batches, None) is None
    assert _are_alike(accelerator, *_draws())


def nested_loops_zips_and_several_loaders(accelerator):
    outer, inner = accelerator.prepare(_loader(), _loader())
    inside, orders = [], []
    seed(8)
    for batch in outer:
        inside.append(torch.rand(1).item())
        for other in inner:
            inside.append(torch.rand(1).item())
            orders += other[0].tolist()
        inside.append(torch.rand(1).item())
        orders += batch[0].tolist()
    for pair in zip(outer, inner, strict=True):
        inside.append(torch.rand(1).item())
        orders += [index for batch in pair for index in batch[0].tolist()]
    assert _are_alike(accelerator, *_draws())
    assert _all_differ(accelerator, inside)
    everyone = [index for mine in accelerator.gather_object(orders) for index in mine]
    passes = 1 + 3 + 2
    assert all(everyone.count(index) == passes for index in range(LENGTH))


def shuffled_elements_without_indices_are_the_same_on_all_ranks(accelerator):
    def shuffled():
        return DataLoader(TensorDataset(torch.arange(12)), batch_size=2, shuffle=True)

    for make in (shuffled, lambda: zip(shuffled(), shuffled(), strict=True), lambda: (row for row in shuffled())):
        for even in (True, False):
            mine, inside = [], []
            for element in accelerator.shard(make(), even=even):
                rows = element[0] if isinstance(element[0], torch.Tensor) else element[0][0]
                mine += rows.tolist()
                inside.append(torch.rand(1).item())
            assert _all_differ(accelerator, inside)
            assert sorted(row for each in accelerator.gather_object(mine) for row in each) == list(range(12))


def an_iterator_by_hand_is_a_loop_where_the_script_loops(accelerator):
    loader = accelerator.prepare(_loader())
    batches, inside = iter(loader), []
    assert _are_alike(accelerator, *_draws())
    for _ in range(5):
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
            batch = next(batches)
        inside.append(torch.rand(1).item())
    assert _all_differ(accelerator, inside)
    del batches
    assert _are_alike(accelerator, *_draws())


def a_batch_that_is_only_looked_at_begins_no_loop(accelerator):
    names = {"loader": accelerator.prepare(_loader()), "draws": _draws}
    exec("batches = iter(loader)\nbatch = next(batches)\noutside = draws()", names)
    assert _are_alike(accelerator, *names["outside"])
    assert _all_differ(accelerator, [number for drawn in names["batch"][1:] for number in drawn.tolist()])
    exec("inside = []\nfor _ in batches:\n    inside += draws()\noutside = draws()", names)
    assert _all_differ(accelerator, names["inside"])
    assert _are_alike(accelerator, *names["outside"])


def loops_over_other_shards(accelerator):
    tables = [[*range(6)], (*range(6),), range(6), range(5), {"a": 1, "b": 2}.keys(), Noisy()]
    makers = [lambda whole=whole: whole for whole in tables] + [lambda: (number for number in range(6))]
    for make, even in itertools.product(makers, (True, False)):
        inside = [torch.rand(1).item() for _ in accelerator.shard(make(), even=even)]
        assert _all_differ(accelerator, inside), (make(), even)
        assert _are_alike(accelerator, *_draws())
    shard = accelerator.shard([*range(6)])
    assert type(copy.copy(shard)) is type(copy.deepcopy(shard)) is type(shard[:]) is list
    assert type(copy.copy(accelerator.shard((1, 2)))) is tuple


def workers_draw_by_rank(accelerator):
    for options in ({"num_workers": 2}, {"num_workers": 1, "persistent_workers": True}):
        seed(9)
        loader = accelerator.prepare(_loader(**options))
        drawn = [number for _ in range(2) for batch in loader for each in batch[1:] for number in each.tolist()]
        assert _all_differ(accelerator, drawn)
        assert _are_alike(accelerator, *_draws())


class Shuffled(IterableDataset):
    """Draws its order from the global stream, as it goes."""

    def __iter__(self):
        yield from torch.randperm(LENGTH).tolist()


def an_iterable_dataset_draws_one_order(accelerator):
    loader, inside = accelerator.prepare(DataLoader(Shuffled(), batch_size=2)), []
    for _ in range(2):
        seen = []
        for batch in loader:
            seen += batch.tolist()
            inside.append(torch.rand(1).item())
        assert sorted(index for mine in accelerator.gather_object(seen) for index in mine) == list(range(LENGTH))
    assert _all_differ(accelerator, inside)


def dropout_and_checkpointing_and_accumulation(accelerator):
    accelerator.gradient_accumulation_steps = 2
    seed(10)
    model = nn.Sequential(nn.Linear(1, 64), nn.Dropout(0.5))
    loader, model = accelerator.prepare(DataLoader(torch.ones(LENGTH, 1), batch_size=2), model)
    masks = []
    for batch in loader:
        with accelerator.accumulate(model):
            torch.manual_seed(torch.initial_seed())  # an own seed, with which the mask can be drawn again
            plain = model(batch)
            torch.manual_seed(torch.initial_seed())
            again = checkpoint(model, batch, use_reentrant=False)
            assert torch.equal(plain == 0, again == 0)
            accelerator.backward(again.sum())
            masks.append(tuple((plain == 0).flatten().tolist()))
            model.zero_grad()
    everyone = accelerator.gather_object(masks)
    assert not set(everyone[0]) & set(everyone[1])


class Langevin(torch.optim.SGD):
    """A step with noise, which all ranks must draw alike."""

    def step(self, closure=None):
        super().step(closure)
        with torch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                parameter.add_(torch.randn_like(parameter))


def an_optimizer_of_the_scripts_own_draws_alike(accelerator):
    torch.optim.SGD([torch.zeros(1)])  # from the first one on torch calls hooks for its step, within another's too
    model = nn.Linear(3, 2)
    loader, model, optimizer = accelerator.prepare(_loader(), model, Langevin(model.parameters(), lr=0.1))
    inside = []
    for _ in loader:
        accelerator.backward(model(torch.rand(2, 3)).sum())
        inside.append(torch.rand(1).item())
        optimizer.step()
        inside.append(torch.rand(1).item())
    assert _all_differ(accelerator, inside)
    assert _are_alike(accelerator, model.weight.tolist(), *_draws())


def seeds_by_rank_hold_in_loops_and_outside(accelerator):
    seed(11)
    expected = _draws()
    seed(11)
    accelerator.seed_by_rank()
    loader = accelerator.prepare(_loader())
    drawn = [*_draws()]
    for _ in loader:
        drawn += _draws()
    drawn += _draws()
    assert _all_differ(accelerator, drawn)
    if accelerator.is_main_process:
        assert tuple(drawn[:3]) == expected


def ranks_that_stop_apart_meet_at_a_wait(accelerator):
    accelerator.seed_by_rank()
    for steps in (2 + 3 * accelerator.process_index, 4 - accelerator.process_index):
        model = accelerator.prepare_model(torch.nn.Linear(3, 1))  # where the ranks meet after the first rounds
        optimizer = accelerator.prepare(torch.optim.Adam(model.parameters()))
        for _ in range(steps):
            optimizer.zero_grad()
            accelerator.backward(model(torch.rand(2, 3)).sum())
            optimizer.step()
        accelerator.wait_for_everyone()
        assert _are_alike(accelerator, model.weight.tolist())
        assert accelerator.reduce(1.0) == accelerator.num_processes


def models_that_live_on_noise(accelerator):
    for kind in KINDS:
        drawn, weights = train(kind, accelerator)
        batches = [str(batch) for mine in accelerator.gather_object(drawn) for batch in mine]
        assert len(set(batches)) == len(batches) == 8, kind
        assert _are_alike(accelerator, weights), kind
