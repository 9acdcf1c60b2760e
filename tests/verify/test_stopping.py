"""A verify that is told to stop leaves nothing behind: no process, no folder, the project as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from accelify.verify.inside.server import kill
from tests.launch.conftest import PATIENCE, Shell, wait_until

SLOW = """\
import time
import torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        time.sleep(600)

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(Slow(), num_workers=1):
    loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_rank_that_leads_no_group_yet_is_ended_too() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    kill(process.pid)
    assert process.wait(PATIENCE) == -signal.SIGKILL


@pytest.fixture
def verifying(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path / "project", uuid.uuid4().hex, tmp_path / "tmp")
    shell.folder.mkdir()
    shell.temporary.mkdir()
    yield shell
    for pid in shell.processes():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("command", "number"),
    [("verify", signal.SIGINT), ("verify", signal.SIGTERM), ("rewrite --verify --no-cache", signal.SIGHUP)],
)
def test_a_signal_leaves_nothing_behind(verifying: Shell, command: str, number: signal.Signals) -> None:
    script = verifying.script(SLOW)
    process = verifying.start(*command.split(), "train.py")
    wait_until(lambda: len(verifying.processes()) == 4, "the command, its server, a rank and the rank's worker")
    assert list(verifying.temporary.glob("accelify-verify-*"))
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert f"stopped by {number.name}" in err
    assert "Traceback" not in err
    assert list(verifying.temporary.iterdir()) == []
    wait_until(lambda: not verifying.processes(), "every process to be gone")
    assert script.read_text() == SLOW
    assert [path for path in verifying.folder.iterdir() if path.name != ".accelify_cache"] == [script]
