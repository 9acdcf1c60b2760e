"""Facts about what a forward pass changes from a rank's own batch."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.forward_state import forward_states
from tests.codemod.facts import Facts

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import rows
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(1, 1)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("mean", torch.zeros(1))
        self.steps, self.seen = 0, None
    def keep(self, x):
        {changed}
    def forward(self, x):
        if self.training:
            self.keep(x)
        return self.lin(x) * self.mean
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(rows, 4):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ("self.mean = 0.9 * self.mean + 0.1 * x.mean()", ["mean"]),
        ("self.mean.mul_(0.9).add_(x.mean())", ["mean"]),
        ("self.mean[0] = x.detach().mean()", ["mean"]),
        ("self.scale.data.copy_(x.std())", ["scale"]),
        ("self.lin.weight.data = x.mean().view(1, 1)", ["lin"]),
        ("self.mean += x.sum()", ["mean"]),
        ("self.mean.zero_()", []),
        ("self.lin.weight.data.clamp_(0, 1)", []),
        ("self.seen = x", []),
        ("self.steps += 1", []),
        ("mean = x.mean()", []),
    ],
)
def test_states_that_a_forward_pass_learns(changed: str, names: list[str]) -> None:
    script = Facts(SCRIPT.format(changed=changed)).script
    assert [name for _, name in forward_states(script.metrics)] == names


def test_what_is_changed_before_the_training_is_not_of_a_batch() -> None:
    text = SCRIPT.format(changed="pass").replace("optimizer =", "model.mean = rows.mean()\noptimizer =")
    assert not list(forward_states(Facts(text).script.metrics))
