"""Several machines: network namespaces joined by a veth pair where that is allowed, and two agents on loopback."""

from __future__ import annotations

import re
import socket
import subprocess
import sys

from tests.launch.conftest import PATIENCE, Shell, wait_until
from tests.ports import free_port

MEET = """
import os, torch
import torch.distributed as dist
dist.init_process_group("gloo")
mine = torch.tensor([dist.get_rank(), int(os.environ["MACHINE"])])
all_ranks = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
dist.all_gather(all_ranks, mine)
print("gathered", [tuple(pair.tolist()) for pair in all_ranks])
with open(f"seen-{dist.get_rank()}", "w") as file:
    file.write(str([tuple(pair.tolist()) for pair in all_ranks]))
dist.destroy_process_group()
"""


def start(shell: Shell, rank: int, *arguments: str, inside: str | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "accelify", "launch", "--cpu", "--machine-rank", str(rank), *arguments]
    return subprocess.Popen(
        [*(["ip", "netns", "exec", inside] if inside else []), *command],
        cwd=shell.folder,
        env=shell.environment(MACHINE=str(rank)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


EVERYONE = "[(0, 0), (1, 0), (2, 1), (3, 1)]"


def test_two_machines_and_a_cable(shell: Shell, networks: tuple[str, str]) -> None:
    shell.script(MEET)
    arguments = ["--num-machines", "2", "--num-processes", "4", "--main-process-ip", "10.77.0.1", "train.py"]
    second = start(shell, 1, *arguments, inside=networks[1])  # the order of starting does not matter
    first = start(shell, 0, *arguments, inside=networks[0])
    out0, err0 = first.communicate(timeout=PATIENCE)
    out1, err1 = second.communicate(timeout=PATIENCE)
    assert (first.returncode, second.returncode) == (0, 0), err0 + err1
    assert out0 == f"gathered {EVERYONE}\n"  # machine 0 has ranks 0 and 1, so rank 0's output is there
    assert out1 == ""
    assert shell.lines("seen-*") == [EVERYONE] * 4
    assert shell.logs() == []


def test_two_agents_on_one_machine(shell: Shell) -> None:
    shell.script(MEET)
    port = str(free_port())
    arguments = ["--nnodes=2", "--nproc_per_node=2", "--master-addr=127.0.0.1", f"--master-port={port}", "train.py"]
    agents = [start(shell, rank, *arguments) for rank in (0, 1)]
    outputs = [agent.communicate(timeout=PATIENCE) for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], outputs
    assert outputs[0][0] == f"gathered {EVERYONE}\n"


def test_two_machines_with_one_number(shell: Shell) -> None:
    shell.script(MEET)
    arguments = ["--nnodes=3", "--nproc-per-node=1", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "train.py"]
    agents = [start(shell, rank, *arguments) for rank in (0, 1, 1)]
    outputs = [agent.communicate(timeout=PATIENCE) for agent in agents]
    assert [agent.returncode for agent in agents] == [2, 2, 2], outputs
    assert any("3 machines were started with the machine ranks [0, 1, 1]" in err for _, err in outputs), outputs
    wait_until(lambda: not shell.processes(), "every process to be gone")


def test_a_port_that_is_taken(shell: Shell) -> None:
    shell.script(MEET)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        launched = shell.run("launch", "--cpu", "--num-processes", "2", "--main-process-port", str(port), "train.py")
    assert launched.returncode == 2
    assert re.fullmatch(rf"accelify: port {port} of localhost cannot be opened here: .*in use\n", launched.stderr)


def test_a_host_without_an_address(shell: Shell) -> None:
    shell.script(MEET)
    machines = ["--num-machines", "2", "--machine-rank", "1", "--main-process-ip", "no-such-host.invalid"]
    launched = shell.run("launch", "--cpu", *machines, "--num-processes", "2", "train.py")
    assert launched.returncode == 2
    assert launched.stderr.startswith("accelify: the host no-such-host.invalid has no address")
    assert len(launched.stderr.splitlines()) == 1


def test_a_host_that_does_not_answer(shell: Shell) -> None:
    shell.script(MEET)
    machines = ["--num-machines", "2", "--machine-rank", "1", "--main-process-ip", "127.0.0.1"]
    machines += ["--main-process-port", str(free_port()), "--rdzv-conf", "read_timeout=2,join_timeout=2"]
    launched = shell.run("launch", "--cpu", *machines, "--num-processes", "2", "train.py")
    assert launched.returncode == 2, launched.stderr
    assert "the 2 machines could not meet at 127.0.0.1" in launched.stderr
    assert len(launched.stderr.splitlines()) == 1
