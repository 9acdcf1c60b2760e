"""Facts about losses that are computed again of fewer rows."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.rows.recomputation import recomputation_of
from accelify.codemod.metrics.rows.trims import Summand
from tests.codemod.training_scripts import training

BEFORE = """\
from torch.nn import functional as F
class Dice(nn.Module):
    def forward(self, a, b):
        return 1 - 2 * (a * b).sum() / (a.sum() + b.sum())
dice_loss = Dice()
other = nn.Linear(4, 1)
def total(a, b, order):
    return F.mse_loss(a, b[order], reduction="sum")
"""


def again(*lines: str) -> str | None:
    """The arguments of `mean_for_metrics` for the loss of a batch."""
    step = "\n".join(["out = model(x)", *lines, "loss.backward()", "optimizer.step()", "seen += loss.item()"])
    facts = training(before=BEFORE, epoch="seen = 0", step=step, end_of_epoch="print(seen)")
    loop = facts.script.metrics.shared_loops[0]
    at = next(s for s in loop.body if isinstance(s, ast.AugAssign))
    summand = Summand(facts.program, loop)
    found = recomputation_of(facts.program, loop, "loss", at, lambda value: summand.is_of_rows(value) is not None)
    return None if found is None else ", ".join((found.function, *found.given))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("F.mse_loss(out, y, reduction='sum')", "F.mse_loss, out, y, reduction='sum'"),
        ("F.mse_loss(out.view(-1), y)", "F.mse_loss, out.view(-1), y"),
        ("dice_loss(out, y)", "dice_loss, out, y"),
        ("((out - y) ** 2).sum()", "lambda out, y: ((out - y) ** 2).sum(), out, y"),
        ("2 * F.mse_loss(out, y)", "lambda out, y: 2 * F.mse_loss(out, y), out, y"),
        ("F.mse_loss(model(x), y)", None),  # runs the model
        ("F.mse_loss(out, other(x))", None),
        ("F.mse_loss(out, torch.randn_like(out))", None),
        ("F.mse_loss(out, y[x.argsort(0)])", None),
        ("F.mse_loss(out, y.index_select(0, x))", None),
        ("F.mse_loss(out, y) + F.mse_loss(out, y.flip(0))", None),  # of other pairs of rows
        ("F.mse_loss(out.cumsum(1), y)", "F.mse_loss, out.cumsum(1), y"),
        ("total(out, y, x)", None),
        ("unknown(out, y)", None),
        ("F.mse_loss(out, y) + sum(p.norm() for p in model.parameters())", None),  # the step has changed them
    ],
)
def test_a_loss_is_said_again(value: str, said: str | None) -> None:
    assert again(f"loss = {value}") == said


def test_the_parts_of_a_loss_are_said_in_their_place() -> None:
    said = again("far = F.mse_loss(out, y)", "spread = out.exp().sum()", "loss = far + spread")
    assert said == "lambda out, y: F.mse_loss(out, y) + out.exp().sum(), out, y"


@pytest.mark.parametrize("between", ["out = out + 1", "out.add_(1)", "out[0] = 1", "loss = loss / 2", "F.relu_(y)"])
def test_what_has_changed_since_is_not_said_again(between: str) -> None:
    assert again("loss = F.mse_loss(out, y)", between) is None


def test_the_gradients_may_be_clipped_between() -> None:
    assert again("loss = F.mse_loss(out, y)", "nn.utils.clip_grad_norm_(model.parameters(), 1)") is not None
