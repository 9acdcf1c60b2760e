"""Whether the rows of a script's own say how many steps are taken: source text in, fact out."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.rows.steps_by_rows import taken_by_rows
from tests.codemod.facts import Facts
from tests.codemod.rules.test_data import ROWS


@pytest.mark.parametrize("put", ["if row: batch.append(torch.tensor(row))", "batch.append(torch.tensor(row))"])
def test_a_loop_that_is_left_whole_has_nothing_left_to_decide_apart(put: str) -> None:
    script = Facts(ROWS.format(put=put)).script
    tests = [ast.unparse(d.taken_by) for d in script.training.data if d.taken_by is not None]
    assert tests == (["len(batch) == 16"] if put.startswith("if") else [])
    assert not taken_by_rows(script.metrics)
