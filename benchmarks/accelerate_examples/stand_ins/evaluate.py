"""What the examples use of `evaluate`: accuracy, and F1 of the second class."""

from __future__ import annotations

from typing import Any  # tensors or lists

import torch
from tracing import record


class Metric:
    """Predictions and references, until they are computed."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []

    def add_batch(self, predictions: Any, references: Any) -> None:
        numbers = (torch.as_tensor(one).tolist() for one in (predictions, references))
        self.rows += zip(*numbers, strict=True)

    def compute(self, predictions: Any = None, references: Any = None) -> dict[str, float]:
        if predictions is not None:
            self.add_batch(predictions, references)
        rows, self.rows = self.rows, []
        true = sum(p == r == 1 for p, r in rows)
        wrong = sum(p != r for p, r in rows)
        found = {"accuracy": 1 - wrong / len(rows), "f1": 2 * true / max(1, 2 * true + wrong)}
        record("metric", [len(rows), found])
        return found


def load(path: str, name: str | None = None, **options: Any) -> Metric:
    """A metric."""
    return Metric()
