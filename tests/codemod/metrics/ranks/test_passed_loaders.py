"""Which calls pass a function loaders that are whole on every rank."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.ranks.passed_loaders import PassedLoaders
from tests.codemod.facts import Facts

SOURCE = """\
import copy, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
rows = TensorDataset(torch.randn(32, 4), torch.randint(0, 3, (32,)))
def load():
    loaders = {}
    loaders["train"] = DataLoader(rows, batch_size=4, shuffle=True)
    loaders["test"] = DataLoader(rows, batch_size=8)
    return loaders
def score(loader, net, other=None):
    outs = []
    SCORE
    return torch.cat(outs).mean().item()
loaders = load()
fixed = DataLoader(rows, batch_size=8)
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
best = 0
for epoch in range(3):
    for x, y in loaders["train"]:
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    train, test = score(loaders["train"], net), score(TEST, net)
    print(train, test)
    if test >= best:
        best, weights = test, copy.deepcopy(net.state_dict())
torch.save(weights, "net.pt")
"""
ASKED = """\
batches = iter(loader)
    for _ in range(len(loader)):
        outs.append(net(next(batches)[0]))"""


@pytest.mark.parametrize(
    ("scored", "test", "is_own"),
    [
        (ASKED, "loaders['test']", False),
        (ASKED, "fixed", False),
        ("outs += [net(x) for x, y in loader]", "fixed", False),
        ("outs.append(net(next(iter(loader))[0]))", "loaders['test']", False),
        (ASKED, "loaders['train']", True),
        ("outs.append(net(next(iter(loaders['train']))[0]))", "fixed", True),  # not what it is passed
        (f"{ASKED}\n    outs.append(next(iter(loaders['train']))[0])", "fixed", True),
        ("outs.append(net(next(iter(loader if other is None else loaders['train']))[0]))", "fixed", True),
    ],
)
def test_one_function_for_two_loaders(scored: str, test: str, is_own: bool) -> None:
    script = Facts(SOURCE.replace("SCORE", scored).replace("TEST", test)).script
    printed = next(c for c in script.program.calls if ast.unparse(c) == "print(train, test)")
    train, held_out = printed.args
    calls = [c for c in script.program.calls if ast.unparse(c.func) == "score"]
    whole = PassedLoaders(script.metrics.measured.chains, script.metrics.ranks.shards)
    labels = script.metrics.ranks.of(train).origins
    callee = next(iter(script.program.flow.callees[calls[0]]))
    assert [bool(whole.without_shards(labels, c, callee)) for c in calls] == [True, is_own]
    assert script.metrics.ranks.is_own(train)
    assert script.metrics.ranks.is_own(held_out) is is_own
    saved = next(c for c in script.program.calls if ast.unparse(c.func) == "torch.save")
    assert script.metrics.ranks.is_own(saved.args[0]) is is_own


def test_what_only_the_pass_over_a_prepared_loader_gives_is_named() -> None:
    reports = Facts(SOURCE.replace("SCORE", ASKED).replace("TEST", "fixed")).script.metrics.reports
    assert [(r.text, r.is_of_some_batches) for r in reports] == [("train", False)]
