"""A member of the model that its wrapper does not have."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.hidden_attribute import NAME
from tests.codemod.checks.checking import ACCELERATE, DDP, fixed, leaves, reports

NET = """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(3, 3)
        self.scale = 1.0
    def forward(self, x):
        return self.head(x) * self.scale
    def penalty(self):
        return self.head.weight.norm()
"""
WRAPPED = DDP + NET + "net = DDP(Net())\n"
PREPARED = ACCELERATE + NET + "net, loader = accelerator.prepare(Net(), loader)\n"


@pytest.mark.parametrize(
    "line",
    ["print(net.scale)", "loss = net(x).sum() + net.penalty()", "net.scale = 0.5", "opt = make(net.head.weight)"],
)
def test_a_member_of_the_model(line: str) -> None:
    reports(NAME, WRAPPED + f"{line}  # <- here\n")
    reports(NAME, PREPARED + f"{line}  # <- here\n")


@pytest.mark.parametrize(
    "line",
    [
        "print(net.module.scale)",
        "net.train()",
        "net.forward(x)",
        "net.state_dict()",
        "net.no_sync()",
        "net.unknown()",
        "if hasattr(net, 'penalty'):\n    net.penalty()",
        "print(net.penalty() if not isinstance(net, DDP) else 0)",
        "try:\n    net.penalty()\nexcept AttributeError:\n    pass",
        "net = Net()\nnet.penalty()",
    ],
)
def test_what_the_wrapper_has_or_who_asks_first(line: str) -> None:
    leaves(NAME, WRAPPED + line + "\n")


def test_another_object_of_prepare_and_another_prepare() -> None:
    leaves(NAME, PREPARED + "print(loader.dataset, accelerator.unwrap_model(net).scale)\n")
    leaves(NAME, PREPARED.replace("from accelerate import", "from accelify.runtime import") + "print(net.scale)\n")


def test_the_wrapper_is_not_always_there() -> None:
    leaves(NAME, DDP + NET + "net = Net()\nif use_many:\n    net = DDP(net)\nprint(net.scale)\n")


def test_the_fix() -> None:
    assert fixed(WRAPPED + "print(net.penalty())\n") == WRAPPED + "print(net.module.penalty())\n"
    assert fixed(PREPARED + "print(net.penalty())\n") == PREPARED + "print(net.penalty())\n"
