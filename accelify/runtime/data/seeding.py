"""Seed every source of random numbers that a training script draws from."""

from __future__ import annotations

import random
import zlib

import numpy
import torch

from accelify.runtime.world.process import place


def set_seed(seed: int, device_specific: bool = False, deterministic: bool = False, *, rank: int | None = None) -> None:
    """Seed python, numpy and torch on all devices; `device_specific` gives every rank a stream of its own.

    The streams of ranks come from a hash of seed and rank: with `seed + rank`, rank 1 of one run would repeat rank 0
    of the next.
    """
    if device_specific:
        if rank is None:
            rank, _ = place()
        seed = zlib.crc32(f"{seed} {rank}".encode()) if rank else seed
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    if deterministic:
        torch.use_deterministic_algorithms(True)
