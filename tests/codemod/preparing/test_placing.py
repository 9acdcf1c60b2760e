"""Where the accelerator is created: below what may set anything that it depends on."""

from __future__ import annotations

import pytest

from tests.codemod.pairs import migrated

SCRIPT = """\
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

lr, path = 0.1, "configurator.py"
{settings}
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=lr)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "settings",
    [
        "exec(open(path).read())",
        "for line in sys.argv[1:]:\n    exec(line)",
        "with open(path) as f:\n    exec(f.read())",
    ],
)
def test_after_what_sets_the_settings_anew(settings: str) -> None:
    after = migrated(SCRIPT.format(settings=settings))
    assert after.index("exec(") < after.index("= Accelerator(") < after.index("loader = DataLoader")


def test_after_the_imports_where_nothing_does() -> None:
    after = migrated(SCRIPT.format(settings="print(lr)"))
    assert after.index("= Accelerator(") < after.index("lr, path")
