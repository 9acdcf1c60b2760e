"""On another number of processes a pass goes on with what is left of its epoch, each sample once.

The ranks of a world are loaders in one process here, which draw from the same state as ranks do;
`test_resume` has some kinds in real processes.
"""

import collections
import itertools

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler

from accelify.runtime.data.loader import load_state, prepare_loader, state_of
from accelify.runtime.data.passes import LoaderPasses
from accelify.runtime.data.sharding import Sharding
from accelify.runtime.data.sources import choose_source
from accelify.runtime.data.streams import Streams
from accelify.runtime.world.collectives import Collectives
from tests.runtime.training import Rows, loader_of, seed

STREAMS = Streams(Collectives(), torch.device("cpu"))
KINDS = ("sequential", "shuffle", "generator", "subset", "weighted", "replacement", "drop_last", "pairs", "elements")
CASES = [
    (kind, workers, split)
    for kind, workers in [*((kind, 0) for kind in KINDS), ("shuffle", 2), ("pairs", 2)]
    for split in (False, True)
    # One element has nothing that could be split.
    if not (kind == "elements" and split)
]


def ranks(size, kind, workers, *, split=False, state=None):
    """A loader for each rank of such a world, about to begin the epoch of seed 0 or to go on with a loaded one."""
    for rank in range(size):
        seed(0 if state is None else 7)
        if kind == "elements":
            loader = DataLoader(Rows(), batch_size=None, shuffle=True, num_workers=workers)
        else:
            loader = loader_of(kind, workers)
        sharding = Sharding(rank=rank, size=size, split_batches=split)
        prepared = prepare_loader(loader, choose_source(loader, sharding, STREAMS), LoaderPasses(STREAMS), None)
        if state is not None:
            assert load_state(prepared, state) is None
        yield prepared


def drawn(loaders, steps=None):
    """The samples of so many steps of each rank, and where rank 0's loader is then."""
    seen, states = [], []
    for loader in loaders:
        loader_pass = iter(loader)
        for index, _ in itertools.islice(loader_pass, steps):
            seen += [index] if isinstance(index, int) else index.tolist()
        states.append(state_of(loader))
    return collections.Counter(seen), states[0]


@pytest.mark.parametrize(("kind", "workers", "split"), CASES)
def test_one_process_goes_on_where_two_were(kind, workers, split):
    epoch, _ = drawn(ranks(1, kind, 0))
    before, state = drawn(ranks(2, kind, workers, split=split), 2)
    after, _ = drawn(ranks(1, kind, workers, state=state))
    assert before + after == epoch
    assert before
    assert after


@pytest.mark.parametrize(("kind", "workers", "split"), CASES)
def test_two_processes_go_on_where_one_was(kind, workers, split):
    epoch, _ = drawn(ranks(1, kind, 0))
    before, state = drawn(ranks(1, kind, workers), 3)
    after, _ = drawn(ranks(2, kind, workers, split=split, state=state))
    assert before + after >= epoch
    # What the last step needs to be the same on both is added, as at any epoch's end.
    added = before + after - epoch
    assert sum(added.values()) <= 3, added


@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 3), (3, 1), (1, 3)])
def test_three_processes_go_on_with_others_and_others_as_three(before, after):
    for kind in ("shuffle", "weighted", "pairs"):
        epoch, _ = drawn(ranks(1, kind, 0))
        first, state = drawn(ranks(before, kind, 0), 1)
        rest, _ = drawn(ranks(after, kind, 0, state=state))
        assert first + rest >= epoch, kind
        # What the last step needs to be the same on all is added.
        assert sum((first + rest - epoch).values()) < 3 * after, kind


def test_a_sampler_that_divides_the_data_itself_says_what_is_seen_again():
    _, state = drawn(ranks(1, "shuffle", 0), 3)
    loader = DataLoader(Rows(), batch_size=3, sampler=DistributedSampler(Rows(), num_replicas=2, rank=0))
    source = choose_source(loader, Sharding(rank=0, size=2), STREAMS)
    problem = load_state(prepare_loader(loader, source, LoaderPasses(STREAMS), None), state)
    assert problem == "the sampler divides the data itself, so that the last batches (1) are seen again"


def test_batches_that_came_as_they_were_ready_cannot_be_told_apart():
    def prepared():
        loader = DataLoader(Rows(), batch_size=3, num_workers=1, in_order=False)
        return prepare_loader(loader, choose_source(loader, Sharding(), STREAMS), LoaderPasses(STREAMS), None)

    _, state = drawn([prepared()], 3)
    assert "some come again, some not at all" in load_state(prepared(), state)


class Endless(torch.utils.data.Dataset):
    """Samples that are made of their numbers, as many as are asked for."""

    def __len__(self):
        return 2**40

    def __getitem__(self, index):
        return index


@pytest.mark.parametrize(("split", "seen"), [(False, [2, 3, 6, 7]), (True, [1, 3])])
def test_of_a_long_dataset_no_list_of_indices_is_made(split, seen):
    loader = DataLoader(Endless(), batch_size=2)
    source = choose_source(loader, Sharding(rank=1, size=2, split_batches=split), STREAMS)
    prepared = prepare_loader(loader, source, LoaderPasses(STREAMS), None)
    assert len(prepared) == 2**39 >> (not split)
    assert torch.cat(list(itertools.islice(prepared, 2))).tolist() == seen
