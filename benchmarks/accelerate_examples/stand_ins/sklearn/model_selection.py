"""Folds of equal size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy


class StratifiedKFold:
    def __init__(self, n_splits: int) -> None:
        self.n_splits = n_splits

    def split(self, rows: Sequence[object], labels: Sequence[int]) -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
        fold = numpy.arange(len(rows)) % self.n_splits
        for each in range(self.n_splits):
            yield numpy.flatnonzero(fold != each), numpy.flatnonzero(fold == each)
