"""Facts about what processes decide each by itself that they must decide alike."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.decisions import decided_apart
from tests.codemod.training_scripts import STEP, training


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (STEP.replace("loss.backward()", "if x.sum() > 0:\n    loss.backward()"), 1),
        (STEP.replace("optimizer.step()", "if epoch % 2:\n    optimizer.step()"), 0),
        (STEP.replace("optimizer.step()", "if loss.item() < 3:\n    optimizer.step()"), 1),
        (STEP + "if loss.item() < 3:\n    print(loss)\n", 0),
        (STEP + "if torch.isnan(loss):\n    break\n", 1),
        (STEP + "if (y == 0).any():\n    continue\n", 1),
        ("total = 0\nfor row in x:\n    total += row.sum()\n    if row.sum() > 0:\n        break\n" + STEP, 0),
        ("while x.norm() > 1:\n    x = x / 2\n" + STEP, 0),
        ("while x.norm() > 1:\n    x = x / 2\n    model(x).sum().backward()\n    optimizer.step()\n", 1),
        (STEP, 0),
    ],
)
def test_conditions_of_steps(step: str, found: int) -> None:
    assert len(list(decided_apart(training(step=step).script.metrics))) == found
