"""Names that may not be given what `prepare` returns."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.preparing.objects.bindings import Bindings, within
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated
from tests.codemod.preparing.objects.texts import HEAD, STEP

AMONG = """\
import torch
from sklearn.svm import SVC
from torch import nn
from xgboost import XGBClassifier
x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
{models}
    if isinstance(model, nn.Module):
        optimizer = torch.optim.Adam(model.parameters())
        for epoch in range(2):
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    else:
        model.fit(x.numpy(), y.numpy())
"""


BESIDE = "        model, optimizer = accelerator.prepare(model, optimizer)"


@pytest.mark.parametrize(
    ("models", "prepared"),
    [
        (
            "for model in [nn.Linear(4, 2), SVC()]:",
            "for model in [accelerator.prepare(nn.Linear(4, 2)), SVC()]:",
        ),
        (
            "net, other = nn.Linear(4, 2), XGBClassifier()\nfor model in (net, other):",
            "        net, optimizer = accelerator.prepare(net, optimizer)",
        ),
        (
            "models = {'net': nn.Linear(4, 2), 'svm': SVC()}\nfor name in models:\n    model = models[name]",
            BESIDE,
        ),
        (
            "def make(name): return nn.Linear(4, 2) if name == 'net' else SVC()\n"
            "for name in ['net', 'svm']:\n    model = make(name)",
            BESIDE,
        ),
        ("def fit(model):", BESIDE),
    ],
)
def test_what_learns_from_arrays_beside_networks_is_not_prepared(models: str, prepared: str) -> None:
    calls = "for each in [nn.Linear(4, 2), SVC()]:\n    fit(each)\n" if models.startswith("def fit") else ""
    after = migrated(AMONG.format(models=models) + calls)
    assert prepared in after.splitlines()
    assert after.count("prepare(") == 1 + ("Linear(4, 2))," in prepared)


def test_tensors_that_had_a_model_s_name_before_it_are_trained_whole() -> None:
    text = """\
class Tensors:
    def __init__(self):
        self.w = torch.zeros(4, 1, requires_grad=True)
    def __call__(self, x):
        return x @ self.w
def batches():
    for i in range(0, 8, 2):
        yield data[i : i + 2]
model = Tensors()
for x, y in batches():
    nn.functional.mse_loss(model(x), y).backward()
    with torch.no_grad():
        model.w -= 0.1 * model.w.grad
        model.w.grad.zero_()
model = nn.Linear(4, 1)
for x, y in batches():
    nn.functional.mse_loss(model(x), y).backward()
    for p in model.parameters():
        p.data -= 0.1 * p.grad
    model.zero_grad()
"""
    after = migrated(HEAD + text)
    assert "model = Tensors()\nfor x, y in batches():" in after
    assert "model = nn.Linear(4, 1)\nmodel = accelerator.prepare(model)\n" in after
    assert "for x, y in accelerator.shard(batches()):\n" in after


@pytest.mark.parametrize("record", ["class State(NamedTuple):", "@dataclass(frozen=True)\nclass State:"])
def test_a_field_that_cannot_be_assigned_is_prepared_in_place(record: str) -> None:
    text = f"""\
from dataclasses import dataclass
from typing import NamedTuple
{record}
    model: nn.Module
    loader: DataLoader
state = State(nn.Linear(4, 1), DataLoader(data, batch_size=2))
optimizer = torch.optim.SGD(state.model.parameters(), lr=0.1)
for x, y in state.loader:
{STEP.replace("model(x", "state.model(x")}"""
    after = migrated(HEAD + text)
    assert "state = State(nn.Linear(4, 1), accelerator.prepare(DataLoader(data, batch_size=2)))" in after
    assert "accelerator.prepare(state.model)\n" in after
    assert "optimizer = accelerator.prepare(optimizer)" in after
    assert "state.model = " not in after


FIRST = """\
def fit(given):
    for batch in given:
        pass
def main():
    held = {"train": DataLoader(rows)}
    taken = held["train"]
    fit(taken)
main()
"""


def test_what_comes_out_of_a_container_has_the_names_since() -> None:
    facts = Facts(FIRST)
    (read,) = (n.iter for n in facts.named[0].nodes if isinstance(n, ast.For))
    (chain,) = facts.tracer.chains(read)
    bindings = Bindings(facts.program, facts.roles, facts.tracer)
    assert bindings.outermost(chain).text == "held"
    assert bindings.outermost(within(chain)).text == "taken"
    assert bindings.item("loader", bindings.outermost(within(chain))).frame is facts.scope("main")


LAZY = """\
class Trainer:
    def __init__(self):
        self._net, self.loader = nn.Linear(4, 1), DataLoader(data, batch_size=2)
    @property
    def net(self):
        return self._net
    def fit(self):
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        for x, y in self.loader:
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.net(x), y).backward()
            self.optimizer.step()
Trainer().fit()
"""


def test_a_property_that_nothing_sets_is_prepared_in_place() -> None:
    after = migrated(HEAD + LAZY)
    assert "        self.accelerator.prepare(self.net)\n" in after
    assert "self.net =" not in after
