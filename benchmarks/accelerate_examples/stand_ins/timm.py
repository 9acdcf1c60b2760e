"""What the examples use of `timm`: a small model of pictures."""

from __future__ import annotations

import torch
import tracing  # noqa: F401  # every example imports this module or `datasets`, and is traced for it
from torch import nn


class _Model(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.default_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
        self.stem = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 16), nn.Tanh())
        self.head = nn.Linear(16, classes)

    def get_classifier(self) -> nn.Module:
        return self.head

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.stem(pictures))
        return out


def create_model(name: str, pretrained: bool, num_classes: int) -> nn.Module:
    """The model."""
    return _Model(num_classes)
