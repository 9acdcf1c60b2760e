"""What `prepare` and `shard` make of loaders and sequences, for one rank of two without a process group."""

import itertools
from collections import OrderedDict, UserDict, namedtuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from accelify.runtime.data.passes import LoaderPasses
from accelify.runtime.data.preparation import DataPreparation, ShardedTwice
from accelify.runtime.data.sharding import Sharding
from accelify.runtime.data.streams import Streams
from accelify.runtime.world import tensors
from accelify.runtime.world.collectives import Collectives
from accelify.runtime.world.process_group import World

ROWS = list(range(12))


def data(rank=0, size=2, **options):
    """The data of one rank, whose loaders draw nothing at random: nothing is sent."""
    return DataPreparation(
        world=World(device=torch.device("cpu"), rank=rank, size=size),
        sharding=Sharding(rank=rank, size=size, **options),
        passes=LoaderPasses(Streams(Collectives(), torch.device("cpu"))),
    )


def batches(loader):
    return [batch.tolist() for batch in loader]


def test_each_rank_gets_every_other_batch():
    loader = DataLoader(ROWS, batch_size=2)
    assert batches(data(rank=0).prepare(loader, None)) == [[0, 1], [4, 5], [8, 9]]
    assert batches(data(rank=1).prepare(loader, None)) == [[2, 3], [6, 7], [10, 11]]


class Pairs(DataLoader):
    """Has a constructor of its own, which leaves out that of DataLoader."""

    def __init__(self):
        self.rows = ROWS

    def __iter__(self):
        yield from (torch.tensor(self.rows[i : i + 2]) for i in range(0, len(self.rows), 2))

    def __len__(self):
        return len(self.rows) // 2


class UncountedPairs(Pairs):
    """Leaves its length to DataLoader, too, which then has none."""

    __len__ = DataLoader.__len__


def test_a_loader_that_was_never_set_up_as_one_may_have_no_length():
    on_device = data(size=1).prepare(UncountedPairs(), torch.device("cpu"))
    assert batches(on_device) == [[i, i + 1] for i in range(0, 12, 2)]


def test_a_loader_that_was_never_set_up_as_one_is_sharded_by_its_batches():
    assert batches(data(size=1).prepare(Pairs(), None)) == [[i, i + 1] for i in range(0, 12, 2)]
    assert [batches(data(rank=rank).prepare(Pairs(), None))[0] for rank in (0, 1)] == [[0, 1], [2, 3]]


class Lines(Dataset):
    """Gives the next number of what it holds, whatever the index."""

    def __init__(self):
        self.lines = iter(ROWS * 2)

    def __len__(self):
        return len(ROWS)

    def __getitem__(self, index):
        return next(self.lines)


class Rows(Lines):
    """Reads on in a method."""

    def __getitem__(self, _):
        return self.read()

    def read(self):
        return self.lines.__next__()


class Seeking(Lines):
    """Reads what is asked for."""

    def __getitem__(self, index):
        self.lines = iter(ROWS[index:])
        return next(self.lines)


class Noise(Lines):
    """Needs no index, and holds nothing that could be read on."""

    def __init__(self):
        self.seen = []

    def __getitem__(self, index):
        self.seen.append(1)
        return 1


@pytest.mark.parametrize("kind", [Lines, Rows, Seeking])
@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: Subset(one, ROWS)])
def test_each_rank_gets_every_other_batch_of_what_reads_on(kind, wrap):
    for rank, expected in ((0, [[0, 1], [4, 5], [8, 9]]), (1, [[2, 3], [6, 7], [10, 11]])):
        prepared = data(rank=rank).prepare(DataLoader(wrap(kind()), batch_size=2), None)
        assert batches(prepared) == batches(prepared) == expected
        assert len(prepared) == 3


def test_what_needs_no_index_and_keeps_no_place_is_not_read_by_all():
    noise = Noise()
    assert len(batches(data().prepare(DataLoader(noise, batch_size=2), None))) == 3
    assert len(noise.seen) == 6


