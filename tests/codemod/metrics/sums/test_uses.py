"""What a sum is divided by, and what else it is made into, where it is read."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.sums.uses import Uses
from tests.codemod.training_scripts import STEP, training


@pytest.mark.parametrize(
    ("read", "divisors", "is_known"),
    [
        ("print(total)", [], True),
        ("print(total / n)", ["n"], True),
        ("mean = total / n\nprint(mean)", ["n"], True),
        ("print(100 * total / len(rows))", ["len(rows)"], True),
        ("print(total / n / 2)", ["n", "2"], True),
    ],
)
def test_a_use(read: str, divisors: list[str], is_known: bool) -> None:
    facts = training(epoch="total, n = 0.0, 0", step=f"{STEP}total += loss.item()\nn += 1", end_of_epoch=read)
    metrics, loop = facts.script.metrics, facts["for x, y in loader"]
    uses = Uses(metrics.measured.chains, metrics.ranks)
    first = next(
        n
        for s in facts.program.frame(loop).body
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and n.id == "total" and isinstance(n.ctx, ast.Load)
    )
    found = list(uses.of(first, loop))
    assert [[ast.unparse(d) for d in use.divisors] for use in found] == [divisors]
    assert [use.is_known for use in found] == [is_known]
