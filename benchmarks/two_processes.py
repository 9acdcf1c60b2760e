"""A step on two gloo processes against hand-written DistributedDataParallel, in one world, taking turns.

DistributedDataParallel is there twice: what the two differ by is the machine's noise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from taking_turns import in_world, least, show


def main() -> None:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    from accelify.runtime import Accelerator

    accelerator = Accelerator(cpu=True)
    criterion = nn.MSELoss()

    def network(width: int, depth: int) -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(*(layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())))

    def steps(
        model: nn.Module, optimizer: torch.optim.Optimizer, backward: Callable[..., object], width: int, count: int
    ) -> Callable[[], None]:
        inputs, targets = torch.randn(16, width), torch.randn(16, width)

        def run() -> None:
            dist.barrier()
            for _ in range(count):
                optimizer.zero_grad()
                backward(criterion(model(inputs), targets))
                optimizer.step()

        return run

    for width, depth, count, rounds in ((512, 4, 10, 30), (2048, 6, 2, 12)):
        variants = {}
        for name in ("DistributedDataParallel", "the same again"):
            wrapped = DistributedDataParallel(network(width, depth))
            optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01)
            variants[name] = steps(wrapped, optimizer, torch.Tensor.backward, width, count)
        model = network(width, depth)
        model, own = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
        variants["accelify"] = steps(model, own, accelerator.backward, width, count)
        clocks = {"CPU time of rank 0": time.process_time, "time on the wall": time.perf_counter}
        for name, clock in clocks.items():
            times = least(variants, rounds, clock, share=0.25)
            if accelerator.is_main_process:
                size = sum(parameter.numel() for parameter in model.parameters())
                show(f"a step of {size:,} parameters: {name}, ratio to DDP by hand", times, count)
    dist.barrier()
    os._exit(0)  # DistributedDataParallel has a group of its own to wind up, which is not ours to measure


if __name__ == "__main__":
    if in_world(2):
        main()
