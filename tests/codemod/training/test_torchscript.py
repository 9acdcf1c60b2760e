"""Facts about TorchScript: which functions it compiles, where no accelerator can be named."""

from __future__ import annotations

import pytest

from accelify.codemod.training.torchscript import compiled
from tests.codemod.facts import Facts

NET = """\
import torch
from torch import nn
class Net(nn.Module):
    def forward(self, x):
        return self.shift(x) + self.shown(x)
    def shift(self, x):
        return x + 1
    {ignored}
    def shown(self, x):
        return x
    def alone(self, x):
        return x
model = {made}
model(torch.ones(1))
"""
FUNCTION = """\
import torch
def inner(x):
    return x * x
{decorator}
def outer(x):
    return inner(x)
{below}
print(outer(torch.ones(1)))
"""


def names(text: str) -> set[str]:
    return {scope.name for scope in compiled(Facts(text).program)}


@pytest.mark.parametrize("made", ["torch.jit.script(Net())", "torch.jit.script(Net().cuda())"])
def test_a_modules_forward_pass_and_what_it_calls(made: str) -> None:
    assert names(NET.format(made=made, ignored="")) == {"forward", "shift", "shown"}


@pytest.mark.parametrize("ignored", ["@torch.jit.ignore", "@torch.jit.unused"])
def test_what_is_left_to_python(ignored: str) -> None:
    assert names(NET.format(made="torch.jit.script(Net())", ignored=ignored)) == {"forward", "shift"}


@pytest.mark.parametrize("made", ["Net()", "torch.jit.trace(Net(), torch.ones(1))", "torch.compile(Net())"])
def test_nothing_is_compiled(made: str) -> None:
    assert not names(NET.format(made=made, ignored=""))


@pytest.mark.parametrize(
    "slots",
    [
        {"decorator": "@torch.jit.script"},
        {"decorator": "@torch.jit.script_if_tracing"},
        {"below": "outer = torch.jit.script(outer)"},
        {"below": "fast = torch.jit.script(outer)\nfast(torch.ones(1))"},
    ],
)
def test_a_function_and_what_it_calls(slots: dict[str, str]) -> None:
    assert names(FUNCTION.format_map({"decorator": "", "below": "", **slots})) == {"outer", "inner"}


def test_a_method_of_a_script_module() -> None:
    text = """\
    import torch
    class Net(torch.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.n = 2
        @torch.jit.script_method
        def forward(self, x):
            return x * self.n
    print(Net()(torch.ones(1)))
    """
    assert names(text) == {"forward"}


def test_the_methods_of_a_class() -> None:
    text = """\
    import torch
    @torch.jit.script
    class Scale:
        def __init__(self, n: int):
            self.n = n
        def of(self, x):
            return x * self.n
    print(Scale(2).of(torch.ones(1)))
    """
    assert names(text) == {"__init__", "of"}
