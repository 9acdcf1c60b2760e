"""Facts about prepared loaders that yield several parts of each batch."""

from __future__ import annotations

import pytest

from accelify.codemod.preparing.objects.parted_batches import parted_batches
from tests.codemod.facts import Facts, texts

LOADER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
class Parts({base}):
    def __init__(self, rows, **options):
        {begin}
    def __iter__(self):
        {body}
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in Parts(rows, batch_size=2):
    optimizer.zero_grad()
    net(x).mean().backward()
    optimizer.step()
"""
BASE = {"base": "DataLoader", "begin": "super().__init__(rows, **options)"}
KEPT = {"base": "DataLoader", "begin": "super().__init__(rows, **options); self.inner = DataLoader(rows, **options)"}
IN_PARTS = "for i in range(0, len(batch), 4):\n                yield batch[i : i + 4]"


@pytest.mark.parametrize(
    ("slots", "body", "found"),
    [
        (BASE, f"for batch in super().__iter__():\n            {IN_PARTS}", ["(yield batch[i:i + 4])"]),
        (
            BASE,
            f"for n, batch in enumerate(DataLoader.__iter__(self)):\n            {IN_PARTS}",
            ["(yield batch[i:i + 4])"],
        ),
        (KEPT, f"for batch in self.inner:\n            {IN_PARTS}", ["(yield batch[i:i + 4])"]),
        (
            BASE,
            "for batch in super().__iter__():\n            while len(batch):\n"
            "                yield batch[:4], True\n                batch = batch[4:]",
            ["(yield (batch[:4], True))"],
        ),
        (BASE, "for batch in super().__iter__():\n            yield batch.float()", []),
        (BASE, "for i in range(0, 32, 4):\n            yield self.dataset[i : i + 4]", []),
        (BASE, f"for batch in self.dataset:\n            {IN_PARTS}", []),
    ],
)
def test_parts_of_batches_at_which_processes_take_turns(slots: dict[str, str], body: str, found: list[str]) -> None:
    script = Facts(LOADER.format(body=body, **slots)).script
    assert texts(parted_batches(script.program, script.roles, script.preparation.loaders)) == found
