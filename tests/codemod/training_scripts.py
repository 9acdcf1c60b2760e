"""A plain training script whose parts a test may add to; the facts of topics are asked of it."""

from __future__ import annotations

from textwrap import dedent, indent

from tests.codemod.facts import Facts

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
{imports}
{before}
loader = DataLoader(rows, batch_size=2)
model = nn.Linear(4, 1)
{model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{set_up}
for epoch in range(2):
{epoch}
    for x, y in loader:
{batch}
{step}
{end_of_epoch}
{end}
"""
STEP = """\
loss = nn.functional.mse_loss(model(x), y)
optimizer.zero_grad()
loss.backward()
optimizer.step()
"""
DEPTHS = {"epoch": 4, "batch": 8, "step": 8, "end_of_epoch": 4}
SLOTS = ("imports", "before", "model", "set_up", "epoch", "batch", "step", "end_of_epoch", "end")


def script(**slots: str) -> str:
    """The script with its slots filled, at their own depths of indentation."""
    filled = {slot: dedent(slots.get(slot, STEP if slot == "step" else "")).strip("\n") for slot in SLOTS}
    text = SCRIPT.format(**{slot: indent(code, " " * DEPTHS.get(slot, 0)) for slot, code in filled.items()})
    return "\n".join(line for line in text.split("\n") if line.strip()) + "\n"


def training(**slots: str) -> Facts:
    """The facts of the script with its slots filled."""
    return Facts(script(**slots))
