"""What stays in files that change for another reason, and what of it is listed."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.edits.values import When
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
    return [f"{facts.script.program.line(r.node)}" for r in elsewhere.find(facts.script)]


def test_a_move_to_the_first_gpu_is_listed() -> None:
    assert listed("cuda()") == ["9"]


def test_a_move_to_a_number_becomes_one_to_the_process_s_own() -> None:
    assert listed("cuda(0)") == []


def test_a_move_to_the_device_that_is_handed_on_is_not() -> None:
    assert listed("to(self.device)") == []


LOSS = """\
import torch
from torch import nn

class Loss(nn.Module):
    def forward(self, y, x):
        return ((y - x) @ self.margin({move})).mean()

    def margin(self, rows):
        return rows

    def unused(self):
        return torch.eye(4).cuda()
"""


@pytest.mark.parametrize(
    ("move", "is_said"),
    [
        ("torch.eye(4).cuda()", True),
        ("torch.eye(4).to('cuda')", True),
        ("torch.eye(4).to(x.device)", False),
        ('torch.eye(4).to("cpu")', False),
        ("torch.eye(4).cuda() if x.is_cuda else torch.eye(4)", False),
        ("torch.eye(4) if not x.is_cuda else torch.eye(4, device='cuda')", False),
    ],
)
def test_what_the_training_moves_in_a_file_that_stays_as_it_is(move: str, is_said: bool) -> None:
    main = script(imports="from losses import Loss", step=STEP.replace("nn.functional.mse_loss", "Loss()"))
    facts = Facts({"main.py": main, "losses.py": LOSS.format(move=move)})
    found = [r for r in elsewhere.find(facts.script) if r.when is When.KEPT]
    assert [ast.unparse(r.node) for r in found] == ([move] if is_said else [])
    assert all("even with `accelify launch --cpu`" in r.message for r in found)


HELPER = """\
import torch

def evaluate(model, rows, use_cuda):
    if {test}:
        rows = rows.cuda()
    return model(rows)
"""


@pytest.mark.parametrize(
    ("asked", "test", "is_said"),
    [
        ("torch.cuda.is_available()", "use_cuda", False),
        ("torch.cuda.device_count() > 0", "use_cuda", False),
        ("True", "use_cuda", True),
        ("True", "use_cuda and next(model.parameters()).is_cuda", False),
        ("torch.cuda.is_available()", "not use_cuda", True),
    ],
)
def test_what_is_moved_only_where_there_is_a_gpu(asked: str, test: str, is_said: bool) -> None:
    step = f"{STEP}evaluate(model, x, {asked})\n"
    main = script(imports="from helpers import evaluate", step=step)
    facts = Facts({"main.py": main, "helpers.py": HELPER.format(test=test)})
    found = [r for r in elsewhere.find(facts.script) if r.when is When.KEPT]
    assert [ast.unparse(r.node) for r in found] == ["rows.cuda()"] * is_said


@pytest.mark.parametrize(
    ("body", "is_said"),
    [
        ("return x + torch.rand(3).to(x.device)", False),
        ("weight = next(model.parameters())\n    return x + torch.rand(3).to(weight.device)", False),
        ("place = x.device\n    return x + torch.rand(3).to(place)", False),
        ("return x + torch.rand(3).cuda()", True),
    ],
)
def test_what_goes_to_where_another_is_needs_no_note(body: str, is_said: bool) -> None:
    helper = f"import torch\n\ndef noised(model, x):\n    {body}\n"
    main = script(imports="from helpers import noised", step=f"{STEP}noised(model, x)\n")
    found = list(elsewhere.find(Facts({"main.py": main, "helpers.py": helper}).script))
    assert bool(found) is is_said
