"""Facts about numbers that are worked out from lengths."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.steps.lengths import counts_all, has_length
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import script


@pytest.mark.parametrize(
    ("number", "is_of_length", "is_of_all"),
    [
        ("len(loader)", True, False),
        ("len(rows) // 2", True, True),
        ("n", True, True),
        ("2 * len(loader) + 1", True, False),
        ("limit * 3", False, True),
        ("limit", False, False),
    ],
)
def test_what_a_number_is_worked_out_from(number: str, is_of_length: bool, is_of_all: bool) -> None:
    facts = Facts(script(before="rows = f()\nlimit = 8\nn = len(rows)", end=f"found = ({number}, 'here')"))
    metrics, node = facts.script.metrics, facts.expression(f"({number}, 'here')").elts[0]
    assert (has_length(metrics, node), counts_all(metrics, node)) == (is_of_length, is_of_all)
