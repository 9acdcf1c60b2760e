"""What stays in files that change for another reason, and what of it is listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.options import Options
from accelify.codemod.result import Tier
from accelify.codemod.rewrite import rewrite_together
from accelify.codemod.rules import elsewhere
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import STEP, script

OTHER = """\
import torch

class Tester:
    def __init__(self, model, device):
        self.device = device
        self.model = model.to(self.device)

    def test(self, x):
        return self.model(x.{move})
"""


def listed(move: str) -> list[str]:
    """The messages for a file that the accelerator does not come to."""
    facts = Facts(
        {
            "main.py": script(
                imports="from tester import Tester",
                before="device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
                model="model.to(device)",
                step=STEP.replace("model(x), y", "model(x.to(device)), y.to(device)"),
                end="Tester(model, device).test(torch.zeros(1, 4))",
            ),
            "tester.py": OTHER.format(move=move),
        }
    )
    found = (r for r in elsewhere.find(facts.script) if r.tier is not Tier.INFO)
    return [f"{facts.script.program.line(r.node)}" for r in found]


def test_a_move_to_the_current_gpu_is_not_listed() -> None:
    assert listed("cuda()") == []


def test_a_move_to_a_number_becomes_one_to_the_process_s_own() -> None:
    assert listed("cuda(0)") == []


def test_a_move_to_the_device_that_is_handed_on_is_not() -> None:
    assert listed("to(self.device)") == []


@pytest.mark.parametrize(
    "body",
    [
        "return x + torch.rand(3).to(x.device)",
        "place = x.device\n    return x + torch.rand(3).to(place)",
        "return x + torch.rand(3).cuda()",
        "return x + torch.eye(3, device='cuda')",
    ],
)
def test_what_goes_to_where_another_is_or_to_the_current_gpu_needs_no_note(body: str) -> None:
    helper = f"import torch\n\ndef noised(model, x):\n    {body}\n"
    main = script(imports="from helpers import noised", step=f"{STEP}noised(model, x)\n")
    found = elsewhere.find(Facts({"main.py": main, "helpers.py": helper}).script)
    assert all(r.tier is Tier.INFO for r in found)


@pytest.mark.parametrize(
    ("device", "is_right"),
    [
        ("torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')", True),
        ("'cuda:0'", True),
        ("os.environ['PLACE']", False),
    ],
)
def test_a_number_that_is_taken_out_needs_no_note_where_it_is_read(device: str, is_right: bool) -> None:
    network = (
        f"import os\nimport torch\nfrom torch import nn\ndevice = {device}\nclass Net(nn.Linear):\n"
        "    def forward(self, x):\n        return super().forward(x) + torch.zeros(1).to(device)\n"
    )
    main = script(imports="from network import Net", model="model = Net(4, 1).cuda()")
    (remark,) = elsewhere.find(Facts({"main.py": main, "network.py": network}).script)
    assert (remark.tier is Tier.INFO) is is_right


ENGINE = """\
def train(model, loader, optimizer, device):
    for x, y in loader:
        loss = model(x.to(device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def report(model, device):
    model.to(device)
"""


@pytest.mark.parametrize(
    ("used", "named", "notes"),
    [
        ("", ["train.py"], 0),
        ("", ["train.py", "engine.py"], 1),
        ("report(model, choose())", ["train.py"], 1),
    ],
)
def test_a_move_in_a_function_that_the_training_does_not_run(
    used: str, named: list[str], notes: int, tmp_path: Path
) -> None:
    text = script(imports="from engine import report, train\nfrom places import choose", step="pass\n", end=used)
    text = text.replace("    for x, y in loader:\n        pass\n", "    train(model, loader, optimizer, 'cuda')\n")
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "engine.py").write_text(ENGINE)
    results = rewrite_together(tuple(str(tmp_path / name) for name in named), Options())
    assert {r.status for r in results} == {"migrated"}
    assert sum("make sure that it is" in n.message for r in results for n in r.notes) == notes


NUMBERED = """\
import argparse
from net import Net

def test(model, x, args):
    if args.gpu >= 0:
        x = {move}
    return model(x)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default={default})
    print(test(Net(), read(), parser.parse_args()))
"""


@pytest.mark.parametrize(
    ("move", "default", "notes"),
    [
        ("x.cuda(args.gpu)", "0", 1),
        ("x.float().cuda(args.gpu, non_blocking=True)", "0", 1),
        ("x.cuda(device=args.gpu)", "-1", 1),
        ("x.cuda()", "0", 0),
        ("x.to(next(model.parameters()).device)", "0", 0),
    ],
)
def test_a_function_of_another_script_that_takes_a_gpu_by_its_number(move: str, default: str, notes: int) -> None:
    options = "parser = argparse.ArgumentParser()\nparser.add_argument('--gpu', type=int, default=0)\n"
    main = script(
        imports="import argparse\nfrom test import test",
        before=f"{options}args = parser.parse_args()",
        model="model.cuda(args.gpu)",
        step=f"{STEP}test(model, x, args)\n",
    )
    files = {"main.py": main, "test.py": NUMBERED.format(move=move, default=default)}
    found = [r for r in elsewhere.find(Facts(files).script) if "the same GPU in every process" in r.message]
    assert len(found) == notes


def test_a_gpu_by_its_number_in_a_function_that_the_training_does_not_run() -> None:
    main = script(imports="from test import name", step=STEP)
    other = NUMBERED.format(move="x.cuda(args.gpu)", default=0) + "\nname = 'x'\n"
    found = elsewhere.find(Facts({"main.py": main, "test.py": other}).script)
    assert not any("the same GPU in every process" in r.message for r in found)
