"""N ranks together see exactly the epoch that one process sees, and metrics come out as from one process."""

import collections
import copy
import os
import random
import tempfile
import time
from pathlib import Path

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from accelify.runtime import Accelerator, DataLoaderConfiguration
from accelify.runtime.data.metrics import CannotGather
from accelify.runtime.data.preparation import CannotPrepare, ShardedTwice
from accelify.runtime.data.sharding import NoFullRound
from accelify.runtime.data.sources import CannotRead, EmptyShard


class Numbers(Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.tensor(index)


class Stream(IterableDataset):
    def __init__(self, length):
        self.length = length

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        if info is None:
            yield from torch.randperm(self.length)
            return
        shared = torch.Generator().manual_seed(info.seed - info.id)
        yield from torch.randperm(self.length, generator=shared)[info.id :: info.num_workers]


class LazySampler(Sampler):
    """Draws from all three libraries, anew for every index."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __iter__(self):
        for _ in range(self.length):
            drawn = random.random() + numpy.random.rand() + float(torch.rand(()))
            yield int(drawn * 1000)


class Buckets(Sampler):
    """A batch sampler with batches of many sizes."""

    def __iter__(self):
        yield from ([0, 1, 2], [3], [4, 5], [6, 7, 8, 9], [10])

    def __len__(self):
        return 5


def _seed(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)


def _epoch(loader, seed=0):
    """The batches of one epoch, as lists, drawn from streams that rank 0 seeded."""
    _seed(seed)
    return [batch.tolist() if isinstance(batch, torch.Tensor) else batch for batch in loader]


def _everyone(accelerator, value):
    return accelerator.state._collectives.gather_object(value)


def _flat(batches):
    return [number for batch in batches for number in batch]


SAMPLERS = {
    "in order": lambda data: {},
    "shuffled": lambda data: {"shuffle": True},
    "shuffled by a generator": lambda data: {"shuffle": True, "generator": torch.Generator().manual_seed(3)},
    "subset": lambda data: {"sampler": SubsetRandomSampler(range(0, len(data), 2))},
    "weighted": lambda data: {"sampler": WeightedRandomSampler([1.0] * len(data), 13)},
    "with replacement": lambda data: {"sampler": RandomSampler(data, replacement=True, num_samples=17)},
    "own batch sampler": lambda data: {
        "batch_sampler": BatchSampler(RandomSampler(data), 3, drop_last=False),
        "batch_size": 1,
    },
}


def _loader(length, kind, **options):
    data = Numbers(length)
    given = {"batch_size": 4, **SAMPLERS[kind](data), **options}
    return DataLoader(data, **given)


def rank_r_batch_k_is_batch_k_times_n_plus_r(accelerator):
    size, rank = accelerator.num_processes, accelerator.process_index
    for kind in SAMPLERS:
        for length in (16, 18, 25, 3):
            plain = _epoch(_loader(length, kind))
            loader = accelerator.prepare(_loader(length, kind))
            mine = _epoch(loader, seed=rank)
            assert len(loader) == len(mine) == -(-len(plain) // size), kind
            shares = _everyone(accelerator, mine)
            for step, batch in enumerate(mine):
                round_ = plain[step * size : (step + 1) * size]
                if len(round_) == size and len({len(b) for b in round_}) == 1:
                    assert batch == round_[rank], (kind, length, step)
                else:  # the last round's rows are sharded evenly, in order
                    rows = _flat(round_)
                    assert _flat([share[step] for share in shares])[: len(rows)] == rows, (kind, length, step)
                    assert size * (len(batch) - 1) < len(rows) or len(batch) == 2, (kind, length, step)
            assert len({str([len(batch) for batch in batches]) for batches in _everyone(accelerator, mine)}) == 1


def second_epochs_follow_too(accelerator):
    plain, loader = _loader(18, "shuffled"), accelerator.prepare(_loader(18, "shuffled"))
    _seed(5)
    expected = [_flat(batch.tolist() for batch in plain) for _ in range(2)]
    _seed(5)
    for epoch in range(2):
        seen = _everyone(accelerator, [batch.tolist() for batch in loader])
        rounds = [batch for step in zip(*seen, strict=True) for batch in step]
        assert _flat(rounds)[:18] == expected[epoch]
    assert torch.equal(*_everyone(accelerator, torch.get_rng_state())[:2])


def loaders_side_by_side_are_drawn_as_in_one_process(accelerator):
    def drawn(loaders):
        first, second = loaders
        seen = []
        for _ in range(2):
            seen += [(a.tolist(), b.tolist()) for a, b in zip(first, second, strict=False)]
        ahead = iter(first)
        torch.rand(3)
        return [*seen, (next(ahead).tolist(), [])]

    kinds = ("shuffled", "subset"), ("weighted", "in order")
    for pair in kinds:
        _seed(2)
        plain = drawn([_loader(32, kind, drop_last=True) for kind in pair])
        split = Accelerator(split_batches=True)
        # Whichever way its own stream stands, a rank takes rank 0's.
        for own in (2, 2 + accelerator.process_index):
            _seed(own)
            shares = _everyone(accelerator, drawn(split.prepare(*(_loader(32, kind, drop_last=True) for kind in pair))))
            together = [
                tuple(_flat(share[side] for share in step) for side in (0, 1)) for step in zip(*shares, strict=True)
            ]
            assert together == plain, pair


def unseeded_ranks_agree_on_the_shuffle(accelerator):
    loader = accelerator.prepare(_loader(24, "shuffled"))
    torch.manual_seed(100 + accelerator.process_index)
    own = torch.Generator()
    own.set_state(torch.get_rng_state())
    torch.empty((), dtype=torch.int64).random_(generator=own)  # what every DataLoader draws
    seen = sorted(_flat(_flat(_everyone(accelerator, [batch.tolist() for batch in loader]))))
    assert seen == list(range(24))
    if not accelerator.is_main_process:
        assert torch.equal(torch.get_rng_state(), own.get_state())


def a_sampler_that_draws_lazily_is_the_same_on_all_ranks(accelerator):
    data = Numbers(1000 * 3)
    expected = _flat(_epoch(DataLoader(data, batch_size=2, sampler=LazySampler(12))))
    loader = accelerator.prepare(DataLoader(data, batch_size=2, sampler=LazySampler(12)))
    _seed(accelerator.process_index)
    seen = []
    for batch in loader:
        torch.rand(accelerator.process_index)
        random.random()
        seen.append(batch.tolist())
    rounds = [batch for step in zip(*_everyone(accelerator, seen), strict=True) for batch in step]
    assert _flat(rounds) == expected


def generators_of_their_own_are_rank_0s(accelerator):
    def loader(seed):
        return _loader(24, "shuffled", generator=torch.Generator().manual_seed(seed))

    plain = [batch.tolist() for batch in loader(7)]
    seen = [batch.tolist() for batch in accelerator.prepare(loader(7 + accelerator.process_index))]
    rounds = [batch for step in zip(*_everyone(accelerator, seen), strict=True) for batch in step]
    assert rounds == plain


def a_lazy_sampler_leaves_the_scripts_own_stream_alone(accelerator):
    loader = accelerator.prepare(DataLoader(Numbers(3000), batch_size=2, sampler=LazySampler(12)))
    _seed(0)
    drawn, state = [], None
    for _ in loader:
        state = torch.get_rng_state() if state is None else state
        drawn.append(torch.rand(1).item())
    torch.set_rng_state(state)
    assert drawn == [torch.rand(1).item() for _ in drawn]


def workers_fetch_the_same_batches(accelerator):
    for persistent in (False, True):
        options = {"num_workers": 2, "persistent_workers": persistent}
        loader, plain = accelerator.prepare(_loader(18, "shuffled", **options)), _loader(18, "shuffled", **options)
        for epoch in range(2):
            mine, expected = _epoch(loader, epoch), _epoch(plain, epoch)
            for step, batch in enumerate(mine):
                position = step * accelerator.num_processes + accelerator.process_index
                if position < len(expected):
                    assert batch[: len(expected[position])] == expected[position]


class Held(Numbers):
    """Its first worker is ready last: it waits until the second one is at its second batch."""

    def __init__(self, length, folder):
        super().__init__(length)
        self.folder, self.begun = folder, 0

    def __getitem__(self, index):
        worker = torch.utils.data.get_worker_info().id
        mark = Path(self.folder, f"released-{os.getppid()}")
        self.begun += worker
        if self.begun > 4:
            mark.touch()
        while not worker and not mark.exists():
            time.sleep(0.001)
        return super().__getitem__(index)


class HeldStream(Held, IterableDataset):
    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        for index in range(worker.id, self.length, worker.num_workers):
            yield self[index]


def batches_come_in_their_order_where_the_loader_would_not_wait(accelerator):
    for kind in (Held, HeldStream):
        with tempfile.TemporaryDirectory() as folder:
            loader = accelerator.prepare(DataLoader(kind(50, folder), batch_size=4, num_workers=2, in_order=False))
            seen = _flat(accelerator.gather_for_metrics(batch).tolist() for batch in loader)
        assert sorted(seen) == list(range(50))
        assert kind is HeldStream or seen == sorted(seen)


def split_batches_slices_each_batch(accelerator):
    accelerator = Accelerator(split_batches=True)
    size = accelerator.num_processes
    for length, batch_size in ((16, 4), (18, 5), (9, 4), (3, 1)):
        plain = _epoch(DataLoader(Numbers(length), batch_size=batch_size, shuffle=True))
        loader = accelerator.prepare(DataLoader(Numbers(length), batch_size=batch_size, shuffle=True))
        assert len(loader) == len(plain)
        slices = _everyone(accelerator, _epoch(loader))
        for step, batch in enumerate(plain):
            together = _flat(slices[rank][step] for rank in range(size))
            if len(batch) >= size:
                assert together == batch
            else:
                assert set(together) == set(batch)


def split_batches_of_uneven_length_give_the_whole_batchs_gradient(accelerator):
    accelerator = Accelerator(split_batches=True)
    data = TensorDataset(torch.randn(8, 3, generator=torch.Generator().manual_seed(1)))
    model = accelerator.prepare(nn.Linear(3, 1))
    # 3 rows for two ranks: two and one; then 3; then 2; and single rows, which one rank only borrows.
    for batch_size in (3, 1):
        loader = accelerator.prepare(DataLoader(data, batch_size=batch_size))
        whole = DataLoader(data, batch_size=batch_size)
        for (x,), (everything,) in zip(loader, whole, strict=True):
            model.zero_grad()
            (expected,) = torch.autograd.grad(model(everything).square().mean(), model.weight)
            accelerator.backward(model(x).square().mean())
            torch.testing.assert_close(model.weight.grad, expected)


def batches_of_many_sizes_are_left_as_they_are(accelerator):
    loader = accelerator.prepare(DataLoader(Numbers(11), batch_sampler=Buckets()))
    batches = list(Buckets())
    mine = _epoch(loader)
    size, rank = accelerator.num_processes, accelerator.process_index
    for step, batch in enumerate(mine):
        position = step * size + rank
        assert batch == (batches[position] if position < len(batches) else batches[position - len(batches)])


def without_even_batches_nothing_is_added(accelerator):
    accelerator = Accelerator(even_batches=False)
    loader = accelerator.prepare(_loader(18, "in order"))
    mine = _epoch(loader)
    assert len(mine) == len(loader)
    assert sorted(_flat(_flat(_everyone(accelerator, mine)))) == list(range(18))


def a_loader_without_a_batch_size_is_dealt_by_elements(accelerator):
    loader = accelerator.prepare(DataLoader(Numbers(7), batch_size=None, shuffle=True))
    plain = _epoch(DataLoader(Numbers(7), batch_size=None, shuffle=True))
    mine = _epoch(loader)
    rounds = [number for step in zip(*_everyone(accelerator, mine), strict=True) for number in step]
    assert rounds[:7] == plain
    got = []
    for number in loader:
        got.extend(accelerator.gather_for_metrics(number).tolist())
    assert sorted(got) == list(range(7))


def iterable_datasets_are_dealt_without_repetition(accelerator):
    for workers in (0, 2):
        loader = accelerator.prepare(DataLoader(Stream(19), batch_size=4, num_workers=workers))
        torch.manual_seed(accelerator.process_index)
        gathered = []
        for batch in loader:
            gathered.extend(accelerator.gather_for_metrics(batch).tolist())
        assert sorted(gathered) == list(range(19)), workers
        assert len({len(seen) for seen in _everyone(accelerator, list(loader))}) == 1


class Files(IterableDataset):
    """Numbers in files, of which it can give each rank its own; tells who was read."""

    def __init__(self, lengths, with_length=False):
        self.files = [[10 * number + row for row in range(length)] for number, length in enumerate(lengths)]
        self.opened = []
        self.epoch = 0
        if with_length:
            self.__class__ = FilesWithLength

    @property
    def num_shards(self):
        return len(self.files)

    def shard(self, num_shards, index):
        part = copy.copy(self)
        part.files, part.epoch = self.files[index::num_shards], 0
        return part

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        for file in self.files if info is None else self.files[info.id :: info.num_workers]:
            self.opened.append(file[0] // 10)
            yield from map(torch.tensor, file if self.epoch == 0 else reversed(file))


class FilesWithLength(Files):
    def __len__(self):
        return sum(map(len, self.files))


def datasets_that_can_shard_themselves_are_asked_to(accelerator):
    rank = accelerator.process_index
    for workers in (0, 2):
        for with_length in (False, True):
            data = Files((5, 6, 9, 3), with_length)
            loader = accelerator.prepare(DataLoader(data, batch_size=2, num_workers=workers))
            for _ in range(2):
                gathered, steps = [], 0
                for batch in loader:
                    gathered += accelerator.gather_for_metrics(batch).tolist()
                    steps += 1
                assert sorted(gathered) == sorted(number for file in data.files for number in file)
                assert len(set(_everyone(accelerator, steps))) == 1
            if workers == 0:
                assert set(data.opened) == {rank, rank + 2}
            if with_length and workers == 0:
                assert len(loader) == steps
    loader.set_epoch(1)
    assert next(iter(loader)).tolist() == [[4, 3], [15, 14]][rank]
    # Three shards for two ranks: one would have twice the work; every rank reads all instead.
    data = Files((4, 4, 4))
    gathered = []
    for batch in accelerator.prepare(DataLoader(data, batch_size=2)):
        gathered += accelerator.gather_for_metrics(batch).tolist()
    assert len(gathered) == 12
    assert set(data.opened) == {0, 1, 2}


def a_shard_that_ends_first_waits_for_the_others_with_nothing_that_counts(accelerator):
    model = accelerator.prepare(nn.Linear(1, 1))
    loader = accelerator.prepare(DataLoader(Files((2, 8)), batch_size=2))
    seen = []
    for batch in loader:
        accelerator.backward(model(batch.unsqueeze(1).float()).sum())
        seen.append(batch.tolist())
    assert len(seen) == 4
    assert seen == ([[0, 1]] * 4 if accelerator.is_main_process else [[10, 11], [12, 13], [14, 15], [16, 17]])


class OneFile(IterableDataset):
    def __init__(self, rows=0):
        self.rows = rows

    def __iter__(self):
        return iter(range(self.rows))

    def shard(self, num_shards, index):
        return OneFile(0 if index else 3)


def an_empty_shard_is_told_on_every_rank(accelerator):
    loader = accelerator.prepare(DataLoader(OneFile(), batch_size=2))
    with pytest.raises(EmptyShard, match="rank 1 an empty shard"):
        list(loader)


def iterable_datasets_can_be_split(accelerator):
    accelerator = Accelerator(split_batches=True)
    loader = accelerator.prepare(DataLoader(Stream(19), batch_size=4))
    gathered = []
    for batch in loader:
        gathered.extend(accelerator.gather_for_metrics({"x": batch})["x"].tolist())
    assert sorted(gathered) == list(range(19))


def numbers_of_batches_come_in_the_order_of_one_process_where_rows_were_added(accelerator):
    for length in (9, 13):
        first, trimmed = [], []
        for batch in accelerator.prepare(_loader(length, "in order")):
            first.append(batch[0].item())
            trimmed.extend(accelerator.trim_for_metrics(batch).tolist())
        expected = [0, 4, 8] if length == 9 else [0, 4, 8, 11]
        assert accelerator.gather_for_metrics(first, per="batch") == expected
        assert accelerator.gather_for_metrics(trimmed, per="row") == list(range(length))


def a_users_distributed_sampler_is_not_shared_twice(accelerator):
    data = Numbers(23)
    size, rank = accelerator.num_processes, accelerator.process_index
    sampler = DistributedSampler(data, num_replicas=size, rank=rank, shuffle=True)
    loader = accelerator.prepare(DataLoader(data, batch_size=4, sampler=sampler))
    assert loader.sampler is sampler
    assert len(loader) == -(-len(sampler) // 4)
    gathered = []
    for batch in loader:
        gathered.extend(accelerator.gather_for_metrics(batch).tolist())
    assert sorted(gathered) == list(range(23))
    first = _epoch(loader)
    loader.set_epoch(1)
    assert _epoch(loader) != first


class Contiguous(Sampler):
    """A sampler of the script's own that divides the data itself, in pieces."""

    def __init__(self, data, world_size, rank):
        self.data, self.world_size, self.rank = data, world_size, rank

    def __iter__(self):
        return iter(range(self.rank * len(self), (self.rank + 1) * len(self)))

    def __len__(self):
        return len(self.data) // self.world_size


class ContiguousDistributed(DistributedSampler):
    def __iter__(self):
        return iter(Contiguous(self.dataset, self.num_replicas, self.rank))


def samplers_of_the_scripts_own_that_divide_are_not_shared_twice(accelerator):
    size, rank = accelerator.num_processes, accelerator.process_index
    data = Numbers(12 * size)
    for sampler in (Contiguous(data, size, rank), ContiguousDistributed(data, size, rank)):
        for options in ({"batch_size": 5, "sampler": sampler}, {"batch_sampler": BatchSampler(sampler, 5, True)}):
            loader = accelerator.prepare(DataLoader(data, **options))
            seen, gathered = [], []
            for batch in loader:
                seen += batch.tolist()
                gathered += accelerator.gather_for_metrics(batch).tolist()
            assert seen == list(range(rank * 12, rank * 12 + len(seen)))
            assert len(gathered) == size * len(seen) == size * (12 if "sampler" in options else 10)


class Over:
    """A loader of the script's own that goes over another."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return (batch + 100 for batch in self.loader)

    def __len__(self):
        return len(self.loader)


class StreamOver(IterableDataset):
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return iter(self.loader)


def what_goes_over_a_prepared_loader_is_not_sharded_twice(accelerator):
    plain = _loader(16, "in order")
    loader = accelerator.prepare(plain)
    expected = [batch.tolist() for batch in loader]
    assert accelerator.prepare(loader) is accelerator.shard(loader) is loader
    wrapper = Over(loader)
    assert accelerator.prepare(wrapper) is accelerator.shard(wrapper) is wrapper
    assert [(batch - 100).tolist() for batch in accelerator.prepare(Over(wrapper.loader))] == expected
    rest = accelerator.prepare(accelerator.skip_first_batches(loader, 1))
    assert [batch.tolist() for batch in rest] == expected[1:]
    for data in (StreamOver(loader), StreamOver(wrapper)):
        with pytest.raises(ShardedTwice, match="prepare: a DataLoader over a PreparedLoader"):
            accelerator.prepare(DataLoader(data, batch_size=None))
    with pytest.raises(ShardedTwice, match="SequenceShard"):
        accelerator.prepare(DataLoader(accelerator.shard(Numbers(16))))
    with pytest.raises(ShardedTwice, match="Shard that loader itself"):
        accelerator.shard(wrapper, even=False)
    # Another accelerator shards it by its own settings, once.
    other = Accelerator(split_batches=True)
    assert sorted(_flat(batch.tolist() for batch in other.prepare(loader))) == sorted(
        other.process_index * 2 + row + at for at in range(0, 16, 4) for row in range(2)
    )


def a_loader_keeps_its_attributes_and_class(accelerator):
    def collate(rows):
        return torch.stack(rows)

    class Own(DataLoader):
        def twice(self):
            return 2 * self.batch_size

    given = Own(Numbers(10), batch_size=3, shuffle=True, collate_fn=collate, drop_last=True)
    loader = accelerator.prepare(given)
    assert isinstance(loader, DataLoader)
    assert loader.dataset is given.dataset
    assert loader.sampler is given.sampler
    assert loader.batch_sampler is given.batch_sampler
    assert (loader.batch_size, loader.drop_last, loader.collate_fn, loader.twice()) == (3, True, collate, 6)
    loader.collate_fn = lambda rows: torch.stack(rows) + 100
    assert all(number >= 100 for number in _flat(_epoch(loader)))
    with pytest.raises(ValueError, match="batch_size"):
        loader.batch_size = 5
    assert accelerator.prepare(loader) is loader
    assert accelerator.prepare(loader) is loader


def a_loader_with_an_iteration_of_its_own_is_dealt_by_batches(accelerator):
    class Doubling(DataLoader):
        def __iter__(self):
            for batch in super().__iter__():
                yield batch * 2

    plain = _epoch(Doubling(Numbers(24), batch_size=4, shuffle=True))
    mine = _epoch(accelerator.prepare(Doubling(Numbers(24), batch_size=4, shuffle=True)), accelerator.process_index)
    assert mine == plain[accelerator.process_index :: accelerator.num_processes]


def another_librarys_loader_is_dealt_by_batches(accelerator):
    class Foreign:
        batch_size = 2

        def __init__(self):
            self.batches = [torch.tensor([number, number + 1]) for number in range(0, 10, 2)]

        def __iter__(self):
            order = list(range(len(self.batches)))
            random.shuffle(order)
            return (self.batches[position] for position in order)

        def __len__(self):
            return len(self.batches)

    loader = accelerator.prepare(Foreign())
    assert loader.batch_size == 2
    random.seed(accelerator.process_index)
    assert len(loader) == -(-5 // accelerator.num_processes)
    gathered = []
    for batch in loader:
        gathered.extend(accelerator.gather_for_metrics(batch).tolist())
    assert sorted(gathered) == list(range(10))


class OnlyIterable:
    """A loader of the script's own that does not know its length."""

    def __iter__(self):
        return iter(torch.arange(12).split(2))


class Indexed(OnlyIterable):
    def __getitem__(self, index):
        return index


class Schedule:
    """One of the script's own, round an optimizer."""

    def step(self):
        return None


def what_cannot_be_prepared_is_refused(accelerator):
    loader = accelerator.prepare(OnlyIterable())
    seen = accelerator.gather_object([batch.tolist() for batch in loader])
    assert seen == [[[0, 1], [4, 5], [8, 9]], [[2, 3], [6, 7], [10, 11]]]
    weights = [nn.Parameter(torch.ones(2)), torch.ones(1)]
    things = (None, [1, 2], {"a": "text"}, [], Schedule(), weights, [None, torch.ones(1)])
    assert all(given is back for given, back in zip(things, accelerator.prepare(*things), strict=True))
    refused = {
        "a generator is used up": (number for number in range(3)),
        "a list_iterator is used up": iter([1]),
        "LoaderIter is used up": iter(DataLoader(Numbers(2))),
        "a L[a-z]*P?[a-z]* is used up": iter(accelerator.prepare(DataLoader(Numbers(2)))),
        "a tensor stays": torch.ones(2),
        "a Numbers is a dataset. Prepare a DataLoader": Numbers(3),
        "a list of 100 elements is no loader": [1] * 100,
        "a list of 3 elements is no loader": [torch.ones(2)] * 3,
        "a tuple of 2 elements is no loader": ((torch.ones(2), 1), (numpy.ones(2), 0)),
        "a Indexed is no DataLoader. Loop over accelerator.shard": Indexed(),
        "a Stream is a dataset. Prepare a DataLoader": Stream(3),
        "a object is neither": object(),
    }
    for words, given in refused.items():
        with pytest.raises(CannotPrepare, match=words):
            accelerator.prepare(nn.Linear(1, 1), given)
    with pytest.raises(CannotPrepare, match="is used up"):
        accelerator.prepare([iter([1])])
    for words, given in {"the text 'cuda'": "cuda", "a int is neither": 5, "Path is neither": Path("x")}.items():
        with pytest.warns(UserWarning, match=f"{words}.* comes back as it is"):
            assert accelerator.prepare(given) is given


def metrics_have_exactly_the_samplers_rows_in_its_order(accelerator):
    for kind in SAMPLERS:
        for length in (1, 3, 16, 17, 18, 25):
            for drop_last in (False, True):
                options = {} if kind == "own batch sampler" else {"drop_last": drop_last}
                batches, size = _epoch(_loader(length, kind, **options)), accelerator.num_processes
                whole = len(batches) - len(batches) % size if drop_last and options else len(batches)
                expected = _flat(batches[:whole])
                loader = accelerator.prepare(_loader(length, kind, **options))
                assert len(loader) == -(-whole // size)
                if batches and not whole:
                    with pytest.raises(NoFullRound, match="an epoch has 1 full batches, fewer than the 2 processes"):
                        next(iter(loader))
                    continue
                _seed(accelerator.process_index)
                got = []
                for batch in loader:
                    assert not (drop_last and options) or len(batch) == 4
                    got.extend(accelerator.gather_for_metrics(batch).tolist())
                assert got == expected, (kind, length, drop_last)


def full_batches_alone_of_what_is_sharded_by_batches(accelerator):
    for split in (False, True):
        loader = Accelerator(split_batches=split).prepare(DataLoader(Stream(14), batch_size=4, drop_last=True))
        sizes = [len(batch) for batch in loader]
        assert sizes == ([2] * 3 if split else [4])


def metrics_of_split_batches_and_of_uneven_ends(accelerator):
    for options in ({"split_batches": True}, {"even_batches": False}):
        other = Accelerator(**options)
        for length in (16, 17, 20):
            loader = other.prepare(_loader(length, "in order"))
            if "even_batches" in options and length != 16:
                continue
            got = []
            for batch in loader:
                got.extend(other.gather_for_metrics(batch).tolist())
            assert got == list(range(length))


def metrics_in_containers_with_names_and_scalars(accelerator):
    loader = accelerator.prepare(DataLoader(Numbers(10), batch_size=4))
    pair = collections.namedtuple("pair", "left right")
    names, numbers, means, lefts = [], [], [], []
    for batch in loader:
        given = {
            "names": [f"n{number}" for number in batch.tolist()],
            "numbers": batch,
            "mean": batch.float().mean(),
            "pair": pair(batch.unsqueeze(1).double(), batch > 3),
        }
        gathered = accelerator.gather_for_metrics(given)
        names += gathered["names"]
        numbers += gathered["numbers"].tolist()
        means += gathered["mean"].tolist()
        lefts.append(gathered["pair"].left)
        assert gathered["pair"].right.dtype == torch.bool
        assert len(gathered["pair"].right) == len(gathered["numbers"])
    assert names == [f"n{number}" for number in range(10)]
    assert numbers == list(range(10))
    assert torch.cat(lefts).flatten().tolist() == list(range(10))
    assert len(means) == 3


def metrics_of_rows_that_are_tensors_of_many_shapes(accelerator):
    loader = accelerator.prepare(DataLoader(Numbers(11), batch_size=2))
    rows = []
    for batch in loader:
        given = [torch.full((int(number),), int(number)) for number in batch]
        rows += accelerator.gather_for_metrics(given, use_gather_object=True)
    assert [len(row) for row in rows] == list(range(11))
    assert rows[10].tolist() == [10] * 10


def metrics_after_a_break_and_after_the_loop(accelerator):
    train = accelerator.prepare(_loader(17, "in order"))
    evaluate = accelerator.prepare(_loader(18, "in order"))
    for _ in train:
        break
    collected = list(evaluate)
    assert accelerator.gather_for_metrics(torch.cat(collected), per="row").tolist() == list(range(18))
    got = []
    for outer in train:
        for batch in evaluate:
            got.extend(accelerator.gather_for_metrics(batch).tolist())
        rows = accelerator.gather_for_metrics(outer)
        assert rows.tolist() == list(range(8))
        break
    assert got == list(range(18))


def metrics_collected_by_a_loop_in_a_loop(accelerator):
    train = accelerator.prepare(_loader(16, "in order"))
    for rows in (13, 8):
        evaluation = accelerator.prepare(_loader(rows, "in order"))
        for batch in train:
            found = torch.cat(list(evaluation))
            assert accelerator.gather_for_metrics(found, per="row").tolist() == list(range(rows))
            if rows == 8:  # nothing was added to these
                assert len(accelerator.gather_for_metrics(batch + 50)) == accelerator.num_processes * 4
            else:
                with pytest.raises(
                    CannotGather, match="has \\[7\\] rows after a loop over the DataLoader over 13 elements"
                ):
                    accelerator.gather_for_metrics(found)
    uneven = accelerator.prepare(_loader(7, "in order"))
    for batch in train:
        list(uneven)
        with pytest.raises(CannotGather, match="has \\[4\\] rows after a loop over the DataLoader over 7 elements"):
            accelerator.gather_for_metrics(batch)  # or the four of the loop inside
        assert accelerator.gather_for_metrics(batch.sum()).shape == (accelerator.num_processes,)


def a_copied_loader_is_dealt_out_as_the_first_one(accelerator):
    loader = accelerator.prepare(_loader(18, "shuffled"))
    copied = copy.deepcopy(loader)
    assert copied.dataset is not loader.dataset
    rows = []
    for batch in copied:
        rows += accelerator.gather_for_metrics(batch).tolist()
    assert sorted(rows) == list(range(18))


def metrics_of_a_loop_that_was_broken_off_are_in_order(accelerator):
    loader, size = accelerator.prepare(_loader(40, "in order")), accelerator.num_processes
    for taken in (2, 3):  # a script may look at its count before or after it uses a batch
        rows = []
        for batch in loader:
            if taken == 3 and len(rows) == 2:
                break
            rows.append(batch)
            if taken == len(rows):
                break
        assert accelerator.gather_for_metrics(torch.cat(rows), per="row").tolist() == list(range(8 * size))
        firsts = [batch[0] for batch in rows]
        for given in (firsts, torch.stack(firsts)):
            numbers = [int(one) for one in accelerator.gather_for_metrics(given, per="batch")]
            assert numbers == list(range(0, 8 * size, 4))


def metrics_after_a_break_at_the_last_batch_are_all_there(accelerator):
    for length in (24, 21):
        loader, rows = accelerator.prepare(_loader(length, "in order")), []
        for number, batch in enumerate(loader, start=1):
            rows.append(batch)
            if number == len(loader):
                break
        assert accelerator.gather_for_metrics(torch.cat(rows), per="row").tolist() == list(range(length))
        several = torch.cat(rows).repeat_interleave(3)  # of each row, as of a flattened mask
        assert accelerator.gather_for_metrics(several, per="row").tolist() == [n // 3 for n in range(3 * length)]
        if length == 21:
            with pytest.raises(CannotGather, match="the DataLoader over 21 elements of a Numbers"):
                accelerator.gather_for_metrics(torch.cat(rows))


def numbers_as_many_as_the_loop_had_rows_stay_as_they_are(accelerator):
    """What a script makes after a loop is no part of it, however many numbers it has."""
    size = accelerator.num_processes
    for length, count in ((20, 10), (20, 3), (18, 9)):
        list(accelerator.prepare(_loader(length, "in order")))
        classes = torch.arange(count) + 100 * accelerator.process_index
        everyone = [number + 100 * rank for rank in range(size) for number in range(count)]
        if length == 20:
            assert accelerator.gather_for_metrics(classes).tolist() == everyone
        else:  # the last step had added rows, and these may be they
            with pytest.raises(CannotGather, match="per='row' or per='batch'"):
                accelerator.gather_for_metrics(classes)
            with pytest.raises(CannotGather, match=r"over the DataLoader over 18 elements.*which gave them"):
                accelerator.gather_for_metrics(classes[:-2], per="row")
    # Two rows that count, or two batches one of which holds none that does.
    loader = accelerator.prepare(DataLoader(Numbers(2), batch_size=2))
    means = [batch.float().mean().item() for batch in loader]
    assert accelerator.gather_for_metrics(means, per="batch") == [0.5]


def metrics_over_a_loader_that_is_not_prepared(accelerator):
    whole, size = DataLoader(Numbers(3), batch_size=3), accelerator.num_processes
    for batch in whole:
        assert accelerator.gather_for_metrics(batch).tolist() == [0, 1, 2] * size
    list(accelerator.prepare(_loader(20, "in order")))
    for batch in whole:
        assert accelerator.gather_for_metrics(batch).tolist() == [0, 1, 2] * size
    list(accelerator.prepare(_loader(18, "in order")))
    for batch in whole:
        with pytest.raises(CannotGather, match="over the DataLoader over 18 elements of a Numbers"):
            accelerator.gather_for_metrics(batch)
        assert accelerator.gather(batch).tolist() == [0, 1, 2] * size
    for _ in accelerator.shard([1, 2, 3, 4]):
        assert accelerator.gather_for_metrics(torch.arange(3)).tolist() == [0, 1, 2] * size
    with pytest.raises(CannotGather, match="over no prepared loader"):
        accelerator.gather_for_metrics([1], per="batch")


def metrics_that_cannot_be_told_raise(accelerator):
    loader = accelerator.prepare(_loader(18, "in order"))
    for step, batch in enumerate(loader):
        wrong = torch.zeros(len(batch) * 2)
        if step < 2:
            accelerator.gather_for_metrics(wrong)
        else:
            with pytest.raises(CannotGather, match=r"rank 1 has a tensor of shape \[4\] for a batch of 2 rows"):
                accelerator.gather_for_metrics(wrong)
            with pytest.raises(CannotGather, match=r": rank 0 has a list of 4 for a batch of 2 rows"):
                accelerator.gather_for_metrics([""] * (4 if accelerator.is_main_process else 2))
    with pytest.raises(CannotGather, match="in the loop"):
        accelerator.gather_for_metrics(torch.zeros(5))
    with pytest.raises(ValueError, match="choose row or batch"):
        accelerator.gather_for_metrics(torch.zeros(5), per="step")


def shares_of_sequences_and_iterables(accelerator):
    size, rank = accelerator.num_processes, accelerator.process_index
    for whole in (list(range(10)), tuple(range(10)), range(10), torch.arange(10), numpy.arange(10)):
        share = accelerator.shard(whole)
        assert isinstance(share, type(whole)) or isinstance(whole, range)
        assert [int(number) for number in share] == list(range(rank, 10, size))
        assert int(share[1]) == size + rank
    for whole in ([0, 1, 2], range(3), Numbers(3)):
        share = accelerator.shard(whole)
        assert len(share) == 2
        assert [int(share[step]) for step in range(2)] == [(step * size + rank) % 3 for step in range(2)]
        assert int(share[-1]) == (size + rank) % 3
        assert [int(number) for number in share[:1]] == [rank]
    assert list(accelerator.shard(number for number in range(5))) == list(range(5))[rank : size * 2 : size]
    keys = accelerator.shard({"a": 1, "b": 2, "c": 3}.keys())
    assert list(keys) == [["a", "c"], ["b", "a"]][rank]
    assert (len(keys), list(keys)) == (2, [["a", "c"], ["b", "a"]][rank])
    with pytest.raises(TypeError, match="sorted"):
        accelerator.shard({1, 2})
    assert accelerator.shard([]) == []


class OnlyHere(IterableDataset):
    """What one process alone may read; it draws at random and breaks off after so many elements."""

    def __init__(self, accelerator, length=11, breaks=None):
        self.may_read, self.length, self.breaks = accelerator.is_main_process, length, breaks

    def __iter__(self):
        assert self.may_read
        for element in torch.randperm(self.length).tolist():
            if element == self.breaks:
                raise OSError("a broken line")
            yield {"element": element, "name": str(element)}


def _dispatching(**options):
    return Accelerator(dataloader_config=DataLoaderConfiguration(dispatch_batches=True, **options))


def what_process_0_reads_is_dealt_out(accelerator):
    plain = OnlyHere(accelerator)
    plain.may_read = True
    order = [element for batch in _epoch(DataLoader(plain, batch_size=2), 3) for element in batch["element"].tolist()]
    for options, own in (({}, [order[0:2], order[2:4]]), ({"split_batches": True}, [order[0:1], order[1:2]])):
        made = _dispatching(**options)
        loader = made.prepare(DataLoader(OnlyHere(made), batch_size=2))
        for epoch in range(2):
            _seed(3)
            seen, names = [], []
            for step, batch in enumerate(loader):
                if step == 0:
                    assert batch["element"].tolist() == own[made.process_index], epoch
                seen += made.gather_for_metrics(batch["element"]).tolist()
                names += made.gather_for_metrics(batch["name"])
            assert seen == order
            assert names == [str(element) for element in order]
            assert len(set(_everyone(made, torch.rand(()).item()))) == 1
        _seed(3)
        next(iter(loader))
        assert len(list(loader)) == (6 if options else 3)


def what_process_0_cannot_read_fails_on_all(accelerator):
    made = _dispatching()
    loader = made.prepare(DataLoader(OnlyHere(made, breaks=5), batch_size=2))
    with pytest.raises(OSError if made.is_main_process else CannotRead, match="a broken line"):
        list(loader)


def uneven_ends_of_what_process_0_reads(accelerator):
    made = _dispatching(even_batches=False)
    loader = made.prepare(DataLoader(OnlyHere(made, 9), batch_size=2))
    assert sum(len(batch["name"]) for batch in loader) == (5 if made.is_main_process else 4)


class Refilled:
    """Yields one dict again and again, with a new tensor and one that it fills anew."""

    def __iter__(self):
        batch = {"kept": torch.zeros(2)}
        for number in range(5):
            batch["new"] = torch.full((2,), float(number))
            batch["kept"].fill_(number)
            yield batch

    def __len__(self):
        return 5


def what_a_loader_fills_again_is_sharded_by_what_it_held(accelerator):
    expected = [[0, 2, 4], [1, 3, 0]][accelerator.process_index]
    for made in (Accelerator(), _dispatching()):
        for batch, number in zip(made.prepare(Refilled()), expected, strict=True):
            assert {key: value.tolist() for key, value in batch.items()} == dict.fromkeys(("kept", "new"), [number] * 2)
