"""Restarts: a rank that dies takes the others along and all begin again."""

from __future__ import annotations

import signal
import socket

from tests.launch.conftest import Shell, wait_until

COUNTING = """
import os, signal, sys, time
rank, restart = os.environ["RANK"], int(os.environ["TORCHELASTIC_RESTART_COUNT"])
with open(f"began-{rank}", "a") as file:
    file.write(f"{restart}\\n")
if rank == "1" and restart < int(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGKILL)
while rank == "0" and restart < int(sys.argv[1]):
    time.sleep(1)
print("done after", restart)
"""


def test_a_killed_rank_restarts_the_group(shell: Shell) -> None:
    shell.script(COUNTING)
    launched = shell.run("launch", "--num-processes", "2", "--max-restarts", "2", "train.py", "2")
    assert launched.returncode == 0, launched.stderr
    assert launched.stdout == "done after 2\n"
    assert shell.lines("began-0") == shell.lines("began-1") == ["0", "1", "2"]
    assert "starting all ranks again, 2 of at most 2 times" in launched.stderr
    assert shell.logs() == []


def test_restarts_end(shell: Shell) -> None:
    shell.script(COUNTING)
    launched = shell.run("launch", "--num-processes", "2", "--max-restarts", "1", "train.py", "9")
    assert launched.returncode == 128 + signal.SIGKILL
    assert shell.lines("began-1") == ["0", "1"]
    assert launched.stderr.count("starting all ranks again") == 1
    assert shell.processes() == []


def test_one_process_restarts_too(shell: Shell) -> None:
    shell.script(COUNTING.replace('"1"', '"0"').replace("while", "while False and"))
    launched = shell.run("launch", "--max-restarts", "1", "train.py", "1")
    assert (launched.returncode, launched.stdout) == (0, "done after 1\n"), launched.stderr


def test_a_machine_joins_and_leaves_and_the_other_goes_on(shell: Shell) -> None:
    shell.script("""
import os, time, torch
import torch.distributed as dist
dist.init_process_group("gloo")
world = dist.get_world_size()
if dist.get_rank() == 0:
    with open("worlds", "a") as file:
        print(world, file=file)
while world == 2 or not os.path.exists("finish"):
    dist.all_reduce(torch.ones(1))
    time.sleep(0.05)
print("went on with", world)
""")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    conf = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=5"
    arguments = ["--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-conf", conf]
    arguments += ["--rdzv-endpoint", f"127.0.0.1:{port}", "train.py"]
    stays = shell.start("launch", "--cpu", *arguments)
    wait_until(lambda: shell.lines("worlds") == ["1"], "the first machine to begin alone")
    leaves = shell.start("launch", "--cpu", *arguments)
    wait_until(lambda: shell.lines("worlds") == ["1", "2"], "both machines to begin again")
    leaves.terminate()
    leaves.communicate(timeout=60)
    assert leaves.returncode == 128 + signal.SIGTERM
    wait_until(lambda: shell.lines("worlds") == ["1", "2", "1"], "the first machine to go on alone")
    (shell.folder / "finish").touch()
    out, err = stays.communicate(timeout=60)
    assert (stays.returncode, out) == (0, "went on with 1\n"), err
    assert "the machines that take part have changed" in err
    assert shell.processes() == []
