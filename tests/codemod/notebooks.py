"""Small notebooks: a training loop in cells, with what notebooks have besides Python."""

from __future__ import annotations

import json
from typing import Any  # JSON

IMPORTS = (
    "%matplotlib inline\nimport torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset"
)
SETUP = """\
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
data = TensorDataset(torch.randn(16, 4), torch.randn(16, 1))
loader = DataLoader(data, batch_size=4)
model = nn.Linear(4, 1).to(device)"""
OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
TRAINING = """\
%%time
for x, y in loader:
    x, y = x.to(device), y.to(device)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}")"""
CELLS = ["# A title", IMPORTS, SETUP, OPTIMIZER, TRAINING]


def content(*cells: str, as_string: bool = False) -> dict[str, Any]:
    """A notebook as nbformat has it; a cell that begins with `#` and a blank is text. Each code cell has outputs."""
    made = []
    for number, source in enumerate(cells):
        cell: dict[str, Any] = {"cell_type": "markdown", "metadata": {}}
        if not source.startswith("# "):
            output = {"name": "stdout", "output_type": "stream", "text": ["model.to(device)\n", "loss.backward()\n"]}
            cell = {"cell_type": "code", "execution_count": number, "metadata": {}, "outputs": [output]}
        made.append({**cell, "source": source if as_string else source.splitlines(keepends=True)})
    return {
        "cells": made,
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 4,
    }


def written(notebook: dict[str, Any], **options: Any) -> bytes:
    """A notebook's bytes as Jupyter writes them, or as `options` of `json.dumps` say."""
    return (json.dumps(notebook, **{"indent": 1, "ensure_ascii": False, **options}) + "\n").encode()


def sources(data: bytes) -> list[str]:
    """What the cells hold."""
    return ["".join(cell["source"]) for cell in json.loads(data)["cells"]]