def test_a_loader_is_prepared_once():
    given = data()
    prepared = given.prepare(DataLoader(ROWS, batch_size=2), None)
    assert given.prepare(prepared, None) is prepared
    assert list(given.loaders) == [prepared]
    given.forget()
    assert not given.loaders


@pytest.mark.parametrize("size", [1, 2])
def test_a_loader_that_the_script_lets_go_is_let_go(size):
    given = data(size=size)
    for _ in range(3):
        loader = given.prepare(DataLoader(ROWS, batch_size=2), torch.device("cpu"))
        batches(loader)
    assert list(given.loaders) == [loader]


def test_a_loader_that_another_accelerator_prepared_is_sharded_anew():
    split = data(split_batches=True).prepare(DataLoader(ROWS, batch_size=2), None)
    assert batches(data().prepare(split, None)) == [[0, 1], [4, 5], [8, 9]]


class Bar:
    """What shows the progress of a loop over a loader."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return iter(self.loader)

    def __len__(self):
        return len(self.loader)


class Wrapper(IterableDataset):
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return iter(self.loader)


def test_what_is_sharded_is_not_sharded_again():
    given = data()
    prepared = given.prepare(DataLoader(ROWS, batch_size=2), None)
    with pytest.raises(ShardedTwice, match="a DataLoader over a PreparedLoader"):
        given.prepare(DataLoader(Wrapper(prepared), batch_size=None), None)
    bar = Bar(prepared)
    assert given.shard(bar, is_even=True) is bar
    with pytest.raises(ShardedTwice, match="Shard that loader itself"):
        given.shard(bar, is_even=False)


def test_evaluation_shards_hold_each_batch_once():
    loader = DataLoader(ROWS[:10], batch_size=4)
    shards = [batches(data(rank=rank).shard(loader, is_even=False)) for rank in range(2)]
    assert shards == [[[0, 1, 2, 3], [8, 9]], [[4, 5, 6, 7]]]


def test_data_that_hold_an_open_archive_are_prepared(tmp_path):
    np.savez(tmp_path / "rows.npz", x=np.arange(12))

    class Rows(Dataset):
        def __init__(self):
            self.archive = np.load(tmp_path / "rows.npz")

        def __len__(self):
            return len(self.archive["x"])

        def __getitem__(self, index):
            return int(self.archive["x"][index])

    loader = data(rank=1).prepare(DataLoader(Rows(), batch_size=2), None)
    assert batches(loader) == [[2, 3], [6, 7], [10, 11]]


def test_in_one_process_nothing_is_sharded():
    alone = data(size=1)
    assert alone.shard(ROWS, is_even=True) is ROWS
    assert batches(alone.prepare(DataLoader(ROWS, batch_size=6), None)) == [ROWS[:6], ROWS[6:]]


@pytest.mark.parametrize("fails", [False, True])
def test_even_batches_are_as_they_were_after_the_block(fails):
    given = data()
    with pytest.raises(KeyError) if fails else given.evened(None), given.evened(False):
        assert given.sharding.even_batches is False
        if fails:
            raise KeyError
    assert given.sharding.even_batches is True


class Endless(DataLoader):
    """A loader that is its own iterator, as many scripts define one."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.batches = super().__iter__()

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return next(self.batches)
        except StopIteration:
            self.batches = super().__iter__()
            return next(self.batches)


@pytest.mark.parametrize("size", [1, 2])
def test_an_endless_loader_may_be_asked_by_next(size):
    ranks = [data(rank, size).prepare(Endless(list(range(8)), batch_size=2), None) for rank in range(size)]
    seen = [[next(loader).tolist() for _ in range(5)] for loader in ranks]
    whole = [[0, 1], [2, 3], [4, 5], [6, 7]] * 3
    assert seen == [whole[rank : 5 * size : size] for rank in range(size)]
    assert all(isinstance(loader, DataLoader) for loader in ranks)
    with pytest.raises(TypeError, match="not an iterator"):
        next(data(0, size).prepare(DataLoader(list(range(8))), None))


