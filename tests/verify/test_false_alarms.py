"""Honest scripts of kinds that are easily taken for faults, and a fault of verify's own: no false alarm."""

from __future__ import annotations

import re

import pytest

from accelify.verify.verdict import Status
from tests.verify.conftest import Prove, differing, row
from tests.verify.scripts import CLASSIFIER
from tests.verify.scripts import CLASSIFIER_MIGRATED as MIGRATED

ATTENTION = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
train = DataLoader(TensorDataset(torch.randn(32, 5, 8)), batch_size=8, shuffle=True)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.t = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.d = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
        self.out = nn.Linear(8, 1)
    def forward(self, x):
        y, _ = self.a(x, x, x, need_weights=False)
        w, _ = self.a(x, x, x)
        y = self.t(y + w)
        y = self.d(y, x)
        y = F.scaled_dot_product_attention(y, y, y)
        y = y + F.scaled_dot_product_attention(query=y, key=x, value=x, is_causal=True)
        y = y + F.scaled_dot_product_attention(y, y, y, None, 0.2, True)
        return self.out(y)

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for (x,) in train:
    optimizer.zero_grad()
    loss = (model(x)[:, 0] - x.sum((1, 2))[:, None]).square().mean()
    loss.backward()
    optimizer.step()
"""

# One row's noise by torch, by numpy's global stream and by a generator; a weight of the whole batch's besides.
RANDOM_SOURCES = """\
import random
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
np.random.seed(3)
train = DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=8, shuffle=True)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
rng = np.random.default_rng(4)
for (x,) in train:
    y = model(x) + torch.randn_like(x) * 0.1
    y = y + torch.from_numpy(np.random.normal(0, 0.1, (len(x), 4))).float() * np.random.beta(0.2, 0.2)
    y = y + torch.from_numpy(rng.normal(size=(len(x), 1))).float()
    loss = y.square().mean() * random.uniform(0.5, 1.5)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

# A bias before a normalisation has a gradient of zero but for rounding, of which Adam makes whole steps.
BIAS_BEFORE_A_NORM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
train = DataLoader(TensorDataset(torch.randn(64, 5, 8)), batch_size=8, shuffle=True)

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv1d(5, 4, 3)
        self.n = nn.GroupNorm(4, 4)
        self.o = nn.Linear(24, 1)
    def forward(self, x):
        return self.o(torch.relu(self.n(self.a(x))).flatten(1))
model = M()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for epoch in range(3):
    for (x,) in train:
        optimizer.zero_grad()
        loss = (model(x)[:, 0] - x.sum((1, 2))).square().mean()
        loss.backward()
        optimizer.step()
