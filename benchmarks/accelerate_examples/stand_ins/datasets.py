"""What the examples use of `datasets`: pairs of sentences with a label, or lines of text, that follow from a seed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any  # the values of a row

import tracing  # noqa: F401  # every example imports this module, and is traced for it

WORDS = "ape bee cat dog eel fox gnu hen ibis jay kid lark".split()
SIZES = dict(zip(("train", "validation"), map(int, os.environ.get("TRACE_ROWS", "192,72").split(",")), strict=True))


class Dataset:
    """Rows by column."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self.columns = {name: list(values) for name, values in columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def num_rows(self) -> int:
        return len(self)

    @property
    def column_names(self) -> list[str]:
        return list(self.columns)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.columns[key]
        return {name: values[key] for name, values in self.columns.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))

    def select(self, indices: Iterable[int]) -> Dataset:
        kept = [int(index) for index in indices]
        return Dataset({name: [values[i] for i in kept] for name, values in self.columns.items()})

    def map(self, function: Callable[..., Any], batched: bool = True, remove_columns: Sequence[str] = ()) -> Dataset:
        added = function(self.columns)
        return Dataset({**{n: v for n, v in self.columns.items() if n not in remove_columns}, **added})

    def filter(self, function: Callable[[Any], bool], input_columns: str) -> Dataset:
        return self.select(i for i, value in enumerate(self.columns[input_columns]) if function(value))

    def rename_column(self, old: str, new: str) -> Dataset:
        return Dataset({new if name == old else name: values for name, values in self.columns.items()})


class IterableDataset:
    """Asked for by Accelerate where the library `datasets` is installed; no example has one."""


class DatasetDict(dict[str, Dataset]):
    """Several of them; what is done is done to each."""

    def __getattr__(self, name: str) -> Callable[..., DatasetDict]:
        return lambda *args, **kwargs: DatasetDict({k: getattr(d, name)(*args, **kwargs) for k, d in self.items()})


def load_dataset(path: str, name: str | None = None, **options: Any) -> DatasetDict:
    """The rows."""
    return DatasetDict({split: _rows(split, size, is_text="wikitext" in path) for split, size in SIZES.items()})


def _rows(split: str, size: int, is_text: bool) -> Dataset:
    draw = random.Random(split)
    lines = [" ".join(draw.choice(WORDS) for _ in range(8)) for _ in range(2 * size)]
    if is_text:
        return Dataset({"text": (lines * 2)[:512]})
    labels = [int(one < other) for one, other in zip(lines[:size], lines[size:], strict=True)]
    return Dataset({"sentence1": lines[:size], "sentence2": lines[size:], "label": labels, "idx": range(size)})
