"""Facts about summands: whether a number grows with the rows of a batch."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.summands import Summand
from tests.codemod.metrics.loops import in_loop


@pytest.mark.parametrize(
    ("value", "of_rows"),
    [
        ("x.size(0)", True),
        ("len(x)", True),
        ("(model(x) == y).sum().item()", True),
        ("loss.item() * x.size(0)", True),
        ("counted", True),
        ("1", False),
        ("x.mean()", False),
        ("unknown(x)", None),
        ("unknown", None),
    ],
)
def test_what_grows_with_the_rows(value: str, of_rows: bool | None) -> None:
    facts, loop = in_loop(f"counted = x.size(0)\nuse({value})")
    assert Summand(facts.program, loop).is_of_rows(facts.call("use(").args[0]) is of_rows