"""

# What the bits of a float32 say no float64 can.
BITS = "    assert x.float().view(torch.int32).shape == x.shape\n"


def test_attention_in_every_call_form(proving: Prove) -> None:
    verdict = proving(ATTENTION)
    assert differing(verdict) == []
    assert row(verdict, "gradients").status is Status.HOLDS


def test_noise_of_several_random_sources_is_aligned_for_all_of_them(proving: Prove) -> None:
    verdict = proving(RANDOM_SOURCES)
    assert differing(verdict) == []
    assert row(verdict, "gradients").status is Status.HOLDS
    assert re.search(r"takes its rows \(train.py:13, train.py:14, train.py:15\)", verdict.made_comparable[0])


def test_rounding_that_adam_makes_steps_of_is_no_difference(proving: Prove) -> None:
    verdict = proving(BIAS_BEFORE_A_NORM)
    assert differing(verdict) == []
    assert row(verdict, "parameters").status is Status.HOLDS
    assert "computed in float64" in verdict.made_comparable


def test_a_script_that_needs_float32_is_compared_in_float32(proving: Prove) -> None:
    needs = BIAS_BEFORE_A_NORM.replace("        optimizer.zero_grad()\n", f"    {BITS}        optimizer.zero_grad()\n")
    verdict = proving(needs)
    assert differing(verdict) == []
    assert verdict.made_comparable == ()
    assert "float32" in row(verdict, "losses").words


def test_a_fault_of_verify_is_not_the_scripts(proving: Prove) -> None:
    sabotage = 'import sys\nsys.modules["accelify.verify.inside.record"].Recorder.place = None\n'
    verdict = proving(sabotage + BIAS_BEFORE_A_NORM)
    assert verdict.status == 2
    error = verdict.error or ""
    assert error.startswith("verify itself fails, not the original, which runs where nothing is watched")


def test_the_loss_of_each_step_and_a_schedule_over_all_steps(proving: Prove) -> None:
    line, schedule = "        scheduler.step()\n", "ExponentialLR(optimizer, 0.9)"
    shown = f"{line}        print(f\"{{loss.item() / 2:.4f}} at {{optimizer.param_groups[0]['lr']:.4f}}\")\n"
    whole = "OneCycleLR(optimizer, max_lr=0.3, total_steps=2 * len(train))"
    original, migrated = [text.replace(line, shown).replace(schedule, whole) for text in (CLASSIFIER, MIGRATED)]
    before = "train, test = accelerator.prepare(train, test)\n"
    migrated = migrated.replace(before, "").replace("optimizer = torch", f"{before}optimizer = torch", 1)
    verdict = proving(original, migrated, launched=True)
    assert differing(verdict) == []
    assert row(verdict, "printed").status is Status.NATURE
    assert "the loss of one step, on each rank that of its own batch" in row(verdict, "printed").words


SEVERAL_PASSES = {
    "one after the other": ("{0}(loss, retain_graph=True)", "{0}(size)"),
    "the second first": ("{0}(size, retain_graph=True)", "{0}(loss)"),
}


@pytest.mark.parametrize("passes", SEVERAL_PASSES.values(), ids=SEVERAL_PASSES)
def test_the_loss_of_a_step_that_learns_from_several_backward_passes(proving: Prove, passes: tuple[str, ...]) -> None:
    def learning(text: str, backward: str) -> str:
        lines = ["size = head(encoder(x)).square().mean()", *passes, "print(f'{(loss + size).item():.4f}')"]
        both = "".join(f"        {line}\n" for line in lines).replace("{0}", backward)
        return re.sub(r" +[\w.]+backward\(.*\n", lambda _: both, text, count=1)

    verdict = proving(
        learning(CLASSIFIER, "torch.autograd.backward"), learning(MIGRATED, "accelerator.backward"), launched=True
    )
    assert differing(verdict) == []
    assert "the loss of one step" in row(verdict, "printed").words


SOME_BATCHES = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = torch.randn(60, 4)
loader = DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=6, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    {asks}
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {ends}
torch.save(model.state_dict(), "model.pt")
"""
ASKS = {
    "next": ("x, y = next(iter(loader))", "pass"),
    "until a batch is found": ("x, y = next((a, b) for a, b in loader if b.mean() > 0)", "pass"),
    "break": ("for x, y in loader: break", "pass"),
}


def own_batches(text: str) -> str:
    """The script migrated: each rank draws from the loader, which is not prepared, what its own stream says."""
    text = text.replace("import torch\n", "import torch\nfrom accelify.runtime import Accelerator\n", 1)
    text = text.replace("torch.manual_seed", "accelerator = Accelerator()\ntorch.manual_seed", 1)
    prepared = "model, optimizer = accelerator.prepare(model, optimizer)\naccelerator.seed_by_rank()\nfor step"
    text = text.replace("loss.backward()", "accelerator.backward(loss)").replace("torch.save", "accelerator.save")
    return text.replace("for step", prepared, 1)


@pytest.mark.parametrize(("asks", "ends"), ASKS.values(), ids=ASKS)
def test_batches_that_each_rank_asks_of_a_loader_for_itself(proving: Prove, asks: str, ends: str) -> None:
    script = SOME_BATCHES.format(asks=asks, ends=ends)
    verdict = proving(script, own_batches(script), launched=True)
    assert differing(verdict) == []
    assert row(verdict, "samples").status is Status.NATURE
    assert "each rank draws random numbers of its own (train_many.py:13)" in row(verdict, "samples").words
    assert not any("each batch divided" in words for words in verdict.made_comparable)


def test_whole_passes_that_each_rank_takes_for_itself_are_a_fault(proving: Prove) -> None:
    script = SOME_BATCHES.format(asks="for x, y in loader: model(x)", ends="pass")
    assert ("samples", 2) in differing(proving(script, own_batches(script), launched=True))
