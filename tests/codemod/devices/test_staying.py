"""Whether all moves of a script stay, and how its tensors come together that are in two memories."""

from __future__ import annotations

import pytest

from accelify.codemod.devices.staying import Together
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import STEP, training

MOVED = "x, y = x.cuda(), y.cuda()\n"


@pytest.mark.parametrize(
    ("model", "step", "stays"),
    [
        ("model.cuda()", MOVED + STEP, False),
        ("if torch.cuda.is_available():\n    model.cuda()", MOVED + STEP, False),
        ("if flag:\n    model.cuda()", MOVED + STEP, True),
        ("model.cuda() if flag else model", MOVED + STEP, True),
        ("model.cuda()", "x = x.cuda()\n" + STEP.replace("model(x), y", "model(x).cpu(), y"), True),
    ],
)
def test_moves_stay_where_a_loader_would_change_what_they_do(model: str, step: str, stays: bool) -> None:
    found = training(before="flag = bool(input())", model=model, step=step).script.devices
    assert found.keeps_moves is stays
    assert found.together == Together()


def test_a_script_of_the_cpu_has_its_tensors_in_two_memories() -> None:
    found = training(before="scale = torch.ones(4)", step=STEP.replace("model(x)", "model(x * scale)")).script.devices
    assert not found.keeps_moves
    assert found.together.mixed is not None
    assert found.together.homemade is None


GIVEN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
def fit({parameters}):
    loader = DataLoader(rows, batch_size=2)
    {model}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append({kept})
"""


@pytest.mark.parametrize(
    ("parameters", "model", "kept", "stays", "is_mixed"),
    [
        ("model, rows", "", "y.numpy()", False, True),
        ("rows, *, model", "", "np.asarray(y)", False, True),
        ("model, rows", "model.train()", "y.numpy()", False, True),
        ("model, rows", "model.cuda()", "y.numpy()", True, False),
        ("model, rows", "model = model.to('cuda')", "y.numpy()", True, False),
        ("rows", "model = nn.Linear(4, 1).cuda()", "y.numpy()", True, False),
        ("model, rows", "", "loss.item()", False, False),
    ],
)
def test_a_model_that_a_caller_has_put_on_a_gpu_is_prepared_for_its_process(
    parameters: str, model: str, kept: str, stays: bool, is_mixed: bool
) -> None:
    text = "import numpy as np\n" + GIVEN.format(parameters=parameters, model=model, kept=kept)
    found = Facts(text).script.devices
    assert found.keeps_moves is stays
    assert (found.together.mixed is not None) is is_mixed


NETWORK = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width, device{default}):
        super().__init__()
        self.fc = nn.Linear(width, 1)
        self.device = device
        {placed}
    def forward(self, x):
        return self.fc(x{moved})
"""
OTHER = """\
import torch
from network import Net
def train():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Net(3, device=device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        loss = net(torch.rand(4, 3).to(device)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
def report(loss):
    print(loss)
if __name__ == "__main__":
    train()
"""
BESIDE = """\
import torch
from network import Net
from other import report
net = {made}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(5):
    loss = net(torch.rand(4, 3).to(net.device)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
report(loss)
"""
CPU, PLACED, MOVED_THERE = '=torch.device("cpu")', "self.to(self.device)", ".to(self.device)"


@pytest.mark.parametrize(
    ("default", "placed", "moved", "made", "stays"),
    [
        (CPU, PLACED, MOVED_THERE, "Net(3)", True),
        ('="cpu"', PLACED, MOVED_THERE, "Net(width=3)", True),
        (CPU, "self.fc.to(device)", "", "Net(3)", True),
        (CPU, "self.to(device=device)", ".to(self.device)", "Net(3)", True),
        (CPU, PLACED, MOVED_THERE, "Net(3, torch.device('cuda'))", False),
        (CPU, PLACED, MOVED_THERE, "Net(3, device='cuda')", False),
        ('="cuda"', PLACED, MOVED_THERE, "Net(3)", False),
        (CPU, PLACED, "", "Net(3).cuda()", False),
        (CPU, PLACED, "", "Net(3)\nnet.cuda()", False),
    ],
)
def test_a_model_whose_class_moves_to_the_cpu_by_default_beside_one_on_a_gpu(
    default: str, placed: str, moved: str, made: str, stays: bool
) -> None:
    network = NETWORK.format(default=default, placed=placed, moved=moved)
    found = Facts({"main.py": BESIDE.format(made=made), "other.py": OTHER, "network.py": network}).script.devices
    assert found.keeps_moves is stays
    assert found.together == Together()
