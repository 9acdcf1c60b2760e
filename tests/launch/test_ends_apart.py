"""Ranks that draw their own data, and so take different numbers of steps."""

from __future__ import annotations

import textwrap

import pytest

from tests.launch.conftest import Shell

TRAIN = """
import torch
from accelify.runtime import Accelerator

accelerator = Accelerator()
rank = accelerator.process_index
model = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.zeros_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
model, optimizer = accelerator.prepare(model, optimizer)
accelerator.seed_by_rank()
for step in range(2 + 3 * rank):
    optimizer.zero_grad()
    accelerator.backward(model(torch.full((1, 1), 1.0 + rank)).sum())
    optimizer.step()
"""


@pytest.mark.parametrize("is_local", [False, True], ids=["module", "function"])
def test_a_rank_that_has_ended_does_not_keep_the_others_from_theirs(shell: Shell, is_local: bool) -> None:
    text = TRAIN + "open(f'weight-{rank}', 'w').write(str(model.weight.item()))\n"
    shell.script(f"def main():\n{textwrap.indent(text, '    ')}\nmain()\n" if is_local else text)
    launched = shell.launch("--cpu", "--num-processes", "2", "train.py")
    assert launched.returncode == 0, launched.stderr
    weights = [float((shell.folder / f"weight-{rank}").read_text()) for rank in (0, 1)]
    # Two steps along the mean of 1 and 2; then three more of rank 1 along its own 2.
    assert weights == [-3.0, -9.0]


def test_a_rank_that_fails_does_not_wait_for_the_others(shell: Shell) -> None:
    shell.script(TRAIN + "if rank == 0:\n    raise SystemExit(3)\n")
    launched = shell.launch("--cpu", "--num-processes", "2", "train.py")
    assert launched.returncode == 3
    assert "rank 0" in launched.stderr


def test_a_rank_that_fails_and_takes_long_to_end_has_failed_first(shell: Shell) -> None:
    slow = "import atexit, time\natexit.register(time.sleep, 3)\n"
    shell.script(slow + TRAIN + "if rank == 0:\n    raise SystemExit(3)\n")
    launched = shell.launch("--cpu", "--num-processes", "2", "train.py")
    assert launched.returncode == 3
    assert "rank 0" in launched.stderr.split("failed first")[0].splitlines()[-1]


def test_what_follows_the_training_together_is_told_apart(shell: Shell) -> None:
    shell.script(TRAIN + "accelerator.gather(model.weight.detach())\n")
    launched = shell.launch("--cpu", "--num-processes", "2", "train.py")
    assert launched.returncode == 1
    assert "the ranks disagree: rank 0 train.py:16 gather" in launched.stderr
    assert "rank 1 train.py:14 backward" in launched.stderr
