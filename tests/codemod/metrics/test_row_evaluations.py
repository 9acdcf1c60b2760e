"""Facts about evaluation loops whose rows are gathered."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.row_evaluations import Evaluations
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import script

LOOP = """\
test_loader = DataLoader(rows, batch_size=2)
correct, n = 0, 0
model.eval()
with torch.no_grad():
    for x, y in test_loader:
        out = model(x)
        correct += (out.argmax(1) == y).sum().item()
        n += y.size(0)
print(correct / n)
"""


def names(end: str) -> list[tuple[str, ...]]:
    facts = Facts(script(end=end))
    found = Evaluations(facts.program, facts.roles, facts.tracer, facts.training).find()
    return [g.names for g in found]


def test_a_plain_evaluation() -> None:
    (found,) = names(LOOP)
    assert set(found) == {"out", "y"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n += y.size(0)", "n += 1"),
        ("out = model(x)", "out = unknown(x)"),
        ("n += y.size(0)", "n += y.size(0)\n        save(out)"),
        ("n += y.size(0)", "n += y.size(0)\n        if n > 3:\n            break"),
    ],
)
def test_what_is_less_plain(old: str, new: str) -> None:
    assert names(LOOP.replace(old, new)) == []
