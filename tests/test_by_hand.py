"""A script that distributed itself computes the same numbers once the accelerator does, on one process and on two."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests import forked, scripts
from tests.interpreters import PYTHONPATH
from tests.scripts import FIXTURES, MAIN

LIMIT = 600  # seconds; only a deadlock ever takes so long
ATTEMPTS = 10
VARIABLES = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": PYTHONPATH}


def start_by_hand(folder: Path, *command: str) -> str:
    """A script's own processes. DistributedDataParallel leaves gloo's threads to the end, which may abort a process."""
    for _ in range(ATTEMPTS - 1):
        try:
            return start(folder, *command)
        except AssertionError as error:  # noqa: PERF203  # each attempt is a run of its own
            if "terminate called without an active exception" not in str(error):
                raise
    return start(folder, *command)


def start(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **VARIABLES},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def launch(folder: Path, processes: str) -> str:
    """Run the script as so many ranks; the launcher is forked from one that has torch."""
    command = ("launch", "--cpu", "--num-processes", processes, MAIN)
    done = forked.run("launch", command, folder, {**os.environ, **VARIABLES})
    assert done.returncode == 0, done.stderr
    return done.stdout


def both(name: str, folder: Path, processes: str, *command: str) -> tuple[str, str]:
    """What a script prints once it has been migrated, and by hand; the models that they save are equal."""
    before = scripts.read(FIXTURES / "scripts" / name, "before")
    by_hand, migrated = folder / "by_hand", folder / "migrated"
    scripts.write(by_hand, before)
    _, after = scripts.rewrite(migrated, before)
    scripts.write(migrated, after)
    wanted = start_by_hand(by_hand, *command)
    printed = start(migrated, MAIN) if processes == "1" else launch(migrated, processes)
    ours, theirs = torch.load(migrated / "model.pt"), torch.load(by_hand / "model.pt")
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        torch.testing.assert_close(ours[key], value, rtol=1e-5, atol=1e-6)
    return printed, wanted


@pytest.mark.parametrize("processes", ["1", "2"])
def test_by_hand_and_by_the_accelerator_agree(processes: str, tmp_path: Path) -> None:
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes)
    printed, wanted = both("torchrun", tmp_path, processes, *torchrun, MAIN)
    assert printed == wanted
    assert len(wanted.splitlines()) == 2


def test_processes_that_a_script_starts_and_those_of_the_launcher_agree(tmp_path: Path) -> None:
    printed, wanted = both("spawned", tmp_path, "2", MAIN, "--processes", "2")
    assert printed == wanted
    assert len(wanted.splitlines()) == 2
