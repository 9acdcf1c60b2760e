"""Facts about evaluation loops whose batches are sharded."""

from __future__ import annotations

from accelify.codemod.metrics.batch_evaluations import ShardedEvaluation
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import script

LOOP = """\
test_loader = DataLoader(rows, batch_size=2)
total, losses = 0.0, []
model.eval()
with torch.no_grad():
    for x, y in test_loader:
        total += nn.functional.mse_loss(model(x), y).item()
print(total / len(test_loader))
"""


def sharded(end: str) -> tuple[ShardedEvaluation, ...]:
    return Facts(script(end=end)).script.metrics.sharded


def test_a_sum_over_batches() -> None:
    (found,) = sharded(LOOP)
    assert found.sums == ("total",)
    assert (found.meters, found.lists) == ((), ())


def test_an_evaluation_that_does_more_is_left_whole() -> None:
    assert sharded(LOOP.replace("        total +=", "        unknown(x)\n        total +=")) == ()
    assert sharded(LOOP.replace("        total +=", "        total = 0.5 * total +")) == ()
