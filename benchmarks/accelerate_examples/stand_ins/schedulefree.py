"""What the examples use of `schedulefree`: an optimizer that has modes."""

from __future__ import annotations

from torch.optim import AdamW


class AdamWScheduleFree(AdamW):
    def train(self) -> None:
        pass

    def eval(self) -> None:
        pass
