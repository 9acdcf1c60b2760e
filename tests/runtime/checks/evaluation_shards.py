"""Loaders sharded in whole batches: each is one rank's, and what the ranks collect is what one process collects."""

import re
import warnings

import numpy
import pytest
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from accelify.runtime import Accelerator
from accelify.runtime.world.desync import Desync


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(11.0))

    def shard(self, num_shards, index):
        raise AssertionError("its batches would not be those of one process")


class Rounds:
    """A loader of another library."""

    def __len__(self):
        return 3

    def __iter__(self):
        return iter(torch.arange(12.0).reshape(3, 4))


def _loaders(rows):
    data = TensorDataset(torch.arange(float(rows)))
    yield DataLoader(data, batch_size=4)
    yield DataLoader(data, batch_size=4, shuffle=True)
    yield DataLoader(data, batch_size=4, shuffle=True, num_workers=1, persistent_workers=True)
    yield DataLoader(data, batch_sampler=[[0, 1], [2], list(range(3, rows))])


def _epoch(batches):
    return [batch[0].tolist() if isinstance(batch, list) else batch.tolist() for batch in batches]


def each_batch_is_one_ranks(accelerator):
    for rows in (19, 16, 4):
        for loader in [*_loaders(rows), DataLoader(Stream(), batch_size=3), Rounds()]:
            for _ in range(2):
                before = torch.get_rng_state()
                whole = _epoch(loader)
                torch.set_rng_state(before)
                share = accelerator.shard(loader, even=False)
                mine = _epoch(share)
                assert mine == whole[accelerator.process_index :: accelerator.num_processes]
                if not isinstance(getattr(loader, "dataset", None), Stream):
                    assert len(share) == len(mine)


def whole_batches_are_dealt_where_processes_share_each_batch(accelerator):
    whole = DataLoader(TensorDataset(torch.arange(10.0)), batch_size=4)
    sharding = Accelerator(split_batches=True)
    for loader in (whole, sharding.prepare(whole)):
        mine = _epoch(sharding.shard(loader, even=False))
        assert mine == _epoch(whole)[accelerator.process_index :: accelerator.num_processes]


def a_prepared_loader_is_dealt_as_the_one_it_stands_for(accelerator):
    loader = DataLoader(TensorDataset(torch.arange(11.0)), batch_size=4)
    mine = _epoch(accelerator.shard(accelerator.prepare(loader), even=False))
    assert mine == _epoch(loader)[accelerator.process_index :: accelerator.num_processes]


def workers_that_live_on_are_not_started_again(accelerator):
    loader = list(_loaders(19))[2]
    share = accelerator.shard(loader, even=False)
    assert accelerator.shard(loader, even=False) is share


def other_things_are_dealt_without_repetition(accelerator):
    rank, size = accelerator.process_index, accelerator.num_processes
    for whole in ([1, 2, 3], (1, 2, 3), range(3), torch.arange(3), numpy.arange(3), iter([1, 2, 3])):
        mine = list(accelerator.shard(whole, even=False))
        assert [int(one) for one in mine] in ([1, 2, 3][rank::size], [0, 1, 2][rank::size])


def what_is_collected_comes_in_the_order_of_one_process(accelerator):
    for rows in (19, 16, 4):
        for loader in _loaders(rows):
            before = torch.get_rng_state()
            batches = _epoch(loader)
            torch.set_rng_state(before)
            sums, numbers, arrays = [], [], []
            for (x,) in accelerator.shard(loader, even=False):
                sums.append(x.sum().item())
                numbers.extend(x.tolist())
                arrays.append(x.numpy())
            assert accelerator.gather_for_metrics(sums, per="batch") == [sum(batch) for batch in batches]
            assert accelerator.gather_for_metrics(numbers, per="row") == [row for batch in batches for row in batch]
            arrays = accelerator.gather_for_metrics(arrays, per="batch")
            assert [array.tolist() for array in arrays] == batches


def a_rank_without_a_batch_adds_nothing(accelerator):
    loader = DataLoader(TensorDataset(torch.arange(4.0)), batch_size=4)
    total, count, hits, histogram, seen = 0, 0.0, [0.0] * 2, 0, 0
    for (x,) in accelerator.shard(loader, even=False):
        total += (x > 1).sum()
        count += numpy.int64(3)
        hits[1] += x.sum()
        histogram += numpy.ones((2, 2))
        seen += len(x)
    total, count, hits, histogram, seen = accelerator.reduce((total, count, hits, histogram, seen), "sum")
    assert total == 2
    assert total.dtype == torch.int64
    assert (count, hits, seen) == (3, [0.0, torch.tensor(6.0)], 4)
    assert histogram.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def keys_that_a_rank_lacks_are_zeros(accelerator):
    mine = {"b": 1, "a": torch.ones(2)} if accelerator.is_main_process else {"a": torch.ones(2), "c": {"d": 2.5}}
    assert repr(accelerator.reduce(mine, "sum")) == repr({"b": 1, "a": torch.full((2,), 2.0), "c": {"d": 2.5}})
    with pytest.raises(Desync):
        accelerator.reduce(mine, "mean")


