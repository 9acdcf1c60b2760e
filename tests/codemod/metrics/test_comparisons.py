"""Facts about conditions that go by how losses compare."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.comparisons import LossComparisons, NumberChecks
from accelify.codemod.metrics.facts import Metrics
from tests.codemod.training_scripts import STEP, training

BEFORE = """\
import math, random, time
limit, average, past, is_on = 0.5, 1.0, [9.0], True
def is_high(value):
    if not limit:
        return True
    return value > limit
def is_odd(value):
    if value > limit:
        return y.sum() > 0
    return True
class Gate:
    def opens(self, value):
        return not (value <= limit)
gate = Gate()
"""


def condition(test: str, between: str = "") -> tuple[Metrics, ast.expr]:
    """The one condition round a step."""
    step = STEP.replace("optimizer.step()", f"{between}\nif {test}:\n    optimizer.step()")
    facts = training(before=BEFORE, step=step)
    (node,) = (n for n in ast.walk(facts.program.files[0].tree) if isinstance(n, ast.If) and "step" in ast.unparse(n))
    return facts.script.metrics, node.test


def decides(test: str, between: str = "") -> bool:
    """Whether the one condition round a step goes by losses."""
    metrics, node = condition(test, between)
    return LossComparisons(metrics).decide(node)


@pytest.mark.parametrize(
    "test",
    [
        "loss > limit",
        "not limit or loss.item() >= limit",
        "limit and not loss.item() < limit",
        "0.1 < loss.item() <= limit",
        "(now := float(loss)) > limit",
        "(loss.item() > limit if limit else True)",
        "any([loss.item() > limit, epoch == 0])",
        "all(each > limit for each in (loss.item(), 2 * loss.detach()))",
        "(loss > limit) & (loss < 9)",
        "bool(loss > limit)",
        "max(loss.item(), limit) / 2 > math.log(abs(loss))",
        "is_high(loss.item())",
        "gate.opens(loss)",
        "random.random() < 0.5 or time.time() > 3 or loss > limit",
    ],
)
def test_a_condition_on_losses(test: str) -> None:
    assert decides(test)


@pytest.mark.parametrize(
    "test",
    [
        "torch.isnan(loss)",
        "loss == loss",
        "math.isfinite(loss.item()) and loss > limit",
        "loss",
        "y.sum() > 0",
        "loss > limit and (y > 0).any()",
        "is_odd(loss)",
        "gate.opens(y.mean())",
        "[each > limit for each in (loss, 1) if y.sum() > 0]",
        "(loss.item() > limit if y.sum() > 0 else True)",
    ],
)
def test_a_condition_on_a_batch(test: str) -> None:
    assert not decides(test)


@pytest.mark.parametrize(
    ("between", "test", "expected"),
    [
        ("high = loss > limit", "high or not epoch", True),
        ("average = 0.9 * average + 0.1 * loss.item()", "average > limit", True),
        ("average += loss.item()", "average > limit", True),
        ("past.append(loss.item())", "len(past) < 3 or sum(past[-3:]) / 3 > limit", True),
        ("past.append(y.sum().item())", "sum(past) > limit", False),
        ("if loss > limit: is_on = not is_on", "is_on", True),
        ("if y.sum() > 0: is_on = not is_on", "is_on", False),
        ("high = y.sum() > 0", "high or loss > limit", False),
    ],
)
def test_what_a_variable_says_of_losses(between: str, test: str, expected: bool) -> None:
    assert decides(test, between) is expected


@pytest.mark.parametrize(
    ("test", "answer"),
    [
        ("torch.isnan(loss) or torch.isinf(loss)", "max"),
        ("epoch and not torch.isfinite(loss).all()", "max"),
        ("np.isnan(loss.item())", "max"),
        ("not (loss != loss)", "min"),
        ("math.isfinite(loss.item()) and not torch.isnan(loss)", "min"),
        ("fine", "min"),
        ("torch.isnan(loss) and torch.isinf(loss)", None),  # each may hold on a rank of its own
        ("torch.isnan(loss) or loss > limit", None),
        ("y.sum() > 0", None),
        ("y == 0", None),
    ],
)
def test_whether_a_loss_is_a_number(test: str, answer: str | None) -> None:
    metrics, node = condition(test, "import numpy as np\nfine = torch.isfinite(loss)")
    assert NumberChecks(metrics).answer(node) == answer
