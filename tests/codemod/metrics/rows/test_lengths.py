"""May a batch, or an item of one, be longer on another rank?"""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.rows.lengths import (
    goes_along_an_item,
    is_cut_from_an_item,
    leaves_some_out,
    may_be_longer,
)
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


@pytest.mark.parametrize(
    ("made", "before", "listed", "is_along"),
    [
        ("rows, 1", "pass", "range(0, x.size(1), 3)", True),
        ("rows, batch_size=1", "count, length = x.shape", "range(length)", True),
        ("rows, batch_size=1", "x = x.transpose(0, 1)", "zip(x, y)", True),
        ("rows, batch_size=1", "x.transpose_(0, 1)", "x", True),
        ("rows", "parts = x.split(4, dim=1)", "parts", True),
        ("rows, batch_size=sizes['train']", "pass", "range(x.shape[-1])", True),
        ("rows, batch_size=1", "pass", "range(len(x))", False),
        ("rows, batch_size=1", "count, length = x.shape", "zip(x, range(count))", False),
        ("rows, batch_size=2", "x = x.transpose(0, 1)", "zip(x, y)", False),
    ],
)
def test_a_loop_along_the_one_item_of_a_batch(made: str, before: str, listed: str, is_along: bool) -> None:
    model = f"loader = DataLoader({made})"
    step = f"{before}\nfor part in {listed}:\n    model(part).mean().backward()\noptimizer.step()"
    facts = training(before="sizes = {'train': 1}", model=model, step=step)
    loop, batches = facts["for part in"], facts["for x, y in loader"]
    assert goes_along_an_item(facts.script.metrics, loop, batches) is is_along
