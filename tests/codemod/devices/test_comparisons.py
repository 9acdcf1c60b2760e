"""Comparisons of the script's device with a named GPU: the accelerator's has a number, another one in each process."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.devices.comparisons import Comparison
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated

PARSED = 'import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument("--device", default="cuda:0")\n'
OPTION = f"{PARSED}args = parser.parse_args()\ndevice = torch.device(args.device)"
CUDA = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'
FIRST = 'device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")'
TEXT = 'device = "cuda:0" if torch.cuda.is_available() else "cpu"'
LOOP = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
{device}
{before}
loader = DataLoader(rows, batch_size=2)
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    x = x.to(device)
    {within}
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
print(device)
"""


def loop(device: str, *, before: str = "", within: str = "pass") -> str:
    """A script that chooses a device, and compares it."""
    return LOOP.format(device=device, before=before, within=within)


def compared(device: str, test: str) -> list[tuple[str, bool]]:
    """The comparisons found in a condition, and whether they ask for any GPU."""
    found: tuple[Comparison, ...] = Facts(loop(device, before=f"pinned = {test}")).script.devices.comparisons
    return [(ast.unparse(c.node), c.is_any) for c in found]


@pytest.mark.parametrize(
    ("device", "test", "after"),
    [
        (CUDA, 'device == torch.device("cuda")', 'device.type == "cuda"'),
        (CUDA, 'str(device) == "cuda"', 'device.type == "cuda"'),
        (FIRST, 'torch.device("cuda:0") != device', '"cuda" != device.type'),
        (FIRST, 'device == torch.device("cuda", 0)', 'device.type == "cuda"'),
        (FIRST, 'str(device) == "cuda:0"', 'device.type == "cuda"'),
        (FIRST, "device.index == 0", 'device.type == "cuda"'),
        (TEXT, 'device == "cuda:0"', 'device == "cuda"'),
        (TEXT, 'str(device) == "cuda:0"', 'device.type == "cuda"'),
    ],
)
def test_a_comparison_with_the_scripts_own_gpu_asks_for_any(device: str, test: str, after: str) -> None:
    assert f"pinned = {after}\n" in migrated(loop(device, before=f"pinned = {test}"))


def test_a_tensor_knows_the_number_of_its_gpu() -> None:
    text = migrated(loop(CUDA, within='print(x.device == torch.device("cuda:0"), x.device.index == 0)'))
    assert 'print(x.device.type == "cuda", x.device.type == "cuda")' in text


@pytest.mark.parametrize(
    "test",
    ['device == torch.device("cpu")', 'device.type == "cuda"', '"cuda" in str(device)', "size == 0", "device is None"],
)
def test_a_comparison_with_the_same_answer_is_left_alone(test: str) -> None:
    assert compared(FIRST, test) == []


def test_the_type_of_the_device_is_compared_already() -> None:
    assert compared(TEXT.replace(":0", ""), 'device == "cuda"') == []


def test_a_comparison_that_is_false_in_the_plain_script_stays_so() -> None:
    assert compared(FIRST, 'device == torch.device("cuda")') == []
    assert compared(TEXT, 'device == torch.device("cuda:0")') == []


@pytest.mark.parametrize("test", ['device == torch.device("cuda:0")', 'str(device) == "cuda:1"', "device.index == 1"])
def test_a_gpu_that_an_option_may_name_is_reported(test: str) -> None:
    assert compared(OPTION, test) == [(ast.unparse(ast.parse(test)), False)]


def test_a_class_in_another_file_gets_the_device() -> None:
    config = """\
    import torch
    class Config:
        def __init__(self, device):
            self.device = device
            self.workers = 4 if device == torch.device("cuda:0") else 0
        def pinned(self):
            return str(self.device) == "cuda:0"
    """
    text = loop(f"from config import Config\n{FIRST}", before="config = Config(device)\nconfig.pinned()")
    found = Facts({"main.py": text, "config.py": config}).script.devices.comparisons
    assert [(ast.unparse(c.device), c.is_any) for c in found] == [("device", True), ("self.device", True)]


@pytest.mark.parametrize(
    ("device", "default", "test", "found"),
    [
        (CUDA, "'cuda'", "where == 'cuda'", []),
        (CUDA, "'cuda'", "where != 'cuda'", []),
        (FIRST, "'cuda:0'", "where == 'cuda:0'", []),
        (CUDA, "torch.device('cuda')", "where == 'cuda'", []),
        (CUDA, "'cpu'", "where == torch.device('cuda')", [("where == torch.device('cuda')", True)]),
        (TEXT, "'cuda:0'", "where == 'cuda:0'", [("where == 'cuda:0'", True)]),
    ],
)
def test_the_default_of_a_parameter_is_no_device_of_the_script(
    device: str, default: str, test: str, found: list[tuple[str, bool]]
) -> None:
    before = f"def jitter(where={default}):\n    return {test}\njitter(device)"
    comparisons = Facts(loop(device, before=before)).script.devices.comparisons
    assert [(ast.unparse(c.node), c.is_any) for c in comparisons] == found


@pytest.mark.parametrize("default", ["'cpu'", "None"])
@pytest.mark.parametrize("test", ["str(where) == 'cuda'", "where == torch.device('cuda')"])
@pytest.mark.parametrize(
    ("call", "asked"), [("jitter()", 'str(where).split(":")[0]'), ("jitter(device)", "where.type")]
)
def test_a_device_that_a_call_leaves_at_its_default_is_text_there(
    default: str, test: str, call: str, asked: str
) -> None:
    before = f"def jitter(where={default}):\n    return {test}\njitter(device); {call}"
    assert f'return {asked} == "cuda"\n' in migrated(loop(CUDA, before=before))
