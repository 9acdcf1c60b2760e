"""Which comprehensions count rows for all processes together: source text in, calls out."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.counted_passes import CountedPass
from tests.codemod.metrics.facts import script_of, training
from tests.codemod.pairs import run


def counted(statement: str, end: str = "print(n)") -> list[CountedPass]:
    return list(script_of(training(begin=statement, end=end)).metrics.counted)


@pytest.mark.parametrize(
    "rows", ["len(x) for x, _ in", "b[0].size(0) for b in", "y.shape[0] for i, (x, y) in enumerate"]
)
def test_rows_that_a_generator_counts(rows: str) -> None:
    (found,) = counted(f"n = sum({rows}(loader))")
    assert ast.unparse(found.source) == "loader"


def test_rows_that_a_list_counts() -> None:
    assert counted("n = sum([len(x) for x, _ in loader])")


@pytest.mark.parametrize(
    "statement",
    [
        "n = sum(len(x) for x, _ in valid)",  # every process has all of it
        "n = sum(1 for _ in loader)",  # steps of a process, as `len(loader)` is
        "n = sum(x.sum() for x, _ in loader)",
        "n = sum(len(x) for x, _ in loader if len(x) > 1)",
        "n = max(len(x) for x, _ in loader)",
    ],
)
def test_what_does_not_count_all_rows(statement: str) -> None:
    assert not counted(statement)


def test_rows_for_each_batch() -> None:
    assert not counted("n = sum(len(x) for x, _ in loader)", "print(n / len(loader))")


def test_rows_counted_within_a_step() -> None:
    """Only some processes may come there, and the loader is in use."""
    assert not script_of(
        training(batch="if i == 3:\n    n = sum(len(x) for x, _ in loader)\n    print(n)")
    ).metrics.counted


def test_the_processes_add_up_what_each_counts() -> None:
    result = run(training(begin="n = sum(len(x) for x, _ in loader)", end="print(n)"))
    changed = 'n = accelerator.reduce(sum(len(x) for x, _ in accelerator.shard(loader, even=False)), "sum")'
    assert changed in result.after.decode()
