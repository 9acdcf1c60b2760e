"""Which loaders of those are prepared that objects of one class ask for batches, some to train, others to evaluate."""

from __future__ import annotations

import pytest

from tests.codemod.pairs import run

TEXT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
class Ahead:
    def __init__(self, loader):
        self.loader = iter(loader)
    def next(self):
        try:
            return next(self.loader)
        except StopIteration:
            return None
train_loader, valid_loader = DataLoader(load()), DataLoader(load("valid"))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{defined}
for epoch in range(3):
    ahead = Ahead(train_loader)
    x = ahead.next()
    while x is not None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        x = ahead.next()
    {evaluated}
"""
FUNCTION = """\
def evaluate(loader):
    batches, total = Ahead(loader), 0
    x = batches.next()
    while x is not None:
        total += model(x).sum().item()
        x = batches.next()
    return total
"""
LOOP = "{0} = Ahead(valid_loader)\n    x = {0}.next()\n    while x is not None:\n        {1}\n        x = {0}.next()"
STEP = "optimizer.zero_grad(); model(x).sum().backward(); optimizer.step()"


@pytest.mark.parametrize(
    ("defined", "evaluated", "prepared"),
    [
        (FUNCTION, "print(evaluate(valid_loader))", "train_loader, model"),
        ("", LOOP.format("valid", "print(model(x).sum().item())"), "train_loader, model"),
        ("", LOOP.format("ahead", "print(model(x).sum().item())"), "train_loader, model"),
        ("", LOOP.format("more", STEP), "train_loader, valid_loader, model"),
    ],
)
def test_a_loader_that_an_object_asks_to_evaluate_is_not_prepared(defined: str, evaluated: str, prepared: str) -> None:
    result = run(TEXT.format(defined=defined, evaluated=evaluated))
    text = "".join(result.after.decode().split())
    assert f"=accelerator.prepare({prepared},optimizer)".replace(" ", "") in text
    assert not any("shard only" in n.message for n in result.notes)
