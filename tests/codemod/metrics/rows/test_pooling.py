"""Which values are of all rows of a batch together."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.rows.pooling import Pooling
from tests.codemod.facts import Facts

SCRIPT = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
def radius(distances, share):
    return np.quantile(distances.detach().numpy(), share)
def row_norms(x):
    return x.pow(2).sum(1)
rows = TensorDataset(torch.randn(8, 4), torch.zeros(8, 1))
model, cell = nn.Linear(4, 1), nn.GRU(4, 4)
optimizer = torch.optim.SGD([*model.parameters(), *cell.parameters()], lr=0.1)
kept, share, h = torch.zeros(1), 0.9, None
for x, y in DataLoader(rows, batch_size=2):
    out, z = model(x - x.mean(0)), x.detach()
    loss = nn.functional.mse_loss(out, y) + kept.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {update}
"""


@pytest.mark.parametrize(
    ("update", "is_pooled"),
    [
        ("kept = 0.9 * kept + 0.1 * loss.item()", True),
        ("kept = z.mean(0)", True),
        ("kept = torch.sum(z, dim=(0, 1))", True),
        ("kept = torch.tensor(radius(z, 1 - share))", True),
        ("last = z.max(); kept = last * 2", True),
        ("kept += nn.functional.l1_loss(out, y).detach()", True),
        ("kept.data.copy_(out.detach().std())", True),
        ("kept.data = z.median()", True),
        # A row for each of the batch.
        ("kept = z", False),
        ("kept = z.sum(1)", False),
        ("kept = z.mean(-1, keepdim=True)", False),
        ("kept = row_norms(z)", False),
        ("kept = torch.max(z, torch.zeros_like(z))", False),
        ("out, h = cell(x, h); kept = h.detach()", False),
        ("z = z[torch.randperm(x.size(0))]; kept = torch.cat((kept, z))[z.size(0) :]", False),
        ("z = z[torch.randperm(x.size(0))]; kept = torch.cat((kept, z))[len(z) :]", False),
        ("kept = z[torch.randperm(x.shape[0]).argsort()]", False),
        ("kept = model(x - x.mean(0)).detach()", False),
        ("kept = nn.functional.mse_loss(out, y, reduction='none').detach()", False),
        # The same on all ranks.
        ("kept = torch.ones(1).mean() * len(loader)", False),
    ],
)
def test_what_is_of_all_rows_of_a_batch(update: str, is_pooled: bool) -> None:
    facts = Facts(SCRIPT.format(update=update).replace("loader", "rows"))
    chains = facts.script.metrics.measured.chains
    last = [n for n in ast.walk(facts["for x, y"]) if isinstance(n, (ast.Name, ast.Attribute, ast.Call))]
    (node,) = [n for n in last if any(d.variable.name == "kept" for d in chains.facts(n).at(n))]
    assert Pooling(facts.script.metrics.ranks).sets_pooled(node) is is_pooled
