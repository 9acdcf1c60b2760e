"""A script that names no device stays on the CPU where it gives its models tensors of its own."""

from __future__ import annotations

import textwrap

import pytest

from accelify.codemod.result import FileResult
from tests.codemod.pairs import run

ON_THE_CPU = "accelerator = Accelerator(cpu=True)\n"
SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("shift", torch.zeros(1))
        {built}
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        {forward}
        return self.layer(x) * self.scale + self.shift

def error(out, y):
    return F.mse_loss(out, y)

def halves(x):
    return x / 2

data = TensorDataset(torch.randn(16, 4), torch.randn(16, 4))
loader = DataLoader(data, batch_size=2)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{after}
"""


def rewritten(**slots: str) -> FileResult:
    """The script with something put into it."""
    slots = {"built": "pass", "forward": "pass", "loss": "error(model(x), y)", "after": "", **slots}
    return run(SCRIPT.format(**slots))


@pytest.mark.parametrize(
    ("slots", "where"),
    [
        ({"after": "print(model(torch.ones(1, 4)))"}, "torch.ones(1, 4)"),
        ({"after": "print(model(data.tensors[0]))"}, "data.tensors[0]"),
        ({"loss": "F.mse_loss(model(x), torch.ones(2, 4))"}, "torch.ones(2, 4)"),
        ({"loss": "error(model(halves(torch.ones(2, 4))), y)"}, "halves(torch.ones(2, 4))"),
        ({"forward": "x = x + torch.zeros(1)"}, "torch.zeros(1)"),
        ({"built": "self.mask = torch.ones(4)"}, "torch.ones(4)"),
    ],
)
def test_what_the_cpu_holds_keeps_the_script_there(slots: dict[str, str], where: str) -> None:
    result = rewritten(**slots)
    assert ON_THE_CPU in result.after.decode()
    (note,) = [n for n in result.notes if n.rule == "own_tensors"]
    assert note.message.startswith(f"`{where}` is in the CPU's memory")


@pytest.mark.parametrize(
    "slots",
    [
        {},
        {"loss": "error(model(halves(x)), y)"},
        {"loss": "F.mse_loss(model(x), torch.zeros_like(y))"},
        {"forward": "x = x + torch.zeros_like(x)"},
        {"after": "print(torch.ones(1))"},
    ],
)
def test_batches_alone_do_not(slots: dict[str, str]) -> None:
    result = rewritten(**slots)
    assert "accelerator = Accelerator()\n" in result.after.decode()
    assert not [n for n in result.notes if n.rule == "own_tensors"]


def test_a_script_that_names_a_device_is_taken_at_its_word() -> None:
    after = rewritten(after="print(model(torch.ones(1, 4, device=model.scale.device)))").after.decode()
    assert "accelerator = Accelerator()\n" in after


def test_what_is_trained_without_a_model_stays_too() -> None:
    script = textwrap.dedent("""\
        import torch
        weights = torch.zeros(4, requires_grad=True)
        optimizer = torch.optim.SGD([weights], lr=0.1)
        for step in range(2):
            loss = (weights - 1).pow(2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """)
    assert ON_THE_CPU in run(script).after.decode()


def test_nothing_is_brought_to_the_cpu_that_never_left_it() -> None:
    after = rewritten(after="print(model(torch.ones(1, 4)).detach().numpy())").after.decode()
    assert ".cpu()" not in after
