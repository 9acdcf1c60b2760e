"""A step on two gloo processes against hand-written DistributedDataParallel, in one world, taking turns.

DistributedDataParallel is there twice: what the two differ by is the machine's noise. Then a round of a loop in which
each rank draws random numbers of its own, against the same shard by hand, in which all draw alike.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator

from taking_turns import in_world, least, show

ROUNDS = 1000  # of a loop over a shard


def main() -> None:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    from accelify.runtime import Accelerator

    accelerator = Accelerator(cpu=True)
    criterion = nn.MSELoss()

    def network(width: int, depth: int, dtype: torch.dtype) -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(*(layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU()))).to(dtype)

    def steps(
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        backward: Callable[..., object],
        inputs: torch.Tensor,
        count: int,
    ) -> Callable[[], None]:
        targets = torch.randn_like(inputs)

        def run() -> None:
            dist.barrier()
            for _ in range(count):
                optimizer.zero_grad()
                backward(criterion(model(inputs), targets))
                optimizer.step()

        return run

    sizes = ((512, 4, 10, 30, torch.float32), (2048, 6, 2, 12, torch.float32), (4096, 6, 1, 8, torch.bfloat16))
    for width, depth, count, rounds, dtype in sizes:
        variants = {}
        inputs = torch.randn(16, width, dtype=dtype)
        for name in ("DistributedDataParallel", "the same again"):
            wrapped = DistributedDataParallel(network(width, depth, dtype))
            optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01)
            variants[name] = steps(wrapped, optimizer, torch.Tensor.backward, inputs, count)
        model = network(width, depth, dtype)
        model, own = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
        variants["accelify"] = steps(model, own, accelerator.backward, inputs, count)
        clocks = {"CPU time of rank 0": time.process_time, "time on the wall": time.perf_counter}
        for name, clock in clocks.items():
            times = least(variants, rounds, clock, share=0.25)
            if accelerator.is_main_process:
                size = sum(parameter.numel() for parameter in model.parameters())
                title = f"a step of {size:,} parameters in {str(dtype).removeprefix('torch.')}"
                show(f"{title}: {name}, ratio to DDP by hand", times, count)
        accelerator.free_memory()

    def generator() -> Iterator[int]:
        yield from range(ROUNDS * accelerator.num_processes)

    def loop(elements: Callable[[], Iterator[int]]) -> Callable[[], None]:
        def run() -> None:
            for _ in elements():
                torch.rand(1)

        return run

    def by_hand(whole: Iterator[int]) -> Iterator[int]:
        return itertools.islice(whole, accelerator.process_index, None, accelerator.num_processes)

    numbers = [*generator()]
    loops = {
        "a generator, sharded by hand": loop(lambda: by_hand(generator())),
        "accelerator.shard(generator)": loop(lambda: accelerator.shard(generator())),
        "accelerator.shard(zip(list, list))": loop(lambda: accelerator.shard(zip(numbers, numbers, strict=True))),
        "accelerator.shard(list)": loop(lambda: accelerator.shard(numbers)),
    }
    times = least(loops, 20)
    if accelerator.is_main_process:
        show("a round in which each rank draws its own numbers: CPU time of rank 0", times, ROUNDS)
    dist.barrier()
    os._exit(0)  # DistributedDataParallel has a group of its own to wind up, which is not ours to measure


if __name__ == "__main__":
    if in_world(2):
        main()