class Refilled:
    """A loader that fills what it yields again and again, as `fill(batch, number)` says."""

    def __init__(self, make, fill, count=5):
        self.make, self.fill, self.count = make, fill, count

    def __iter__(self):
        held = self.make()
        for number in range(self.count):
            yield self.fill(held, number)

    def __len__(self):
        return self.count


def _set_item(key):
    def fill(batch, number):
        batch[key] = torch.full((2,), number)
        return batch

    return fill


def _set_inner(batch, number):
    batch["inputs"][0] = torch.full((2,), number)
    return batch


def _fill_tensor(batch, number):
    batch.fill_(number)
    return batch


def _fill_tensor_in_a_new_dict(batch, number):
    return {"x": batch.fill_(number)}


def _fill_array(batch, number):
    batch["x"][:] = number
    return batch


def _fill_view(batch, number):
    batch.fill_(number)
    return (batch[:2],)


def _fill_one_of_two(batch, number):
    return batch[number % 2].fill_(number)


REFILLED = {
    "dict": (dict, _set_item("x")),
    "list": (lambda: [0, "name"], _set_item(0)),
    "ordered dict": (OrderedDict, _set_item("x")),
    "tokenizer's dict": (UserDict, _set_item("x")),
    "dict in a dict": (lambda: {"inputs": [0]}, _set_inner),
    "tensor": (lambda: torch.zeros(2), _fill_tensor),
    "tensor in a new dict": (lambda: torch.zeros(2), _fill_tensor_in_a_new_dict),
    "array in a dict": (lambda: {"x": np.zeros(2)}, _fill_array),
    "view of a tensor": (lambda: torch.zeros(3), _fill_view),
    "two tensors in turn": (lambda: [torch.zeros(2), torch.zeros(2)], _fill_one_of_two),
}


def _number(batch):
    return int(next(tensors.leaves(batch))[0])


@pytest.mark.parametrize("kind", REFILLED)
@pytest.mark.parametrize("size", [2, 3, 4])
def test_what_a_loader_fills_again_holds_the_batch_that_is_asked_for(kind, size):
    for rank in range(size):
        loader = data(rank, size).prepare(Refilled(*REFILLED[kind], count=9), None)
        # The last round is completed from the first.
        numbers = [*range(9), *range(size)]
        assert [_number(batch) for batch in loader] == numbers[rank::size][: len(loader)]


def test_a_container_filled_again_is_of_the_same_kind_and_one_s_own():
    for kind in (dict, OrderedDict, UserDict):
        first, second = itertools.islice(data().prepare(Refilled(kind, _set_item("x")), None), 2)
        assert type(first) is type(second) is kind
        assert first is not second


Point = namedtuple("Point", ["x", "name"])


class Graph:
    """An object of the script's own."""

    def __init__(self, x):
        self.x = x


@pytest.mark.parametrize(
    "wrap", [lambda x: x, lambda x: {"x": x}, lambda x: Point(x, "point"), Graph, lambda x: (x, 1)]
)
def test_what_a_loader_makes_for_each_batch_is_not_copied_after_the_first_round(wrap):
    made = [wrap(torch.full((2,), float(number))) for number in range(8)]

    class Made:
        def __iter__(self):
            return iter(made)

        def __len__(self):
            return len(made)

    seen = list(data(rank=1).prepare(Made(), None))
    assert [type(batch) for batch in seen] == [type(made[0])] * 4
    for batch, own in zip(seen[1:], made[3::2], strict=True):
        assert all(a is b for a, b in zip(tensors.leaves(batch), tensors.leaves(own), strict=True))


class Stream(IterableDataset):
    def __iter__(self):
        yield from Refilled(*REFILLED["array in a dict"], count=6)


def test_a_stream_that_fills_its_element_again_is_sharded_by_what_it_held():
    loader = DataLoader(Stream(), batch_size=None)
    assert [[_number(batch) for batch in data(rank).prepare(loader, None)] for rank in (0, 1)] == [[0, 2, 4], [1, 3, 5]]
