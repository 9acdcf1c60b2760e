"""What code that libraries run keeps from round to round: source text in, facts out."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.kept_states import loader_states, pass_states
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
        ({"item": "self.seen[i] += 1\n        x = x / self.seen[i]"}, ["self.seen"]),
        ({"item": "self.seen[i] = self.seen[i] + 1\n        x = x if self.seen[i] > 3 else -x"}, ["self.seen"]),
        ({"item": "self.cache[i] *= 0.9\n        x = x * self.cache[i]"}, ["self.cache"]),
        ({"item": "self.seen[i] += 1"}, []),
        ({"item": "self.cache[i] = x\n        x = self.cache[i]"}, []),
        ({"item": "x = self.cache.setdefault(i, x)"}, []),
        ({"item": "self.calls += 1\n        x = x * (self.calls > 3)"}, []),
        ({"item": "self.seen.append(i)"}, []),  # which no row is made with
        ({"item": "self.seen.append(x)\n        x = self.seen.pop(0) if len(self.seen) > 9 else x"}, []),
        ({"item": "total = 0\n        total += x\n        x = x - total"}, []),
        ({"collated": "seen = []\n    seen.append(x)\n    x = torch.cat(seen)"}, []),
        ({"scaled": "self.mean += x", "data": "read()"}, []),  # which no loader runs
        ({"item": "self.mean = x"}, []),
        ({"item": "x = torch.add(x, self.mean)"}, []),
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


PASSES = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import rows
stats, norms, mean, features = {{"std": 1.0}}, [], torch.zeros(4), []
class Center(torch.autograd.Function):
    mean = torch.zeros(4)
    @staticmethod
    def forward(ctx, x):
        {forward}
        return x - Center.mean
    @staticmethod
    def backward(ctx, g):
        {backward}
        return g / stats["std"]
def hook(module, given, out):
    {hook}
    return out / stats["std"]
def clip(g):
    {clip}
    return g * min(1.0, sum(norms) / (1 + len(norms)))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{register}
for x in DataLoader(rows, batch_size=4):
    optimizer.zero_grad()
    out = model(Center.apply(x))
    {within}
    (out.mean() + len(features)).backward()
    optimizer.step()
"""
NO_PASSES = {"forward": "pass", "backward": "pass", "hook": "pass", "clip": "pass", "register": "", "within": "pass"}
HOOKED = {"register": "model.register_forward_hook(hook)"}


@pytest.mark.parametrize(
    ("slots", "found"),
    [
        ({"forward": "Center.mean = 0.9 * Center.mean + 0.1 * x.mean(0)"}, ["Center.mean"]),
        ({"backward": "stats['std'] = 0.9 * stats['std'] + 0.1 * g.std().item()"}, ["stats['std']"]),
        ({"hook": "stats['std'] += 0.1 * (out.std().item() - stats['std'])"} | HOOKED, ["stats['std']"]),
        ({"clip": "norms.append(g.norm().item())", "within": "out.register_hook(clip)"}, ["norms"]),
        ({"hook": "global mean\n    mean = 0.9 * mean + 0.1 * out.mean()\n    out = out - mean"} | HOOKED, ["mean"]),
        ({"hook": "features.append(out)"} | HOOKED, []),  # which other code reads
        ({"hook": "stats['std'] += 0.1 * (out.std().item() - stats['std'])"}, []),  # which no pass runs
        ({"hook": "total = 0\n    total += out.mean()\n    out = out - total"} | HOOKED, []),
        ({"clip": "norms.append(1.0)", "within": "out.register_hook(clip)"}, []),
    ],
)
def test_what_later_passes_compute_with(slots: dict[str, str], found: list[str]) -> None:
    text = PASSES.format(**NO_PASSES | slots)
    assert [name for _, name in pass_states(Facts(text).script.metrics)] == found
    assert sum("is kept for later passes" in note.message for note in run(text).notes) == len(found)
