"""What is sharded all at once is what is sharded round by round."""

import itertools

import pytest
from torch.utils.data import BatchSampler

from accelify.runtime.data.passes import NO_BATCH
from accelify.runtime.data.sharding import Sharding, shard_items, shard_rows, split_indices, split_rows, taker


@pytest.mark.parametrize("even_batches", [True, False])
@pytest.mark.parametrize("split_batches", [True, False])
@pytest.mark.parametrize("size", [2, 3])
def test_rows_are_dealt_as_their_batches_are(size, split_batches, even_batches):
    for rank, length, start in itertools.product(range(size), range(1, 30), (0, 1, 2, 5)):
        sharding = Sharding(rank=rank, size=size, split_batches=split_batches, even_batches=even_batches)
        rows = list(range(100, 100 + length))
        take = taker(iter(BatchSampler(rows, 3, drop_last=False)))
        one_by_one = (
            split_indices(take, sharding, start) if split_batches else shard_items(take, sharding, len, 3, start)
        )
        shard = split_rows if split_batches else shard_rows
        pairs = list(one_by_one)
        expected = [part for part, _ in pairs if part is not NO_BATCH], [step for _, step in pairs]
        assert shard(rows, 3, sharding, start) == expected, (rank, length, start)


def test_taking_from_a_generator_in_parts():
    def items():
        yield from [1, 2, 3]
        yield 4
        yield from range(5, 8)
        yield from [8, 9]

    take = taker(items())
    assert [take(2), take(3), take(0), take(3), take(4), take(1)] == [[1, 2], [3, 4, 5], [], [6, 7, 8], [9], []]
