"""SLURM's srun and OpenMPI's mpirun, the real ones, starting us or starting scripts without us."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launch.conftest import Shell, wait_until

MEET = """
import torch
from accelify.runtime import Accelerator
accelerator = Accelerator(cpu=True)
ranks = accelerator.gather(torch.tensor([accelerator.process_index]))
locals = accelerator.gather(torch.tensor([accelerator.local_process_index]))
with open(f"seen-{accelerator.process_index}", "w") as file:
    print(ranks.tolist(), locals.tolist(), file=file)
"""
PYTHON = [sys.executable]
LAUNCH = [sys.executable, "-m", "accelify", "launch", "--cpu"]


def run(shell: Shell, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=shell.folder,
        env=shell.environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def mpirun() -> list[str]:
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun: apt-get install openmpi-bin")
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]


@pytest.mark.parametrize("command", [PYTHON, LAUNCH], ids=["python", "accelify launch"])
def test_mpirun(shell: Shell, mpirun: list[str], command: list[str]) -> None:
    shell.script(MEET)
    done = run(shell, *mpirun, *command, "train.py")
    assert done.returncode == 0, done.stderr
    assert shell.lines("seen-*") == ["[0, 1] [0, 1]"] * 2


def test_mpirun_and_another_count(shell: Shell, mpirun: list[str]) -> None:
    shell.script("raise SystemExit('must not run')")
    done = run(shell, *mpirun, *LAUNCH, "--num-processes", "4", "train.py")
    assert done.returncode == 2
    assert "4 processes, but mpi has started 2 of them already" in done.stderr


HERE = {"MASTER_ADDR": "127.0.0.1"}  # the names of the test cluster's nodes lead nowhere
CLUSTER = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2
PartitionName=all Nodes=n1,n2 Default=YES State=UP OverSubscribe=YES
"""


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A SLURM of two nodes, both on this machine; gives the path of its slurm.conf."""
    programs = ("slurmctld", "slurmd", "srun", "munge", "munged")
    missing = [name for name in programs if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"a SLURM of our own needs root and {', '.join(programs)}; missing: {missing}")
    started: list[subprocess.Popen[bytes]] = []
    # not below pytest's folder, which other users may not enter: munged gives up its rights
    with tempfile.TemporaryDirectory(prefix="accelify-slurm-") as name:
        folder = Path(name)
        (folder / "state").mkdir()
        conf = folder / "slurm.conf"
        host = socket.gethostname().split(".")[0]
        conf.write_text(CLUSTER.format(host=host, folder=folder, ports=free_ports(3)))
        environment = os.environ | {"SLURM_CONF": str(conf)}
        try:
            if subprocess.run(["munge", "-n"], check=False, capture_output=True).returncode != 0:
                Path("/run/munge").mkdir(exist_ok=True)
                shutil.chown("/run/munge", "munge")
                started.append(subprocess.Popen(["runuser", "-u", "munge", "--", "munged", "--foreground"]))
                wait_until(Path("/run/munge/munge.socket.2").exists, "munged")
            daemons = (["slurmctld", "-D", "-c"], ["slurmd", "-D", "-N", "n1"], ["slurmd", "-D", "-N", "n2"])
            quiet = subprocess.DEVNULL
            started += [subprocess.Popen(daemon, env=environment, stdout=quiet, stderr=quiet) for daemon in daemons]

            def idle() -> bool:
                state = subprocess.run(
                    ["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True, check=False
                )
                return state.stdout.split() == ["idle"]

            wait_until(idle, "both nodes to be idle")
            yield str(conf)
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait(30)


@pytest.mark.parametrize("command", [PYTHON, LAUNCH], ids=["python", "accelify launch"])
def test_srun_starts_the_ranks(shell: Shell, cluster: str, command: list[str]) -> None:
    shell.script(MEET)
    done = run(shell, "srun", "-N1", "-n2", *command, "train.py", SLURM_CONF=cluster, **HERE)
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
