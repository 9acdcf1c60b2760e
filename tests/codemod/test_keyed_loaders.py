"""Loaders in a dict, one of them prepared: what a loop over it adds up, and what its batches are."""

from __future__ import annotations

import pytest

from accelify.codemod.rewrite import Options
from tests.codemod.pairs import run

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,)))
loaders = {{"train": DataLoader(data, batch_size=2), "val": DataLoader(data, batch_size=2)}}
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
for epoch in range(2):
    running = 0.0
    model.train()
    for x, y in loaders["train"]:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss.item()
    print(running / len(loaders["train"]))
    model.eval()
    total = 0.0
    for x, y in loaders["{key}"]:
        x, y = x.to(device), y.to(device)
        total += criterion(model(x), y).item()
    print(total / {count})
"""


def rewritten(key: str, count: str) -> str:
    return run(SCRIPT.format(key=key, count=count), Options()).after.decode()


def test_what_a_loop_over_the_prepared_one_adds_up_is_reduced() -> None:
    after = rewritten("val", 'len(loaders["val"])')
    assert '    running = accelerator.reduce(running, "mean")\n' in after
    assert '    total = accelerator.reduce(total, "sum")\n' in after
    assert after.count("x.to(device)") == 1  # of what is not prepared


def test_a_second_loop_over_the_prepared_one_takes_as_many_batches() -> None:
    after = rewritten("train", 'len(loaders["train"])')
    assert "even=False" not in after
    assert '    total = accelerator.reduce(total, "mean")\n' in after
    assert "x.to(device)" not in after


FACTORY = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def get_loaders():
    loaders = {{}}
    for name in ["train", "val"]:
        data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
        loaders[name] = DataLoader(data, batch_size=2)
    return loaders


def evaluate(model, loader):
    model.eval()
    {begin}
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.mse_loss(model(x), y)
        {add}
    return {end}


def fit(train, val):
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        model.train()
        for x, y in train:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        print(evaluate(model, val))


if __name__ == "__main__":
    fit(**get_loaders())
"""


@pytest.mark.parametrize(
    ("begin", "add", "end", "combined"),
    [
        (
            'totals = {"loss": 0.0, "n": 0}',
            'totals["loss"] += loss.item() * len(x); totals["n"] += len(x)',
            'totals["loss"] / totals["n"]',
            'totals = accelerator.reduce(totals, "sum")',
        ),
        ("total = 0.0", "total += loss.item()", "total / len(loader)", 'total = accelerator.reduce(total, "mean")'),
        (
            "losses = []",
            "losses.append(loss.item())",
            "sum(losses) / len(losses)",
            'losses = accelerator.gather_for_metrics(losses, per="batch")',
        ),
    ],
)
def test_sums_over_a_loader_that_a_factory_prepares_get_the_accelerator(
    begin: str, add: str, end: str, combined: str
) -> None:
    result = run(FACTORY.format(begin=begin, add=add, end=end), Options())
    after = result.after.decode()
    assert "loaders[name] = accelerator.prepare(DataLoader(data, batch_size=2))" in after
    assert f"    {combined}\n" in after
    assert "print(evaluate(model, val, accelerator))" in after
    assert not [n for n in result.notes if "this process's shard" in n.message]


def test_a_function_that_combines_nothing_is_not_passed_the_accelerator() -> None:
    after = run(FACTORY.format(begin="pass", add="print(loss.item())", end="model"), Options()).after.decode()
    assert "print(evaluate(model, val))" in after
