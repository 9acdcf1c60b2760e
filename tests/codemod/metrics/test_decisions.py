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
        (STEP + "if loss.item() < 3:\n    print(loss)\n", 0),
        (STEP, 0),
    ],
)
def test_conditions_of_steps(step: str, found: int) -> None:
    assert len(list(decided_apart(training(step=step).script))) == found
