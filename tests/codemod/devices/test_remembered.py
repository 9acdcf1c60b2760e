"""Models that a script moves to and fro, and of which it remembers where they are: they are prepared where they are."""

from __future__ import annotations

import pytest

from accelify.codemod.devices.moves import Remembered
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated

AGENT = """\
import torch
from torch import nn
class Agent:
    def __init__(self):
        self.net = nn.Linear(4, 2)
        self.optimizer = torch.optim.Adam(self.net.parameters())
        self.where = "cpu"
    def place(self, device="cpu"):
        {move}
    def update(self, x):
        loss = self.net(x).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
agent = Agent()
for episode in range(4):
    agent.place("cpu")
    x = agent.net(torch.randn(4, 4)).detach().repeat(1, 2)
    agent.place("gpu")
    agent.update(x.cuda())
"""
BY_FUNCTION = """\
move = (lambda m: m.cuda()) if device == "gpu" else (lambda m: m.cpu())
        if self.where != device:
            self.net = move(self.net)
            self.where = device"""
BY_METHOD = """\
if not self.where == device:
            self.net.cuda() if device == "gpu" else self.net.cpu()
            self.where = device"""
BY_NAME = """\
if self.where != device:
            if device == "gpu":
                self.net.cuda()
            else:
                self.net.cpu()
            self.where = device"""


@pytest.mark.parametrize("move", [BY_FUNCTION, BY_METHOD, BY_NAME])
def test_the_attribute_that_says_where_it_is(move: str) -> None:
    found = Remembered(Facts(AGENT.format(move=move)).program)
    assert found.places == {"self.where"}
    assert len(found.models) == 1


@pytest.mark.parametrize("move", [BY_FUNCTION, BY_METHOD, BY_NAME])
def test_a_model_of_which_the_script_remembers_where_it_is(move: str) -> None:
    after = migrated(AGENT.format(move=move))
    by_all, by_each = "Accelerator(device_placement=False)", "self.net, self.optimizer, device_placement=[False, None]"
    assert (by_all in after) is not (by_each in after)
    assert "self.where = device" in after
    assert ".cpu()" in after
    assert ".to(self.accelerator.device)" in after or ".to(accelerator.device)" in after


@pytest.mark.parametrize(
    "move",
    [
        "self.net.cuda() if device == 'gpu' else self.net.cpu()",
        "self.net.cuda()",
        "if self.where != device:\n            print(device)\n            self.where = device",
        "if self.where == device:\n            self.net.cuda()\n            self.where = device",
    ],
)
def test_a_model_that_is_moved_without_asking(move: str) -> None:
    assert "device_placement=[" not in migrated(AGENT.format(move=move))
