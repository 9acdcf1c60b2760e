"""Facts about sums: what a loop adds up, and which of it is reduced after the loop."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.sums import Reduction
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import STEP, training

Reduced = list[tuple[tuple[str, ...], str]]  # names, and how


def reductions(facts: Facts) -> Reduced:
    found = facts.script.metrics.reductions
    assert all(isinstance(r, Reduction) for r in found)
    return [(r.names, r.how) for r in found]


def summed(added: str, begin: str = "total, n = 0.0, 0", read: str = "print(total / n)") -> Reduced:
    return reductions(training(epoch=begin, step=f"{STEP}{added}\n", end_of_epoch=read))


def test_a_sum_and_its_count_are_reduced_together() -> None:
    assert summed("total += loss.item() * len(x)\nn += len(x)") == [(("total", "n"), "sum")]


def test_a_mean_over_the_batches_of_one_process() -> None:
    assert summed("total += loss.item()", "total = 0.0", "print(total / len(loader))") == [(("total",), "mean")]


@pytest.mark.parametrize(
    ("added", "begin", "read"),
    [
        ("total = loss.item()", "total = 0.0", "print(total)"),
        ("total += loss.item()", "total = 0.0", ""),
        ("total += loss.item()", "total = start()", "print(total)"),
        ("total -= loss.item()", "total = 0.0", "print(total)"),
    ],
)
def test_what_is_no_sum_over_the_loop(added: str, begin: str, read: str) -> None:
    assert summed(added, begin, read) == []


def test_a_loop_over_what_is_not_shared() -> None:
    facts = training(before="total = 0\n", end="for z in range(3):\n    total += z\nprint(total)\n")
    assert reductions(facts) == []
