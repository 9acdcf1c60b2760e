"""SLURM's srun and OpenMPI's mpirun, the real ones, starting us or starting scripts without us."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.launch.conftest import PATIENCE, Shell

MEET = """
import torch
from accelify.runtime import Accelerator
accelerator = Accelerator(cpu=True)
ranks = accelerator.gather(torch.tensor([accelerator.process_index]))
locals = accelerator.gather(torch.tensor([accelerator.local_process_index]))
with open(f"seen-{accelerator.process_index}", "w") as file:
    print(ranks.tolist(), locals.tolist(), file=file)
"""
LAUNCH = [sys.executable, "-m", "accelify", "launch", "--cpu"]


def run(shell: Shell, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=shell.folder,
        env=shell.environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture
def mpirun() -> list[str]:
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun: apt-get install openmpi-bin")
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]


def test_mpirun(shell: Shell, mpirun: list[str]) -> None:
    shell.script(MEET)
    done = run(shell, *mpirun, *LAUNCH, "train.py")
    assert done.returncode == 0, done.stderr
    assert shell.lines("seen-*") == ["[0, 1] [0, 1]"] * 2


def test_mpirun_and_another_count(shell: Shell, mpirun: list[str]) -> None:
    shell.script("raise SystemExit('must not run')")
    done = run(shell, *mpirun, *LAUNCH, "--num-processes", "4", "train.py")
    assert done.returncode == 2
    assert "4 processes, but mpi has started 2 of them already" in done.stderr


HERE = {"MASTER_ADDR": "127.0.0.1"}  # the names of the test cluster's nodes lead nowhere


def test_srun_starts_the_ranks(shell: Shell, cluster: str) -> None:
    shell.script(MEET)
    done = run(shell, "srun", "-N1", "-n2", *LAUNCH, "train.py", SLURM_CONF=cluster, **HERE)
    assert done.returncode == 0, done.stderr
    assert shell.lines("seen-*") == ["[0, 1] [0, 1]"] * 2


def test_srun_starts_an_agent_on_each_node(shell: Shell, cluster: str) -> None:
    shell.script(MEET)
    command = ["srun", "-N2", "--ntasks-per-node=1", *LAUNCH, "--num-processes", "4", "train.py"]
    done = run(shell, *command, SLURM_CONF=cluster, **HERE)
    assert done.returncode == 0, done.stderr
    assert shell.lines("seen-*") == ["[0, 1, 2, 3] [0, 1, 0, 1]"] * 4


def test_a_failure_reaches_srun(shell: Shell, cluster: str) -> None:
    shell.script("import os, sys; sys.exit(3 if os.environ['RANK'] == '1' else 0)")
    done = run(shell, "srun", "-N1", "-n1", *LAUNCH, "--num-processes", "2", "train.py", SLURM_CONF=cluster)
    assert done.returncode == 3
    assert "rank 1 on" in done.stderr
