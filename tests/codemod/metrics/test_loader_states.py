"""What the code that makes batches keeps of its rows: source text in, facts out."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.loader_states import loader_states
from tests.codemod.facts import Facts
from tests.codemod.pairs import run

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset
from torchvision.datasets import ImageFolder
from rows import read, order
mean, pool = torch.zeros(4), []
class Scale:
    def __init__(self): self.mean = torch.zeros(4)
    def __call__(self, x):
        {scaled}
        return x - self.mean
class Rows(Dataset):
    def __init__(self):
        self.rows, self.mean, self.seen, self.cache, self.calls = read(), torch.zeros(4), [], {{}}, 0
        self.scale = Scale()
    def __len__(self): return 32
    def __getitem__(self, i):
        x = self.rows[i]
        {item}
        return self.scale(x) - self.mean
def collate(rows):
    global mean
    x = torch.stack(rows)
    {collated}
    return x - mean
collate.mean = torch.zeros(4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader({data}, batch_size=4, collate_fn={collate}):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""
PLAIN = {"scaled": "pass", "item": "pass", "collated": "pass", "data": "Rows()", "collate": "collate"}


@pytest.mark.parametrize(
    ("slots", "found"),
    [
        ({"item": "self.mean = 0.9 * self.mean + 0.1 * x"}, ["self.mean"]),
        ({"item": "self.mean += (x - self.mean) / 32"}, ["self.mean"]),
        ({"item": "self.mean.mul_(0.9).add_(0.1 * x)", "data": "Subset(Rows(), order)"}, ["self.mean"]),
        ({"item": "self.seen.append(x)\n        x = x - sum(self.seen) / len(self.seen)"}, ["self.seen"]),
        ({"scaled": "self.mean = 0.9 * self.mean + 0.1 * x"}, ["self.mean"]),
        ({"scaled": "self.mean += x", "data": "ImageFolder('rows', transform=Scale())"}, ["self.mean"]),
        ({"scaled": "self.mean += x.mean(0)", "data": "read()", "collate": "Scale()"}, ["self.mean"]),
        ({"collated": "mean = 0.9 * mean + 0.1 * x.mean(0)"}, ["mean"]),
        ({"collated": "collate.mean += x.mean(0)\n    x = x - collate.mean"}, ["collate.mean"]),
        ({"collated": "pool.append(x.mean(0))\n    x = x - torch.stack(pool).mean(0)"}, ["pool"]),
        ({"item": "self.cache[i] = x\n        x = self.cache[i]"}, []),
        ({"item": "x = self.cache.setdefault(i, x)"}, []),
        ({"item": "self.calls += 1\n        x = x * (self.calls > 3)"}, []),
        ({"item": "self.seen.append(i)"}, []),  # which no row is made with
        ({"item": "self.seen.append(x)\n        x = self.seen.pop(0) if len(self.seen) > 9 else x"}, []),
        ({"item": "total = 0\n        total += x\n        x = x - total"}, []),
        ({"collated": "seen = []\n    seen.append(x)\n    x = torch.cat(seen)"}, []),
        ({"scaled": "self.mean += x", "data": "read()"}, []),  # which no loader runs
        ({"item": "self.mean = x"}, []),
    ],
)
def test_what_later_rows_are_made_with(slots: dict[str, str], found: list[str]) -> None:
    metrics = Facts(SCRIPT.format(**PLAIN | slots)).script.metrics
    assert [name for _, name in loader_states(metrics)] == found


@pytest.mark.parametrize("shared", [True, False])
def test_such_a_state_is_noted_where_processes_have_shards(shared: bool) -> None:
    text = SCRIPT.format(**PLAIN | {"item": "self.mean = 0.9 * self.mean + 0.1 * x"})
    text = text if shared else text.replace(".backward()", "")
    assert any("later rows are made with `self.mean`" in n.message for n in run(text).notes) is shared
