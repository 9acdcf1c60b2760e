"""Lists of one number for each batch of a training loop: put together where their mean is read after it."""

from __future__ import annotations

import pytest

from tests.codemod.pairs import run

SCRIPT = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,))), batch_size=2)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
history = []
{before}
for epoch in range(2):
    {begin}
    for x, y in {source}:
        {first}
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {add}
    {end}
"""
PLAIN = {
    "before": "",
    "begin": "losses = []",
    "source": "loader",
    "first": "pass",
    "add": "losses.append(loss.item())",
    "end": "print(np.mean(losses))",
}
GATHERED = '    losses = accelerator.gather_for_metrics(losses, per="batch")\n'


def rewritten(**slots: str) -> tuple[str, list[str]]:
    result = run(SCRIPT.format(**{**PLAIN, **slots}).replace("        pass\n", ""))
    return result.after.decode(), [n.message for n in result.notes if "covers this process" in n.message]


@pytest.mark.parametrize(
    "slots",
    [
        {},
        {"begin": "losses, steps = [], 0"},
        {"source": "enumerate(loader)", "first": "x, y = y"},
        {"add": "number = loss.item()\n        losses.append(number)"},
        {"add": "losses.append(float(loss))\n        print(np.mean(losses))"},
        {"before": "config = {'weight': 2}", "add": "losses.append(config['weight'] * loss.item())"},
        {"before": "def number(x): return x.item()", "add": "losses.append(number(loss))"},
        {"before": "def both(x): return x.item(), 2", "add": "a, b = both(loss)\n        losses.append(a / b)"},
        {"end": "print(sum(losses) / len(losses))"},
        {"end": "history.append(torch.tensor(losses).mean().item())"},
        {"end": "print(np.average(losses), max(losses))"},
        {"end": "losses = np.mean(losses)\n    print(losses)"},
        {"end": "losses = sum(losses) / len(losses)\n    history.append(losses)"},
        {"before": "losses = None", "end": "losses = torch.tensor(losses).mean()\n    print(losses)"},
        {"source": "DataLoader(loader.dataset, 2)"},
        {"source": "enumerate(DataLoader(loader.dataset, 2, shuffle=True))", "first": "x, y = y"},
        {"before": "def batches(): return DataLoader(loader.dataset, 2)", "source": "batches()"},
        {"add": "losses.append(loss.detach().cpu().numpy())"},
        {"add": "number = loss.cpu().detach().numpy()\n        losses += [number]"},
        {"add": "losses.append(loss.data)", "end": "print(sum(losses) / len(losses))"},
        {"add": "losses.append(loss.detach().cpu())"},
        {"add": "losses.append(loss.item())\n        recent = sum(losses[-9:]) / 9\n        print(recent)"},
        {"add": "losses.append(loss.item())\n        mean = np.mean(losses)\n        m = str(mean)\n        print(m)"},
        {"add": "losses += [loss.item()]"},
        {"begin": "losses = np.array([])", "add": "losses = np.append(losses, loss.item())"},
        {"begin": "losses = list()", "add": "losses = np.append(losses, [loss.item()])", "end": "print(losses.mean())"},
        {"begin": "losses = np.asarray([])", "add": "losses = np.hstack((losses, loss.item()))"},
        {"begin": "losses = np.array([])", "add": "losses = np.concatenate([losses, [loss.item()]])"},
        {"add": "losses.append(loss)"},
        {"before": "def both(x): return x, 2", "add": "a, b = both(loss)\n        losses.append(a)"},
        {"add": "losses.append(loss.cpu())"},
    ],
)
def test_what_is_read_for_its_mean_is_put_together(slots: dict[str, str]) -> None:
    after, notes = rewritten(**slots)
    assert GATHERED in after
    assert not notes


def test_its_sum_is_divided_by_its_own_length() -> None:
    after, notes = rewritten(end="print(sum(losses) / len(loader))")
    assert f"{GATHERED}    print(sum(losses) / len(losses))\n" in after
    assert not notes


@pytest.mark.parametrize(
    "slots",
    [
        {"end": "print(sum(losses) / len(model))"},
        {"end": "print(losses[-1])"},
        {"end": "history.extend(losses); print(history)"},
        {"end": "print(np.mean(losses)); loader_losses = losses"},
        {"before": "losses = []", "begin": "pass", "end": "print(np.mean(losses))"},
        {"begin": "losses = [0.0]"},
        {"add": "if epoch: losses.append(loss.item())"},
        {"add": "losses.append(loss.item())\n        if epoch: break"},
        {"add": "losses.append(loss.item())\n        losses.append(1.0)\n        losses = losses[1:]"},
        {"first": "if np.mean(losses) < 1: model.train()"},
        {"add": "losses.append(loss.item())\n        mean = np.mean(losses)\n        if mean < 1: model.train()"},
        {"source": "zip(x_loader, loader)", "before": "x_loader = loader"},
        {"end": "losses = np.array(losses)\n    print(losses[-1])"},
        {"end": "losses = losses[1:]\n    print(np.mean(losses))"},
        {"begin": "losses = np.array([0.0])", "add": "losses = np.append(losses, loss.item())"},
        {"begin": "losses = np.array([])", "add": "losses = np.append(history, loss.item())"},
        {"begin": "losses = np.array([])", "add": "losses = np.append(losses, y.numpy())"},
        {"add": "losses += [loss.item(), 1.0]"},
    ],
)
def test_any_other_is_reported(slots: dict[str, str]) -> None:
    after, notes = rewritten(**slots)
    assert GATHERED not in after
    assert notes or "end" not in slots


@pytest.mark.parametrize(
    "add",
    [
        "losses.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())",
        "losses.append(sum(p.grad.norm().item() for p in model.parameters()))",
        "norm = model.weight.grad.norm()\n        losses.append(float(norm))",
        "losses.append(optimizer.param_groups[0]['lr'])",
    ],
)
def test_what_is_the_same_in_all_processes_is_not_put_together(add: str) -> None:
    after, notes = rewritten(add=add)
    assert "gather" not in after
    assert not notes


SHARDED = """\
import numpy as np
import torch

data, labels = torch.randn(40, 4), torch.randint(0, 2, (40,))
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = torch.arange(40).split(4)
for epoch in range(2):
    losses = []
    for rows in batches:
        loss = torch.nn.functional.cross_entropy(model(data[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(np.mean(losses))
"""


@pytest.mark.parametrize(
    ("before", "after", "gathered"),
    [
        ("np.mean(losses)", "sum(losses) / len(losses)", "losses = accelerator.gather_for_metrics(losses)"),
        ("rows in batches", "rows in torch.randperm(40).split(4)", "losses = accelerator.gather_for_metrics(losses)"),
        ("np.mean(losses)", "sum(losses) / len(batches)", "print(sum(losses) / len(losses))"),
        ("np.mean(losses)", "losses[-1]", ""),
        ("losses.append(loss.item())", "losses.append(loss.detach())", ""),
    ],
)
def test_a_list_of_what_each_process_takes_of_a_sequence(before: str, after: str, gathered: str) -> None:
    found = run(SHARDED.replace(before, after))
    assert gathered in found.after.decode()
    assert ("gather_for_metrics" in found.after.decode()) is bool(gathered)
    assert any("covers this process" in n.message for n in found.notes) is not bool(gathered)
