"""Facts about progress bars: whose batches do they count?"""

from __future__ import annotations

from textwrap import indent

import pytest

from accelify.codemod.metrics.steps.bars import overstated_bars, overstated_samples
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import STEP, script


def bars(total: str) -> list[str]:
    text = script(imports="from tqdm import tqdm\n").replace("in loader:", f"in tqdm(loader, total={total}):")
    return texts(overstated_bars(Facts(text).script.metrics))


def test_bars() -> None:
    assert bars("len(rows) // 2") == ["len(rows) // 2"]
    assert bars("len(loader)") == []
    assert bars("10") == []


@pytest.mark.parametrize(
    ("head", "update", "batches", "samples"),
    [
        ("with tqdm(total=len(rows)) as bar:", "bar.update(x.shape[0])", [], ["len(rows)"]),
        ("bar = tqdm(total=len(rows))\nif True:", "bar.update(n=len(x))", [], ["len(rows)"]),
        ("bar = tqdm(total=len(rows) // 2)\nif True:", "bar.update()", ["len(rows) // 2"], []),
        ("with tqdm(total=len(rows) // 2) as bar:", "bar.update(1)", ["len(rows) // 2"], []),
        ("with tqdm(total=len(loader)) as bar:", "bar.update(1)", [], []),
    ],
)
def test_what_a_bar_counts(head: str, update: str, batches: list[str], samples: list[str]) -> None:
    loop = f"{head}\n    for x, y in loader:\n" + indent(f"{STEP}{update}\n", " " * 8)
    text = script(imports="from tqdm import tqdm\n").partition("for epoch")[0]
    metrics = Facts(text + loop).script.metrics
    assert texts(overstated_bars(metrics)) == batches
    assert texts(overstated_samples(metrics)) == samples


@pytest.mark.parametrize("iterated", ["batches", "enumerate(batches)", "zip(batches, range(9))"])
def test_a_bar_as_long_as_the_loader_that_a_loop_goes_over(iterated: str) -> None:
    """Though the loader comes from a place in a container, by way of a parameter."""
    text = f"""\
from tqdm import tqdm
import torch
from torch.utils.data import DataLoader
def train(model, optimizer, batches):
    with tqdm(total=len(batches)) as bar:
        for x in {iterated}:
            loss = model(x[0]).mean()
            optimizer.zero_grad(); loss.backward(); optimizer.step(); bar.update()
loaders = {{k: DataLoader(open_data(k)) for k in ("train", "val")}}
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
first = loaders["train"]
train(model, optimizer, first)
"""
    assert texts(overstated_bars(Facts(text).script.metrics)) == []
