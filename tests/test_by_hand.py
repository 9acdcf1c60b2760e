"""A script that distributed itself computes the same numbers once the accelerator does, on one process and on two."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests import scripts
from tests.scripts import FIXTURES, MAIN

LIMIT = 120  # seconds


def start(folder: Path, *command: str) -> str:
    variables = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("processes", ["1", "2"])
def test_by_hand_and_by_the_accelerator_agree(processes: str, tmp_path: Path) -> None:
    before = scripts.read(FIXTURES / "scripts" / "torchrun", "before")
    by_hand, migrated = tmp_path / "by_hand", tmp_path / "migrated"
    scripts.write(by_hand, before)
    _, after = scripts.rewrite(migrated, before)
    scripts.write(migrated, after)
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes)
    wanted = start(by_hand, *torchrun, MAIN)
    launched = ("-m", "accelify", "launch", "--cpu", "--num-processes", processes)
    assert start(migrated, *(launched if processes != "1" else ()), MAIN) == wanted
    assert len(wanted.splitlines()) == 2
    ours, theirs = torch.load(migrated / "model.pt"), torch.load(by_hand / "model.pt")
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-5, atol=1e-6)
