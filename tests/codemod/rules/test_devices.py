"""The script's own devices get the accelerator's, wherever what is moved to them goes by that."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.rewrite import Options, rewrite_together
from tests import scripts
from tests.codemod.pairs import run

TRAINER = """\
import torch

class Trainer:
    def __init__(self, model, optimizer, device):
        self.optimizer = optimizer
        self.device = {chosen}
        self.model = model.to(self.device)

    def train(self, loader):
        for x, y in loader:
            x, y = x.to(self.device), y.to(self.device)
            self.optimizer.zero_grad()
            (self.model(x) - y).pow(2).mean().backward()
            self.optimizer.step()
"""
ENTRY = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
from trainer import Trainer

config = {{"device": "cpu"}}
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.rand(8, 4), torch.rand(8, 1)), 2)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
Trainer(model, optimizer, {given}).train(loader)
"""
ON_CPU = 'torch.device("cuda" if torch.cuda.is_available() and device == "cuda" else "cpu")'


@pytest.mark.parametrize(
    ("chosen", "other", "is_kept"),
    [
        (ON_CPU, "**config", True),
        ("torch.device('cuda' if device == 'cuda' else 'cpu')", "**{**config}", True),
        (ON_CPU, "config['device']", False),
        ("torch.device('cuda' if torch.cuda.is_available() else 'cpu')", "**config", None),
    ],
)
def test_a_class_has_the_device_that_its_batches_are_on(
    chosen: str, other: str, is_kept: bool | None, tmp_path: Path
) -> None:
    files = {"trainer.py": TRAINER.format(chosen=chosen), "a.py": ENTRY.format(given="device")}
    files["b.py"] = ENTRY.format(given=other)
    scripts.write(tmp_path, {name: text.encode() for name, text in files.items()})
    with scripts.inside(tmp_path):
        results = {r.path: r for r in rewrite_together(("a.py", "b.py"), Options())}
    after = results["trainer.py"].after.decode()
    assert "self.device = self.accelerator.device\n" in after
    assert "x, y = " not in after
    assert ("device, accelerator):" in after) is (is_kept is not False)
    notes = [n.message for n in results["trainer.py"].notes if n.rule == "unused"]
    message = "`device` is kept for the call of `Trainer` in b.py, but has no effect any more"
    assert notes == ([message] if is_kept else [])


OVERWRITTEN = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

def main(debug=False, *, device{default}):
    if {test}:
        device = "cpu"
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.rand(8, 4)), 2)
    for (x,) in loader:
        x = x.to(device)
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()

main({given})
"""


@pytest.mark.parametrize(
    ("default", "test", "given", "created", "is_gone"),
    [
        ("='cuda:0'", "debug", "True", "cpu=debug", True),
        (": str = 'cuda:0'", "not torch.cuda.is_available()", "", "", True),
        ("=None", "debug", "device='cuda'", "cpu=debug", False),
        ("", "debug", "device=input()", None, False),
    ],
)
def test_a_parameter_that_a_branch_overwrites_is_a_device(
    default: str, test: str, given: str, created: str | None, is_gone: bool
) -> None:
    after = run(OVERWRITTEN.format(default=default, test=test, given=given)).after.decode()
    assert f"    accelerator = Accelerator({created})\n" in after if created is not None else "cpu=" not in after
    assert ("device" not in after) is is_gone


CHOOSER = """\
import torch

def choose():
    if torch.cuda.is_available():
        device = {device}
        torch.cuda.{call}
        return device
    return torch.device("cpu")
"""


@pytest.mark.parametrize(
    ("device", "call", "chosen"),
    [
        ('torch.device("cuda:0")', "set_per_process_memory_fraction(0.9, device=device)", "PartialState().device"),
        ('torch.device("cuda", 0)', "set_per_process_memory_fraction(0.9, device)", "PartialState().device"),
        ('torch.device("cuda:0")', "get_device_name(device)", 'torch.device("cuda")'),
    ],
)
def test_devices_whose_number_a_helper_needs(
    device: str, call: str, chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chooser.py").write_text(CHOOSER.format(device=device, call=call))
    (tmp_path / "train.py").write_text(
        """\
import torch
from torch.utils.data import DataLoader, TensorDataset
from chooser import choose

device = choose()
loader = DataLoader(TensorDataset(torch.rand(8, 4), torch.rand(8, 1)), 2)
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    (model(x.to(device)) - y.to(device)).pow(2).mean().backward()
    optimizer.step()
"""
    )
    helper = {r.path: r for r in rewrite_together(("train.py",), Options())}["chooser.py"]
    assert f"{chosen}\n" in helper.after.decode()


PARSED = """\
import argparse
{imports}

