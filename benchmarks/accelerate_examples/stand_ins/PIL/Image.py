"""Pictures whose pixels follow from their file's name."""

from __future__ import annotations

import random
from pathlib import Path

import torch


class Picture:
    def __init__(self, pixels: torch.Tensor) -> None:
        self.pixels = pixels

    def convert(self, mode: str) -> Picture:
        return self


def open(path: str) -> Picture:  # its name in Pillow
    """A picture of its label's brightness, with noise."""
    name = Path(path).name
    label = sum(map(ord, name.partition("_")[0])) % 7
    noise = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(random.Random(name).randrange(1 << 30)))
    return Picture(label / 7 + noise)
