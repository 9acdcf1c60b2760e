"""What can be computed of a batch that has no rows, and what fails for it."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.rows.empty_batches import takes_no_rows
from tests.codemod.metrics.loops import in_loop

FUNCTIONS = """\
def hits(p, y):
    _, found = torch.max(p, 1)
    return (found == y).sum().item()
def share(p, y):
    return hits(p, y) / y.size(0)
def mask(p):
    return (p == torch.max(p)).sum()
"""


@pytest.mark.parametrize(
    ("value", "does"),
    [
        ("(x.argmax(1) == y).sum().item()", True),
        ("float(torch.sum(x.topk(1, 1)[1] == y)) / 2", True),
        ("x.shape[0] + len(y)", True),
        ("torch.cat([x, x]).view(-1).cpu().numpy()", True),
        ("hits(x, y)", True),
        ("share(x, y)", False),
        ("mask(x)", False),
        ("x.max()", False),
        ("x.max(0)[0]", False),
        ("x.sum() / n", False),
        ("x.mean()", False),
        ("x.view(x.size(0), -1)", False),
        ("y[0].item()", False),
        ("unknown(x)", False),
    ],
)
def test_what_takes_no_rows(value: str, does: bool) -> None:
    facts, _ = in_loop(f"use({value})", before=FUNCTIONS)
    assert takes_no_rows(facts.program, facts.call("use(").args[0]) is does
