"""Loaders in a dict, one of them prepared: what a loop over it adds up, and what its batches are."""

from __future__ import annotations

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
