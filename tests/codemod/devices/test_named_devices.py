"""Facts about options of the script that name the device of a call."""

from __future__ import annotations

import pytest

from accelify.codemod.devices.options import NamedDevices
from tests.codemod.facts import texts
from tests.codemod.pairs import run
from tests.codemod.training_scripts import training

IMPORTS = "import argparse\n"
BEFORE = "args = argparse.ArgumentParser().parse_args()\n"


@pytest.mark.parametrize(
    ("before", "end", "named"),
    [
        ("", "z = torch.zeros(3).to(args.device)\n", ["args.device"]),
        ("", "z = torch.zeros(3, device=args.device)\n", ["args.device"]),
        ("args.device = 'cuda'\n", "z = torch.zeros(3, device=args.device)\n", []),
        ("", "z = torch.zeros(3, device='cuda')\n", []),
        ("", "z = other(args.path)\n", []),
    ],
)
def test_options_that_name_a_device(before: str, end: str, named: list[str]) -> None:
    facts = training(imports=IMPORTS, before=BEFORE + before, end=end)
    moves = [m for m in facts.script.devices.moves if not facts.script.devices.is_needless(m)]
    found = NamedDevices(facts.program, facts.tracer, {"main.py"}, moves).find()
    assert sorted(texts(found)) == named


CHOSEN = """\
import argparse
import torch
from torch import nn
from elsewhere import load

def main(args):
    graph = load("cora")
    {chosen}
    model = nn.Linear(4, 1)
    if cuda:
        model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        loss = model(graph.nodes).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=-1)
main(parser.parse_args())
"""
CHOICE = "if args.gpu < 0:\n        cuda = False\n    else:\n        cuda = True"


@pytest.mark.parametrize(
    ("moved", "there"),
    [
        ("graph = graph.to(args.gpu)", "graph = graph.to(accelerator.device)"),
        ("graph = graph.int().to(args.gpu)", "graph = graph.int().to(accelerator.device)"),
        ("graph = load('pubmed', device=args.gpu)", "graph = load('pubmed', device=accelerator.device)"),
    ],
)
def test_what_an_option_moves_before_all_of_its_choice_is_made(moved: str, there: str) -> None:
    after = run(CHOSEN.format(chosen=f"{CHOICE}\n        {moved}")).after.decode()
    assert "def main(args):\n    accelerator = Accelerator(cpu=args.gpu < 0)\n" in after
    assert f"        cuda = True\n        {there}\n" in after


def test_a_choice_that_moves_nothing_is_made_first() -> None:
    after = run(CHOSEN.format(chosen=CHOICE)).after.decode()
    assert f"    {CHOICE}\n    accelerator = Accelerator(cpu=not cuda)\n" in after
