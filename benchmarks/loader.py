"""A batch from a prepared loader against one from a plain DataLoader: in one process, and on two ranks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from taking_turns import in_world, least, show

# Batches of an epoch, and of a turn: so few that all variants take theirs while the machine is as busy.
BATCHES, TURN, ROUNDS = 1000, 25, 200


def taking(loader: Iterable[object]) -> Callable[[], object]:
    """What takes the loader's next batches, from one epoch into the next."""

    def epochs() -> Iterator[object]:
        while True:
            yield from loader

    batches = epochs()
    return lambda: deque(islice(batches, TURN), maxlen=0)


def main() -> None:
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    from accelify.runtime import Accelerator
    from accelify.runtime.world.environment import Environment

    one = Accelerator(cpu=True, environment=Environment())  # before there is a group that it would join
    two, split = Accelerator(cpu=True), Accelerator(cpu=True, split_batches=True)
    for size in (4, 32):
        data = TensorDataset(torch.randn(2 * BATCHES * size, 8), torch.zeros(2 * BATCHES * size))
        half = TensorDataset(data.tensors[0][: BATCHES * size], data.tensors[1][: BATCHES * size])
        everything = DataLoader(half, batch_size=size, shuffle=True)
        sampler = DistributedSampler(data)
        loaders = {
            "one process": {
                "plain DataLoader": everything,
                "accelify": one.prepare(DataLoader(half, batch_size=size, shuffle=True)),
            },
            "each of two ranks": {
                "DataLoader with a DistributedSampler": DataLoader(data, batch_size=size, sampler=sampler),
                "accelify": two.prepare(DataLoader(data, batch_size=size, shuffle=True)),
                "accelify, split_batches": split.prepare(DataLoader(data, batch_size=2 * size, shuffle=True)),
            },
        }
        for where, variants in loaders.items():
            assert {name: len(loader) for name, loader in variants.items()} == dict.fromkeys(variants, BATCHES)
            times = least({name: taking(loader) for name, loader in variants.items()}, ROUNDS)
            firsts = {name: (lambda loader=loader: next(iter(loader))) for name, loader in variants.items()}
            beginnings = least(firsts, ROUNDS)
            if two.is_main_process:
                show(f"a batch of {size}, {where}: CPU time, ratio to plain", times, TURN)
                show(f"an epoch of these until its first batch, {where}", beginnings, 1)
        dist.barrier()


if __name__ == "__main__":
    if in_world(2):
        main()
