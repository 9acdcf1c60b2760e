"""Every spelling of a running value, by every way in which it may leave the training, is reduced or noted."""

from __future__ import annotations

import re

import pytest

from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import Options, rewrite_source
from tests.codemod.pairs import run
from tests.codemod.running_values import ALIKE, NOTED, REDUCED, SINKS, names, script

VALUES = {**REDUCED, **NOTED, **ALIKE}
_MADE_EVERYONES = re.compile(r"^.*accelerator\.(?:reduce|gather_for_metrics)\((?:[^()]|\([^()]*\))*\)", re.MULTILINE)


def outcomes(sink: str) -> dict[str, str]:
    """What becomes of each value: `reduced`, `noted` or nothing."""
    result = rewrite_source("train.py", script(VALUES, SINKS[sink]).encode(), Options())
    assert result.status is Status.MIGRATED, result.notes
    return {key: _outcome(result, name, sink) for key, name in names(VALUES).items()}


def _outcome(result: FileResult, name: str, sink: str) -> str:
    mentions = re.compile(rf"\b{name}")
    if any(mentions.search(call) for call in _MADE_EVERYONES.findall(result.after.decode())):
        return "reduced"
    named = {text for note in result.notes if note.rule == "notes" for text in re.findall("`([^`]*)`", note.message)}
    is_of_all = sink == "next loss" and "factor" in named  # all are multiplied into one
    lines = result.after.decode().split("\n")
    shown = [lines[int(place.rpartition(":")[2]) - 1] for note in result.notes for place in note.shows]
    return "noted" if is_of_all or any(map(mentions.search, [*named, *shown])) else "nothing"


@pytest.mark.parametrize("sink", [s for s in SINKS if s != "next loss"])
def test_what_leaves_the_training_is_reduced_or_noted(sink: str) -> None:
    found = outcomes(sink)
    if sink == "checkpoint":
        found["last"] = "noted"  # with the batch size, but each line of its block changes, which hides the place
    assert found == {
        **dict.fromkeys(REDUCED, "reduced"),
        **dict.fromkeys(NOTED, "noted"),
        **dict.fromkeys(ALIKE, "nothing"),
    }


def test_what_the_next_loss_is_computed_from_is_reduced_or_noted() -> None:
    assert not [key for key, found in outcomes("next loss").items() if found == "nothing"]


OWN_LOADER = """\
import torch
from torch import nn
class Loader:
    def __init__(self, rows): self.rows = rows
    def __iter__(self):
        for row in self.rows: yield row
    def __len__(self): return len(self.rows)
def test(loader):
    wrong = 0
    with torch.no_grad():
        for x, y in loader:
            wrong += ((model(x) - y).abs() > 1).sum().item()
    print(wrong)
train_loader, test_loader = Loader(rows[:6]), Loader(rows[6:])
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in train_loader:
        optimizer.zero_grad()
        (model(x) - y).pow(2).mean().backward()
        optimizer.step()
    {calls}
"""


@pytest.mark.parametrize(
    ("calls", "is_reported"),
    [
        ("test(train_loader); test(test_loader)", True),
        ("for loader in (train_loader, test_loader): test(loader)", True),
        ("test(test_loader)", False),
    ],
)
def test_an_evaluation_over_a_prepared_loader_for_some_callers_is_named(calls: str, is_reported: bool) -> None:
    told = [n.message for n in run(OWN_LOADER.replace("{calls}", calls)).notes]
    assert any("`wrong` covers this process's shard" in message for message in told) is is_reported


STOPS_EARLY = """
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

def fit(model, train_loader, test_loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best = float("inf")
    for epoch in range(9):
        for x, y in train_loader:
            optimizer.zero_grad()
            (model(x) - y).pow(2).mean().backward()
            optimizer.step()
        with torch.no_grad():
            value = {value}
        if value >= best:
            break
        best = value

few, train, test = DataLoader(rows[:9]), DataLoader(rows[:90]), DataLoader(rows[90:])
fit(nn.Linear(3, 1), few, {few})
fit(nn.Linear(3, 1), train, test)
"""


@pytest.mark.parametrize(
    "value",
    [
        "np.mean([(model(x) - y).pow(2).mean().item() for x, y in test_loader])",
        "sum((model(x) - y).abs().sum().item() for x, y in test_loader) / 9",
        "max(float((model(x) - y).abs().max()) for x, y in test_loader)",
    ],
)
@pytest.mark.parametrize("few", ["few", "test"])
def test_what_is_evaluated_on_a_shard_for_some_callers_decides_alike(value: str, few: str) -> None:
    result = run(STOPS_EARLY.replace("{value}", value).replace("{few}", few))
    is_of_shard = any("`value` covers this process's shard" in note.message for note in result.notes)
    assert (is_of_shard, "broadcast_object_list" in result.after.decode()) == (few == "few", few == "few")


@pytest.mark.parametrize("made", ["DataLoader(data, batch_size=8)", "make(data)"])
def test_a_mean_over_the_rows_is_no_mean_over_the_batches(made: str) -> None:
    text = (
        "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
        "def make(rows):\n    return DataLoader(rows, batch_size=8)\n"
        "model = nn.Linear(3, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"for epoch in range(3):\n    total = 0\n    for x, y in {made}:\n"
        "        loss = (model(x) - y).pow(2).mean()\n        optimizer.zero_grad()\n        loss.backward()\n"
        "        optimizer.step()\n        total += loss.item()\n    print(total / len(data))\n"
    )
    assert '    total = accelerator.reduce(total, "sum")\n' in run(text).after.decode()
