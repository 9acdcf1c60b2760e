"""Moves to a GPU that stay in changed files, where the accelerator does not reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.result import FileResult
from tests.codemod.pairs import migrated, run
from tests.codemod.test_importers import rewritten

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


{function}


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(rows):
        optimizer.zero_grad()
        loss = model(x.to(device)).mean()
        loss.backward()
        optimizer.step()
{call}


if __name__ == "__main__":
    main()
"""


def noted(function: str, call: str = "    print(loss.item())") -> dict[int, str]:
    """What is said of lines by the rule."""
    result: FileResult = run(SCRIPT.format(function=function, call=call))
    said = (n for n in result.notes if n.rule == "elsewhere")
    return {line: words for n in said for line, words in ((n.line, n.message), *n.also)}


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("def show(net, x, device):\n    return net(x.to(device))", "    print(show(model, x, device))"),
        ("def show(net, x, device):\n    return net(x.to(device))", ""),
        ("def show(net, x):\n    return net(x.cpu())", "    print(show(model, x))"),
        ("def show(a, b):\n    return a.to(b.device)", "    print(show(x, loss))"),
        ("def shift(x):\n    return x.cuda() + 1", "    print(shift(torch.ones(1)))"),
        ("def shift(x):\n    return torch.zeros(3, device='cuda') + x", "    print(shift(loss))"),
        ("def show(net, x):\n    return net(x.cuda())", ""),
    ],
)
def test_what_is_right_as_it_stands_is_not_listed(function: str, call: str) -> None:
    assert not noted(function, call)


BASE = """\
import torch
class Base:
    def __init__(self):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = self.build().to(self.device)
"""
OWN = """\
import torch
from base import Base
from torch.utils.data import DataLoader
class Own(Base):
    def build(self):
        return torch.nn.Linear(4, 1)
    def fit(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for x in DataLoader(rows):
            optimizer.zero_grad()
            noise = torch.randn(1).to(self.device)
            loss = self.model(x.to(self.device) + noise).mean()
            loss.backward()
            optimizer.step()
        {more}
Own().fit()
"""


def test_a_device_of_another_file_is_the_accelerators_by_its_name(tmp_path: Path) -> None:
    own = OWN.format(more="return self.model(torch.ones(4).to(self.device))")
    after = rewritten(tmp_path, "own.py", own=own, base=BASE)["own.py"].after.decode()
    assert "noise = torch.randn(1).to(accelerator.device)\n" in after
    assert "torch.ones(4).to(accelerator.device)" in after


def test_a_device_of_another_file_that_is_read_otherwise_keeps_its_name(tmp_path: Path) -> None:
    own = OWN.format(more="return torch.ones(4, device=self.device)")
    after = rewritten(tmp_path, "own.py", own=own, base=BASE)["own.py"].after.decode()
    assert "noise = torch.randn(1).to(self.device)\n" in after


def test_a_device_of_the_same_file_keeps_its_name() -> None:
    own = OWN.format(more="return None").replace("from base import Base\n", BASE.removeprefix("import torch\n"))
    assert "noise = torch.randn(1).to(self.device)\n" in migrated(own)


IMPORTED = """\
import torch
from config import where
from torch.utils.data import DataLoader
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(rows):
    optimizer.zero_grad()
    loss = model(x.cuda()).mean()
    loss.backward()
    optimizer.step()
noise = torch.randn(1).to(where)
"""


@pytest.mark.parametrize(
    ("device", "moved"),
    [
        ('torch.device("cuda" if torch.cuda.is_available() else "cpu")', "accelerator.device"),
        ('"cuda"', "accelerator.device"),
        ('torch.device("cpu")', "where"),
    ],
)
def test_an_imported_device_is_the_accelerators_unless_it_is_the_cpu(tmp_path: Path, device: str, moved: str) -> None:
    config = f"import torch\nwhere = {device}\n"
    after = rewritten(tmp_path, "own.py", own=IMPORTED, config=config)["own.py"].after.decode()
    assert f"noise = torch.randn(1).to({moved})\n" in after
    assert ("import where" in after) is (moved == "where")


IF_THERE_IS_ONE = 'torch.ones(1, device="cuda" if torch.cuda.is_available() else "cpu")'


@pytest.mark.parametrize(
    ("device", "made"),
    [
        ("0", 'torch.ones(1, device="cuda")'),
        ("0 if torch.cuda.is_available() else -1", IF_THERE_IS_ONE),
        ("0 if torch.cuda.is_available() else 'cpu'", IF_THERE_IS_ONE),
    ],
)
def test_a_number_that_stands_for_the_cpu_too_is_chosen_by_whether_there_is_a_gpu(
    tmp_path: Path, device: str, made: str
) -> None:
    helper = f"import torch\ndef start():\n    device = {device}\n    return torch.ones(1, device=device)\n"
    text = SCRIPT.format(function="from helper import start", call="    print(loss + start())")
    found = rewritten(tmp_path, "main.py", main=text, helper=helper)
    assert f"return {made}\n" in found["helper.py"].after.decode()


def test_without_torch_such_a_number_is_left(tmp_path: Path) -> None:
    helper = "from torch import cuda, ones\ndef start():\n    device = 0 if cuda.is_available() else -1\n"
    text = SCRIPT.format(function="from helper import start", call="    print(loss + start())")
    found = rewritten(tmp_path, "main.py", main=text, helper=f"{helper}    return ones(1, device=device)\n")
    assert "helper.py" not in found or b"device=device" in found["helper.py"].after