def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=0)
    args = parser.parse_args()
    args.device = {device}
    return args
"""
BY_ARGUMENTS = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
from parsed import parse

args = parse()
loader = DataLoader(TensorDataset(torch.rand(8, 4), torch.rand(8, 1)), 2)
model = torch.nn.Linear(4, 1).to(args.device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    (model(x.to(args.device)) - y.to(args.device)).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("imports", "device", "imported", "chosen"),
    [
        ("import torch\n", "torch.device(args.gpu)", "import torch\n", 'torch.device("cuda")'),
        ("import torch as T\n", 'T.device("cuda", args.gpu)', "import torch as T\n", 'T.device("cuda")'),
        ("from torch import device\n", 'device("cuda", args.gpu)', "from torch import device\n", 'device("cuda")'),
        (
            "import torch\nfrom os import getpid\n",
            'torch.device("cuda", getpid() % 2)',
            "import torch\n",
            'torch.device("cuda")',
        ),
        ("import torch\n", 'torch.device("cuda")', None, None),
    ],
)
def test_only_the_number_of_a_device_goes(
    imports: str, device: str, imported: str | None, chosen: str | None, tmp_path: Path
) -> None:
    files = {"parsed.py": PARSED.format(imports=imports, device=device), "train.py": BY_ARGUMENTS}
    scripts.write(tmp_path, {name: text.encode() for name, text in files.items()})
    with scripts.inside(tmp_path):
        results = {r.path: r for r in rewrite_together(("train.py",), Options())}
    assert "accelerator.backward" in results["train.py"].after.decode()
    assert ("parsed.py" in results and results["parsed.py"].changes != ()) is (chosen is not None)
    if chosen is not None:
        assert results["parsed.py"].after.decode() == PARSED.format(imports=imported, device=chosen)


BLOCK = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=0)
args = parser.parse_args()
if not torch.cuda.is_available():
    args.gpu = -1
other = torch.ones(1)
loader = DataLoader(TensorDataset(torch.rand(8, 4), torch.rand(8, 1)), 2)
model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{block}:
    for x, y in loader:
        (model(x.cuda()) - y.cuda()).pow(2).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("block", "is_left"),
    [
        ("with torch.cuda.device(args.gpu)", False),
        ("with torch.cuda.device(int(args.gpu))", False),
        ("with torch.cuda.device('cuda:%d' % args.gpu)", False),
        ("with torch.cuda.device(0)", False),
        ("with torch.cuda.device(other.device)", True),
        ("with torch.cuda.device(args.gpu), torch.enable_grad()", True),
        ("with torch.enable_grad()", True),
    ],
)
def test_a_block_in_which_one_gpu_is_current_stays_without_that(block: str, is_left: bool) -> None:
    result = run(BLOCK.format(block=block))
    assert (f"{block}:" in result.after.decode()) == is_left
    assert any("current GPU" in n.message for n in result.notes) == ("), torch" in block)


ABOVE_MAIN = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

args = argparse.Namespace()
device = {device}
use_cuda = torch.cuda.is_available()

def main():
    loader = DataLoader(TensorDataset(torch.rand(8, 4), torch.rand(8, 1)), 2)
    {made}
    model = nn.Linear(4, 1)
    {moved}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        x = x.to(device)
        loss = nn.functional.mse_loss(model({x}), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(device, use_cuda)

main()
"""
PLACED = "    accelerator = Accelerator()\n    device = accelerator.device\n"


def above_main(**slots: str) -> str:
    return ABOVE_MAIN.format(**{"device": 'torch.device("cpu")', "made": "pass", "moved": "pass", "x": "x", **slots})


@pytest.mark.parametrize(
    ("slots", "created"),
    [
        ({}, PLACED),
        ({"device": '"cpu"', "made": "lengths = torch.ones(3, device=device)"}, PLACED),
        ({"made": "print(torch.ones(3, device=args.dev))"}, PLACED),
        ({"made": "print(torch.ones(3, device='cuda'))"}, PLACED),
    ],
)
def test_a_model_goes_where_the_device_of_its_batches_is_set_below(slots: dict[str, str], created: str) -> None:
    result = run(above_main(**slots))
    assert created in result.after.decode()
    assert any("no longer keeps the training on the CPU" in note.message for note in result.notes)
    assert not any("use `accelerator.device`" in note.message for note in result.notes)


def test_a_model_that_moves_at_times_stays_where_it_is() -> None:
    text = above_main(device='"cuda"', moved="if len(input()) > 1:\n        model.cuda()", made="state = input()")
    assert "Accelerator(device_placement=False)" in run(text).after.decode()
