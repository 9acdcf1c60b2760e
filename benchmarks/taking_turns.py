"""What the benchmarks of the runtime share: variants that take turns in one process, and two ranks to measure in."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable

ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "TORCHELASTIC_ERROR_FILE": ""}
# glibc keeps what is freed: else it depends on where large blocks happen to lie whether each step maps its own anew.
KEEPING = {"MALLOC_TRIM_THRESHOLD_": str(4 << 30), "MALLOC_MMAP_MAX_": "0"}


def least(
    variants: dict[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
    share: float = 0,
) -> dict[str, float]:
    """The least seconds of each variant, or what that share of its rounds stayed under.

    They take turns, in one order and the other, after a round unmeasured.
    """
    times: dict[str, list[float]] = {name: [] for name in variants}
    for run in variants.values():
        run()
    for number in range(rounds):
        # Once in a round, and not before each: it drives what all of them read out of the processor's caches.
        gc.collect()
        gc.disable()
        for name in list(variants) if number % 2 else reversed(variants):
            start = clock()
            variants[name]()
            times[name].append(clock() - start)
        gc.enable()
    return {name: sorted(each)[int(share * rounds)] for name, each in times.items()}


def show(title: str, times: dict[str, float], count: int) -> None:
    """One line for each variant: microseconds for one of the `count` things it did, and the ratio to the first."""
    floor = next(iter(times.values()))
    print(title)
    for name, seconds in times.items():
        print(f"  {name:<44}{1e6 * seconds / count:10.1f} us{seconds / floor:8.3f}", flush=True)


def in_world(processes: int) -> bool:
    """Whether this is a rank. If not, the file that was started is run again, as so many ranks on the CPU."""
    if "RANK" in os.environ:
        return True
    world = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), sys.argv[0]]
    subprocess.run([sys.executable, *world], env={**os.environ, **ENVIRONMENT, **KEEPING}, check=True)
    return False
