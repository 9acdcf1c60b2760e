"""`accelify why FILE:LINE` prints the facts behind a line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from accelify.codemod.result import Status
from accelify.codemod.rewrite import Options, rewrite_together
from accelify.commands.why import command
from tests.codemod.notebooks import CELLS, content, written

SCRIPT = """\
import torch
from layers import Net
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda")
net = Net().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
for (x,) in loader:
    loss = net(x.to(device)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LAYERS = """\
from torch import nn


class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 1)
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)
    Path("layers.py").write_text(LAYERS)


def asked(place: str) -> list[str]:
    answer = CliRunner().invoke(command, [place])
    assert answer.exit_code == 0, answer.output
    return answer.output.splitlines()


def test_a_changed_line_tells_its_rule_and_what_its_names_hold_wherever_that_comes_from() -> None:
    rule, net, device = asked("train.py:6")
    assert rule == "device_moves: `prepare` moves the model to the device"
    assert net == "net: model, Net(torch.nn.Linear) at layers.py:4, given to torch.optim.SGD at train.py:7; prepared"
    assert device == "device: device, torch.device at train.py:5"


def test_a_batch_is_told_with_its_loader() -> None:
    batch = "x: (part of) a batch of torch.utils.data.DataLoader at train.py:8; always from a prepared loader"
    assert batch in asked("train.py:10")


def test_a_line_without_anything_to_migrate_says_so() -> None:
    assert asked("train.py:4") == ["nothing on this line matters to a migration"]
    assert asked("layers.py:6") == ["there is no training loop in this file, so nothing would change"]


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("train.py", "no FILE:LINE"),
        ("absent.py:1", "absent.py: error: cannot be read"),
        ("train.py:99", "no line 99: it has 13 lines"),
    ],
)
def test_a_place_that_is_none_is_an_error_in_one_line(place: str, told: str) -> None:
    answer = CliRunner().invoke(command, [place])
    assert answer.exit_code == 2
    assert told in answer.output
    assert answer.output.count("\n") == 1


def test_the_report_gives_the_same_facts_as_evidence() -> None:
    (result,) = rewrite_together(("train.py",), Options())
    moved = next(change for change in result.changes if change.line == 6)
    assert [f"{moved.rule}: {moved.reason}", *moved.evidence] == asked("train.py:6")


def test_a_file_that_is_declined_gives_evidence_too() -> None:
    Path("train.py").write_text(SCRIPT.replace("to(device)", "to('cuda:0')") + "    net.to('cuda:1')\n")
    (result,) = rewrite_together(("train.py",), Options())
    assert result.status is Status.DECLINED
    (note,) = result.notes
    assert note.evidence
    assert {f"{note.rule}: {note.message}", *note.evidence} <= set(asked(f"train.py:{note.line}"))


@pytest.mark.parametrize("line", ["book.ipynb:3:5", "book.ipynb:cell 3, line 5"])
def test_a_line_of_a_notebook_is_one_of_a_cell(line: str) -> None:
    Path("book.ipynb").write_bytes(written(content(*CELLS)))
    told, *_ = asked(line)
    assert told == "device_moves: `prepare` moves the model to the device"
    assert "device: device, torch.device at book.ipynb:cell 3, line 1" in asked(line)


@pytest.mark.parametrize("place", ["book.ipynb:5", "book.ipynb:1:1", "book.ipynb:3:99", "train.py:3:1"])
def test_a_place_that_a_notebook_or_a_script_has_not_is_an_error(place: str) -> None:
    Path("book.ipynb").write_bytes(written(content(*CELLS)))
    answer = CliRunner().invoke(command, [place])
    assert answer.exit_code == 2
    assert "write FILE:" in answer.output