def only_zeros_are_filled_in(accelerator):
    for other in (1, torch.zeros(2), "0"):
        mine = torch.zeros(1) if accelerator.is_main_process else other
        with pytest.raises(Desync, match=r"rank 0 evaluation_shards\.py:\d+ reduce sum f32\[1\]; rank 1 "):
            accelerator.reduce(mine, "sum")
    with pytest.raises(Desync):
        accelerator.reduce(torch.zeros(1) if accelerator.is_main_process else 0, "mean")


def added_rows_are_trimmed_where_they_are(accelerator):
    for rows in (16, 19, 17, 3, 1):
        for split in (False, True):
            worker = Accelerator(split_batches=split)
            loader = worker.prepare(DataLoader(TensorDataset(torch.arange(float(rows))), batch_size=4))
            seen, count = [], 0
            for (x,) in loader:
                x, names, one, loss = worker.trim_for_metrics((x, x.tolist(), x.numpy(), x.mean()))
                assert len(x) == len(names) == len(one)
                seen.extend(names)
                count += loss.numel()
            everyone = [row for own in worker.gather_object(seen) for row in own]
            assert sorted(everyone) == list(range(rows))
            assert count == len(loader)
            assert worker.trim_for_metrics(seen) is seen


def rows_that_are_compared_with_trimmed_ones_are_named(accelerator):
    """In the last round the second rank has two rows, of which none or one counts."""

    def epoch(rows, trims_all):
        loader = accelerator.prepare(DataLoader(TensorDataset(torch.arange(float(rows))), batch_size=4))
        hits, size = 0, 0
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for (x,) in loader:
                out, other = x + 0, x + 1
                if trims_all:
                    x, out = accelerator.trim_for_metrics((x, out))
                else:
                    x = accelerator.trim_for_metrics(x)
                other = len(other)
                size += len(x) + other
                hits += (out == x).sum().item()
        return hits, [str(one.message) for one in caught]

    for rows in (11, 9):
        hits, told = epoch(rows, trims_all=True)
        assert accelerator.reduce(hits, "sum") == rows
        assert told == []
    hits, told = epoch(11, trims_all=False)
    assert accelerator.reduce(hits, "sum") == 11  # by luck: a single row is compared with both
    if accelerator.is_main_process:
        assert told == []
    else:
        (text,) = told
        assert re.match(r"trim_for_metrics: `out`, which line \d+ reads .* has 2 rows, of which 1 count", text)


def a_mean_is_taken_again_without_the_rows_that_were_added(accelerator):
    for rows in (16, 13, 9, 1):
        for split in (False, True):
            worker = Accelerator(split_batches=split)
            loader = worker.prepare(DataLoader(TensorDataset(torch.arange(float(rows))), batch_size=4))
            total = squares = count = 0.0
            for (x,) in loader:
                mean = x.mean()
                again = worker.mean_for_metrics(mean, torch.mean, x)
                total += again.item() * len(worker.trim_for_metrics(x))
                lost = functional.mse_loss(x, 0 * x, reduction="sum")
                squares += worker.mean_for_metrics(lost, functional.mse_loss, x, target=0 * x, reduction="sum").item()
                count += worker.mean_for_metrics(len(x), len, x)
            assert worker.reduce(total, "sum") == pytest.approx(sum(range(rows)))
            assert worker.reduce(squares, "sum") == pytest.approx(sum(n * n for n in range(rows)))
            assert worker.reduce(count, "sum") == rows
            assert worker.mean_for_metrics(mean, torch.mean, x) is mean


def what_is_not_the_batchs_rows_is_not_trimmed(accelerator):
    for (x,) in accelerator.prepare(DataLoader(TensorDataset(torch.arange(5.0)), batch_size=4)):
        given = x, torch.cat([x, x])
        assert accelerator.trim_for_metrics(given) is given


def a_part_of_a_batch_that_is_repeated_whole_is_trimmed_to_nothing(accelerator):
    class Batches:
        def __len__(self):
            return 3

        def __iter__(self):
            return iter([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]])

    loader = accelerator.prepare(DataLoader(TensorDataset(torch.arange(12.0)), batch_sampler=Batches()))
    halves = twice = 0
    for (x,) in loader:
        half, pair = accelerator.trim_for_metrics((x[:2], torch.cat([x, x])))
        halves, twice = halves + len(half), twice + len(pair)
        assert len(accelerator.trim_for_metrics(torch.ones(3))) == 3
    assert accelerator.reduce((halves, twice), "sum") == (6, 24)
