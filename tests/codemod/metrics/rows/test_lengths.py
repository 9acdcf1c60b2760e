"""May a batch, or an item of one, be longer on another rank?"""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.rows.lengths import is_cut_from_an_item, leaves_some_out, may_be_longer
from tests.codemod.training_scripts import STEP, training

COLLATE = "def together(rows):\n    return torch.stack({})"


@pytest.mark.parametrize(
    ("rows", "leaves"), [("[r for r in rows if r is not None]", True), ("[torch.as_tensor(r) for r in rows]", False)]
)
def test_a_function_that_puts_batches_together(rows: str, leaves: bool) -> None:
    facts = training(before=COLLATE.format(rows), model="loader = DataLoader(rows, 2, collate_fn=together)")
    measured, loop = facts.script.metrics.measured, facts["for x, y in loader"]
    assert leaves_some_out(measured, loop) is leaves
    assert may_be_longer(measured, loop, is_of_item=True)
    assert not may_be_longer(measured, loop, is_of_item=False)


@pytest.mark.parametrize(("part", "is_cut"), [("x[0].split(4)", True), ("x.split(4)", False)])
def test_what_is_cut_from_an_item(part: str, is_cut: bool) -> None:
    facts = training(step=f"{STEP}parts = {part}")
    assert is_cut_from_an_item(facts.script.metrics, facts[f"parts = {part}"].value) is is_cut
