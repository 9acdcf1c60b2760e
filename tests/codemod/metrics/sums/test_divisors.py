"""Does what a sum is divided by count the batches of one process?"""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.sums.divisors import Divisors
from accelify.codemod.metrics.sums.uses import Use, Uses
from accelify.codemod.metrics.updates import additions_in
from tests.codemod.training_scripts import STEP, training


@pytest.mark.parametrize(
    ("added", "divisor", "how"),
    [
        ("loss.item()", "len(loader)", "mean"),
        ("loss.item()", "len(rows)", "sum"),
        ("loss.item() * len(x)", "len(rows)", "sum"),
        ("loss.item() / len(loader)", "", "mean"),
    ],
)
def test_how_a_sum_becomes_that_of_all_processes(added: str, divisor: str, how: str) -> None:
    shown = f"print(total / {divisor})" if divisor else "print(total)"
    facts = training(epoch="total = 0.0", step=f"{STEP}total += {added}", end_of_epoch=shown)
    metrics, loop = facts.script.metrics, facts["for x, y in loader"]
    measured = metrics.measured
    divisors = Divisors(measured.chains, metrics.ranks, measured.prepared, Uses(measured.chains, metrics.ranks))
    use = Use((facts[f"total / {divisor}"].right,) if divisor else (), frozenset())
    additions = list(additions_in(measured.chains, loop))
    assert divisors.how(additions, [use], loop, ["total"]) == how


@pytest.mark.parametrize(
    ("shown", "size", "how"),
    [
        ("sum(sums.values()) / {} / len(loader)", "len(sums)", "mean"),
        ("sum(sums.values()) / {}", "len(sums)", "sum"),
        ("sum(sums.values()) / {} / len(loader)", "len(rows)", None),
    ],
)
def test_the_number_of_sums_in_a_dict_counts_no_batches(shown: str, size: str, how: str | None) -> None:
    step = f"{STEP}sums['a'] += loss.item()\nsums['b'] += loss.item() ** 2"
    shown = f"print({shown.format(size)})"
    facts = training(epoch="sums = {'a': 0.0, 'b': 0.0}", step=step, end_of_epoch=shown)
    reductions = facts.script.metrics.reductions
    assert [r.how for r in reductions] == ([how] if how else [])
