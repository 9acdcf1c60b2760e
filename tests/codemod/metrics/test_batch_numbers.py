"""Facts about data that a sharded loop counts off beside those of its loader."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.batch_numbers import counted_off
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import STEP, script


@pytest.mark.parametrize(
    ("picked", "found"),
    [
        ("y = labels[i]\n", ["labels[i]"]),
        ("at = i * 4\nz = labels[at : at + 4]\ny = z.float()\n", ["labels[at:at + 4]"]),
        ("y = labels[0]\n", []),
        ("z = labels[i]\n", []),
        ("y = x[i]\n", []),
    ],
)
def test_what_is_picked_for_the_loss(picked: str, found: list[str]) -> None:
    text = script(before="labels = load()\n", step=picked + STEP).replace(
        "for x, y in loader", "for i, (x, y) in enumerate(loader)"
    )
    assert texts(node for _, node in counted_off(Facts(text).script.metrics)) == found


SECOND = """\
import random, torch
from torch import nn
from torch.utils.data import DataLoader
loader, rows = DataLoader(a, batch_size=4), torch.randn(64, 4)
others = list(DataLoader(b, batch_size=4))
def each():
    for k in range(16):
        yield rows[k]
def drawn():
    while True:
        yield rows[random.randint(0, 63)]
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
at, one, other = 0, each(), drawn()
for x in loader:
    z = {second}
    {count}
    loss = (model(x) - model(z)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("second", "count", "is_reported"),
    [
        ("rows[at : at + 4]", "at = (at + 4) % 64", True),
        ("others[at]", "at += 1", True),
        ("others[at % len(others)]", "at = at + 1", True),
        ("next(one)", "pass", True),
        ("next(other)", "pass", False),
        ("rows[torch.randint(64, (4,))]", "at += 1", False),
        ("random.choice(others)", "at += 1", False),
        ("rows[:4]", "at += 1", False),
    ],
)
def test_a_second_stream_of_data(second: str, count: str, is_reported: bool) -> None:
    found = list(counted_off(Facts(SECOND.format(second=second, count=count)).script.metrics))
    assert bool(found) is is_reported


def test_rows_beside_a_loader_that_is_asked_for_batches() -> None:
    text = SECOND.format(second="next(asked)", count="x = rows[order[4 * i : 4 * i + 4]]")
    text = text.replace("for x in loader:", "asked, order = iter(loader), torch.randperm(64)\nfor i in range(16):")
    (found,) = counted_off(Facts(text).script.metrics)
    assert found[0] == "i"


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        ("model(x).mean() * weights[i]", ["weights[i]"]),
        ("w * model(x).mean()", ["weights[i]"]),
        ("model(x).mean() * weights[0]", []),
        ("model(x).mean()", []),
    ],
)
@pytest.mark.parametrize("rows", ["rows", "loader"])
def test_an_item_s_own_weight_in_the_loss(loss: str, found: list[str], rows: str) -> None:
    text = SECOND.format(second="rows[0]", count="w = weights[i]\n    print(weights[i])").replace(
        "for x in loader:", f"weights = torch.rand(64)\nfor i, x in enumerate({rows}):"
    )
    text = text.replace("(model(x) - model(z)).pow(2).mean()", loss)
    assert set(texts(node for _, node in counted_off(Facts(text).script.metrics))) == (
        set(found) if rows == "rows" else set()
    )
