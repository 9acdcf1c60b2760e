"""A script that can go on from a checkpoint is made to, where it is seen how; and what goes wrong there is found."""

from __future__ import annotations

import pytest

from accelify.verify.verdict import RESUME, Row, Status, Verdict, Which
from tests.verify.conftest import Prove, differing

ORIGINAL = """\
import argparse
import os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--checkpoint-every", type=int, default=1)
{option}
args = parser.parse_args()
torch.manual_seed(0)
rows = torch.randn(40, 4)
loader = DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
first = 0
if {asks}:
    state = torch.load({path})
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["epoch"]
for epoch in range(first, args.epochs):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    state = {{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + {ahead}}}
    torch.save(state, "last.pt")
"""
WAYS = {
    "an option": ('parser.add_argument("--resume")', "args.resume", "args.resume", "with --resume last.pt"),
    "a flag": (
        'parser.add_argument("-r", "--resume", action="store_true")',
        "args.resume",
        '"last.pt"',
        "with --resume",
    ),
    "another name": (
        'parser.add_argument("--weights", default="")',
        "args.weights",
        "args.weights",
        "with --weights last.pt",
    ),
    "a file that it looks for": ("", 'os.path.isfile("last.pt")', '"last.pt"', "from the files that it left"),
}


def scripts(way: str, ahead: int = 1) -> tuple[str, str]:
    """The script, and the same migrated."""
    option, asks, path, _ = WAYS[way]
    original = ORIGINAL.format(option=option, asks=asks, path=path, ahead=ahead)
    text = original.replace("import torch\n", "import torch\nfrom accelify.runtime import Accelerator\n", 1)
    text = text.replace("torch.manual_seed", "accelerator = Accelerator()\ntorch.manual_seed", 1)
    prepared = "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)\nfirst = 0"
    text = text.replace("loss.backward()", "accelerator.backward(loss)").replace("torch.save", "accelerator.save")
    return original, text.replace("first = 0", prepared, 1)


def resumed(verdict: Verdict) -> list[Row]:
    return [row for row in verdict.rows if row.run in (Which.RESUMED, Which.RESUMED_TOGETHER)]


@pytest.mark.parametrize("way", WAYS)
def test_it_goes_on_from_its_first_checkpoint(way: str, proving: Prove) -> None:
    verdict = proving(*scripts(way))
    assert differing(verdict) == []
    assert verdict.resumed_by == WAYS[way][3]
    assert RESUME not in verdict.not_reached
    found = {(row.name, row.processes): row.status for row in resumed(verdict)}
    assert {found[name, 1] for name in ("start", "losses", "parameters")} == {Status.HOLDS}
    assert {found[name, 2] for name in ("ranks agree", "losses", "gradients", "parameters")} == {Status.HOLDS}
    assert [words for run, words, _ in verdict.parts if run is Which.RESUMED] == [
        f"one process, resumed {WAYS[way][3]}, against the original"
    ]


FAULTS = {
    "a state that is not loaded": ('    optimizer.load_state_dict(state["optimizer"])\n', ""),
    "weights that are loaded into a copy": (
        "    model.load_state_dict(",
        "    __import__('copy').deepcopy(model).load_state_dict(",
    ),
    "weights of rank 0 alone": (
        "    model.load_state_dict(",
        "    accelerator.is_main_process and model.load_state_dict(",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_only_there_is_found(fault: str, proving: Prove) -> None:
    original, text = scripts("an option")
    old, new = FAULTS[fault]
    assert old in text
    verdict = proving(original, text.replace(old, new))
    assert verdict.status == 1
    assert all(row in resumed(verdict) for row in verdict.rows if row.status is Status.DIFFERS)


def test_a_checkpoint_after_which_nothing_is_left_reaches_no_resume(proving: Prove) -> None:
    verdict = proving(*scripts("an option", ahead=3))
    assert differing(verdict) == []
    assert RESUME in verdict.not_reached
    assert resumed(verdict) == []
