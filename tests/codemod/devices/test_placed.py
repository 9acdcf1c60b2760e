"""Which devices calls name, and where other files of a project name one."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.devices.placed import named_by, places_elsewhere
from tests.codemod.facts import Facts, texts


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("torch.zeros(3, device=device)", ["device"]),
        ("torch.load('m.pt', map_location='cuda:0')", ["'cuda:0'"]),
        ("torch.load('m.pt', 'cuda:0')", ["'cuda:0'"]),
        ("torch.set_default_device('cuda')", ["'cuda'"]),
        ("torch.zeros(3)", []),
    ],
)
def test_the_devices_that_a_call_is_given(call: str, named: list[str]) -> None:
    facts = Facts(f"import torch\n{call}  # <- here")
    assert isinstance(facts.here, ast.Call)
    assert texts(named_by(facts.program, facts.here)) == named


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("x.to('cuda:1')", ["'cuda:1'"]),
        ("x + torch.ones(3, device='cuda:1')", ["'cuda:1'"]),
        ("x.to(torch.device('cuda'))", ["torch.device('cuda')", "torch.device('cuda')"]),
        ("x + 1", []),
    ],
)
def test_the_devices_that_other_files_name(body: str, named: list[str]) -> None:
    other = f"import torch\ndef bring(x):\n    return {body}\ndef unused(x):\n    return x.to('cuda:2')\n"
    facts = Facts({"main.py": "import torch\nfrom other import bring\nbring(torch.ones(3))\n", "other.py": other})
    assert texts(places_elsewhere(facts.program, {"main.py"})) == named


@pytest.mark.parametrize(("move", "named"), [("cuda(GPU)", ["GPU"]), ("to('cuda:0')", ["'cuda:0'"]), ("float()", [])])
def test_the_devices_that_a_networks_own_methods_name(move: str, named: list[str]) -> None:
    net = f"""\
import torch
GPU = 0
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
    def start(self, n):
        return torch.zeros(n).{move}
    def forward(self, x):
        return x + self.start(len(x))
class Unused(torch.nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, n):
        return torch.zeros(n).cuda(1)
"""
    main = "import torch\nfrom net import Net\nmodel = Net()\nmodel(torch.ones(3)).sum().backward()\n"
    facts = Facts({"main.py": main, "net.py": net})
    assert texts(places_elsewhere(facts.program, {"main.py"})) == named
