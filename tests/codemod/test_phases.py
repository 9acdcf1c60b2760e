"""Loops that train in one phase and evaluate in another: their evaluation is sharded in whole batches."""

from __future__ import annotations

import pytest

from accelify.codemod.options import ACCELERATE
from accelify.codemod.rewrite import Options
from tests.codemod.pairs import run

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

data = TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,)))
first = DataLoader(data, batch_size=2)
second = DataLoader(data, batch_size=3)
model = nn.Sequential(nn.Linear(4, 2), nn.{layer})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()


def epoch({parameters}):
    {mode}
    total = 0
    for x, y in {source}:
        out = model(x)
        loss = criterion(out, y)
        if {test}:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        {add}
    return total / {count}


for number in range(2):
    {calls}
"""
SLOTS = {
    "layer": "Dropout()",
    "parameters": "loader, training=True",
    "mode": "model.train(training)",
    "source": "loader",
    "test": "training",
    "add": "total += loss.item()",
    "count": "len(loader)",
    "calls": "print(epoch(first), epoch(second, False))",
}
SHARDED = "loader if training else accelerator.shard(loader, even=False)"
PREPARED = "first, model, optimizer = accelerator.prepare(first, model, optimizer)\n"


def rewritten(options: Options | None = None, **slots: str) -> tuple[str, list[str]]:
    text = SCRIPT.format(**{**SLOTS, **slots}).replace("        pass\n", "")
    if "loaders[" in text:
        text = text.replace("model = nn", 'loaders = {"train": first, "val": second}\nmodel = nn', 1)
    result = run(text, options or Options())
    # That the script stays on the CPU, since it names no device, is told in any case.
    others = ("own_tensors", "devices", "batch_size")
    return result.after.decode(), [n.message for n in result.notes if n.rule not in others]


@pytest.mark.parametrize(
    "slots",
    [
        {},
        {"source": "tqdm(loader)"},
        {"mode": "if training:\n        model.train()\n    else:\n        model.eval()"},
        {"mode": "model.train() if training else model.eval()"},
        {"mode": "if not training: model.eval()"},
        {"mode": "pass", "layer": "ReLU()"},
        {"calls": "model.train()\n    epoch(first)\n    model.eval()\n    epoch(training=0, loader=second)"},
        {"parameters": "training", "mode": "loader = first if training else second\n    model.train(training)"},
        {"calls": "print(epoch(first, True), epoch(second, False), epoch(second, False))"},
    ],
)
def test_what_is_not_trained_on_is_dealt_out_in_whole_batches(slots: dict[str, str]) -> None:
    if slots.get("parameters") == "training":
        slots["calls"] = "print(epoch(True), epoch(False))"
    if "calls" in slots and "model.eval()" in slots["calls"]:
        slots["mode"] = "pass"
    after, notes = rewritten(**slots)
    assert SHARDED in after
    assert '    total = accelerator.reduce(total, "mean" if training else "sum")\n' in after
    assert PREPARED in after
    assert not notes


@pytest.mark.parametrize(
    ("slots", "sharded"),
    [
        (
            {"parameters": "loader, opt=None", "test": "opt", "mode": "model.eval() if not opt else model.train()"},
            "loader if opt else accelerator.shard(loader, even=False)",
        ),
        (
            {"parameters": "loader, opt=None", "test": "opt is not None", "mode": "if opt is None: model.eval()"},
            "loader if opt is not None else accelerator.shard(loader, even=False)",
        ),
        (
            {"parameters": "loader, mode='train'", "test": "mode == 'train'", "mode": "model.train(mode == 'train')"},
            "loader if mode == 'train' else accelerator.shard(loader, even=False)",
        ),
        (
            {"parameters": "loader, testing=False", "test": "not testing", "mode": "if testing: model.eval()"},
            "accelerator.shard(loader, even=False) if testing else loader",
        ),
    ],
)
def test_the_condition_may_be_told_in_many_ways(slots: dict[str, str], sharded: str) -> None:
    told = {"opt": "optimizer", "mode": "'val'", "testing": "True"}
    name = next(n for n in told if n in slots["parameters"])
    calls = "epoch(first, optimizer), epoch(second)" if name == "opt" else f"epoch(first), epoch(second, {told[name]})"
    after, notes = rewritten(**slots, calls=f"print({calls})", count="len(loader.dataset)")
    assert sharded in after
    assert '    total = accelerator.reduce(total, "sum")\n' in after
    assert PREPARED in after
    assert not notes


PHASES = {
    "parameters": "phase",
    "mode": "model.train(phase == 'train')",
    "source": "loaders[phase]",
    "test": "phase == 'train'",
    "count": "len(loaders[phase].dataset)",
    "calls": "for phase in ['train', 'val']:\n        print(epoch(phase))",
}


def test_phases_that_choose_a_loader_by_its_key() -> None:
    after, notes = rewritten(**PHASES)
    assert "loaders[phase] if phase == 'train' else accelerator.shard(loaders[phase], even=False)" in after
    assert '    total = accelerator.reduce(total, "sum")\n' in after
    assert 'loaders["train"], model, optimizer = accelerator.prepare(' in after
    assert not notes
    after, _ = rewritten(**{**PHASES, "count": "len(loaders[phase])"})
    assert """accelerator.reduce(total, "mean" if phase == 'train' else "sum")""" in after.replace(
        "\n        ", ""
    ).replace("\n    )", ")")


@pytest.mark.parametrize(
    "slots",
    [
        {"mode": "model.train()"},
        {"add": "total += loss.item() / (1 + total)"},
        {"add": "total = total * 0.9 + loss.item()"},
        {"add": "if not training and total > 3: break\n        total += loss.item()"},
        {"calls": "import time\n    print(epoch(first), epoch(second, False) if time.time() % 2 > 1 else 0)"},
    ],
)
def test_what_is_not_understood_stays_whole_and_no_less_right(slots: dict[str, str]) -> None:
    after, _ = rewritten(**slots)
    assert "even=False" not in after
    assert PREPARED in after
    assert 'reduce(total, "sum")' not in after


@pytest.mark.parametrize(
    "slots",
    [
        {"calls": "print(epoch(first), epoch(first, False))"},
        {"calls": "print(epoch(first), epoch(second, number % 2 == 0))"},
        {"test": "training and x.sum() > 0", "mode": "training = bool(len(data))"},
    ],
)
def test_loaders_that_cannot_be_told_apart_are_prepared(slots: dict[str, str]) -> None:
    after, _ = rewritten(**slots)
    assert "even=False" not in after
    assert "first" in after.partition(" = accelerator.prepare(")[0].rpartition("\n")[2]


def test_accelerate_shards_no_batches() -> None:
    after, _ = rewritten(Options(runtime=ACCELERATE))
    assert "shard" not in after


def test_meters_are_reduced_in_both_phases() -> None:
    meter = "class Meter:\n    def __init__(self):\n        self.sum = self.count = 0\n\n"
    meter += "    def update(self, value, n):\n        self.sum += value * n\n        self.count += n\n\n\ndef epoch("
    slots = {**SLOTS, "add": "total.update(loss.item(), len(y))", "count": "1"}
    text = SCRIPT.format(**slots).replace("total = 0", "total = Meter()").replace("def epoch(", meter)
    after = run(text.replace("return total / 1", "return total.sum / total.count")).after.decode()
    assert SHARDED in after
    assert '    total.sum, total.count = accelerator.reduce((total.sum, total.count), "sum")\n' in after


@pytest.mark.parametrize(
    ("under", "told"),
    [
        ('if phase == "val":', False),
        ('if phase != "val":', True),
        ('if phase == "train":\n                pass\n            else:', False),
        ("if total:", True),
    ],
)
def test_what_is_collected_of_a_loader_that_is_whole_is_no_share(under: str, told: bool) -> None:
    result = run(f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
loaders = {{"train": DataLoader(data, batch_size=2), "val": DataLoader(data, batch_size=2)}}
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for phase in ["train", "val"]:
        seen, total = [], epoch
        for x, y in loaders[phase]:
            out = model(x)
            loss = nn.functional.mse_loss(out, y)
            {under}
                seen.extend(out.detach().numpy())
            if phase == "train":
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        if phase == "val":
            print(loss.item())
        print(phase, score(seen))
""")
    assert not any("`loss`" in n.message for n in result.notes)
    assert any("`seen` covers this process's shard" in n.message for n in result.notes) is told
