"""Which values sums begin with are nothing."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.sums.zeros import is_table_of_zeros, is_zero
from tests.codemod.training_scripts import training

IMPORTS = "from collections import Counter, defaultdict"


@pytest.mark.parametrize(
    ("value", "is_number", "is_table"),
    [
        ("0.0", True, False),
        ("-0", True, False),
        ("torch.zeros(2).to('cpu')", True, False),
        ("torch.tensor(0.0)", True, False),
        ("1", False, False),
        ("torch.ones(2)", False, False),
        ("{}", False, True),
        ("Counter()", False, True),
        ("defaultdict(float)", False, True),
        ("defaultdict(list)", False, False),
        ("[0] * 10", False, True),
        ("{k: 0.0 for k in 'ab'}", False, True),
        ("{'a': 1}", False, False),
        ("{'a': {'loss': 0.0, 'n': 0}, 'n': 0}", False, True),
        ("{k: [0, 0] for k in 'ab'}", False, True),
        ("{'a': {'loss': 1.0}, 'n': 0}", False, False),
        ("{'a': [], 'n': 0}", False, False),
    ],
)
def test_what_is_nothing_yet(value: str, is_number: bool, is_table: bool) -> None:
    facts = training(imports=IMPORTS, epoch=f"total = {value}")
    chains, node = facts.script.metrics.measured.chains, facts[f"total = {value}"].value
    assert (is_zero(chains, node), is_table_of_zeros(chains, node)) == (is_number, is_table)
