"""Failures and signals: what a person is told, the exit status, and that nobody is left running."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from accelify.runtime.launch import bootstrap
from tests.interpreters import ROOT
from tests.launch.conftest import PATIENCE, Shell, wait_until
from tests.ports import free_port

FAILING = """
import os, sys, time
rank = os.environ["RANK"]
print("rank", rank, "was here")
def deep():
    raise ValueError("bad data")
open("here-" + rank, "w").close()
while rank == sys.argv[1]:
    if os.path.exists("here-0") and os.path.exists("here-1"):
        deep()
    time.sleep(0.05)
time.sleep(600)
"""
WAITING = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open("up-" + os.environ["RANK"], "w").close()
time.sleep(600)
"""


@pytest.mark.parametrize("rank", ["0", "1"])
def test_the_first_failing_ranks_traceback_once(shell: Shell, rank: str) -> None:
    script = shell.script(FAILING)
    launched = shell.launch("--num-processes", "2", "train.py", rank)
    assert launched.returncode == 1
    assert launched.stdout == "rank 0 was here\n"
    lines = launched.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].startswith(f'  File "{script}", line 10')  # no frame of ours above the script's
    assert launched.stderr.count("ValueError: bad data") == 1
    assert f"rank {rank} on {os.uname().nodename} failed first (exit status 1)" in launched.stderr
    assert lines[-1] == f'accelify: {script}:6, in deep: raise ValueError("bad data")'
    assert len(lines) < 14  # the traceback and what we say: no wall of the agent's text
    wait_until(lambda: not shell.processes(), "every process to be gone")


def test_the_other_ranks_logs_are_named_and_private(shell: Shell) -> None:
    shell.script(FAILING)
    launched = shell.launch("--num-processes", "2", "train.py", "0")
    (folder,) = shell.logs()
    assert str(folder) in launched.stderr
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "rank-1.log").read_text() == "rank 1 was here\n"


def test_a_rank_that_fails_because_another_did_is_not_blamed(shell: Shell) -> None:
    shell.script("""
import os, signal, torch
import torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(torch.ones(1))
""")
    launched = shell.launch("--cpu", "--num-processes", "2", "train.py")
    assert launched.returncode == 128 + signal.SIGKILL
    assert "rank 1 on" in launched.stderr
    assert "SIGKILL" in launched.stderr
    assert "Traceback" not in launched.stderr  # rank 0's broken connection is no news


def test_a_syntax_error_shows_its_line(shell: Shell) -> None:
    script = shell.script("x = 1\nif x = 2:\n    pass\n")
    launched = shell.launch("--num-processes", "2", "train.py")
    assert launched.returncode == 1
    assert "SyntaxError" in launched.stderr
    assert launched.stderr.splitlines()[-1] == f"accelify: {script}:2: if x = 2:"


def test_exit_status_and_last_words_of_a_quiet_rank(shell: Shell) -> None:
    shell.script("""
import os, sys, time
if os.environ["RANK"] == "1":
    sys.exit("no such data set")
time.sleep(600)
""")
    launched = shell.launch("--num-processes", "2", "train.py")
    assert launched.returncode == 1
    assert "  no such data set" in launched.stderr
    shell.script("import sys; sys.exit(41)")
    assert shell.launch("--num-processes", "2", "train.py").returncode == 41


def test_the_scripts_own_excepthook_speaks(shell: Shell) -> None:
    shell.script("""
import os, sys, time
sys.excepthook = lambda kind, error, frames: print("mine:", error, file=sys.stderr)
if os.environ["RANK"] == "0":
    raise ValueError("bad")
time.sleep(600)
""")
    launched = shell.launch("--num-processes", "2", "train.py")
    assert launched.stderr.startswith("mine: bad\n")
    assert "Traceback" not in launched.stderr
    assert launched.returncode == 1


def test_a_timeout_names_who_did_not_arrive_and_where_it_was(shell: Shell) -> None:
    script = shell.script("""
import datetime, signal, sys, time, torch
import torch.distributed as dist
asked = {signal.SIGRTMIN + 7}  # for its stack
signal.pthread_sigmask(signal.SIG_BLOCK, asked)
dist.init_process_group("gloo")
impatient = dist.new_group(timeout=datetime.timedelta(seconds=5))
def dawdle():
    while not asked & signal.sigpending():
        time.sleep(0.05)
    time.sleep(0.5)  # a machine that does much else beside
    signal.pthread_sigmask(signal.SIG_UNBLOCK, asked)
    time.sleep(600)
if dist.get_rank() == 1:
    dawdle()
dist.all_reduce(torch.ones(1), group=impatient)
""")
    launched = shell.launch("--cpu", "--num-processes", "2", "train.py")
    assert launched.returncode == 1
    assert "rank 0 on" in launched.stderr
    assert re.search(rf"accelify: rank 1 did not arrive: it was at {script}:1[123], in dawdle\n", launched.stderr), (
        launched
    )
    assert launched.stderr.splitlines()[-1].startswith(f"accelify: {script}:16: dist.all_reduce")


def start_waiting(shell: Shell) -> subprocess.Popen[str]:
    shell.script(WAITING)
    process = shell.start("launch", "--num-processes", "2", "train.py")
    wait_until(lambda: all((shell.folder / f"up-{rank}").exists() for rank in (0, 1)), "both ranks to be up")
    wait_until(lambda: len(shell.processes()) == 5, "the launcher, two ranks, and a child of each")
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything(shell: Shell, number: signal.Signals) -> None:
    process = start_waiting(shell)
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert f"stopped by {number.name}" in err
    assert "Traceback" not in err
    wait_until(lambda: not shell.processes(), "every process to be gone")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_other_machines_are_waited_for_leaves_nothing(shell: Shell, number: signal.Signals) -> None:
    shell.script("raise SystemExit('must not run')")
    machines = ["--num-machines", "2", "--machine-rank", "0", "--main-process-ip", "127.0.0.1"]
    port = str(free_port())
    process = shell.start("launch", "--cpu", *machines, "--main-process-port", port, "--num-processes", "2", "train.py")
    wait_until(shell.logs, "the launcher to begin")
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (128 + number, f"accelify: stopped by {number.name}\n")
    assert shell.logs() == []


def test_ranks_that_ignore_ctrl_c_end_too(shell: Shell) -> None:
    shell.script("""
import os, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
open("up-" + os.environ["RANK"], "w").close()
time.sleep(600)
""")
    process = shell.start("launch", "--num-processes", "2", "train.py")
    wait_until(lambda: all((shell.folder / f"up-{rank}").exists() for rank in (0, 1)), "both ranks to be up")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    wait_until(lambda: not shell.processes(), "every process to be gone")


def test_sigterm_lets_a_rank_finish_its_checkpoint(shell: Shell) -> None:
    shell.script("""
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
def save(*_):
    time.sleep(0.3)
    with open("saved-" + os.environ["RANK"], "w") as file:
        file.write(str(child.poll()))  # its own children must not have been ended under it
    child.kill()
    child.wait()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
open("up-" + os.environ["RANK"], "w").close()
time.sleep(600)
""")
    process = shell.start("launch", "--num-processes", "2", "train.py")
    wait_until(lambda: all((shell.folder / f"up-{rank}").exists() for rank in (0, 1)), "both ranks to be up")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 128 + signal.SIGTERM
    assert shell.lines("saved-*") == ["None", "None"]
    wait_until(lambda: not shell.processes(), "every process to be gone")


def test_a_killed_launcher_takes_its_ranks_along(shell: Shell) -> None:
    shell.script(WAITING.replace("subprocess.Popen(", "(").replace("subprocess, ", ""))
    process = shell.start("launch", "--num-processes", "2", "train.py")
    wait_until(lambda: all((shell.folder / f"up-{rank}").exists() for rank in (0, 1)), "both ranks to be up")
    process.kill()
    process.wait(PATIENCE)
    wait_until(lambda: not shell.processes(), "the ranks to follow")


def test_children_of_a_crashed_rank_are_ended(shell: Shell) -> None:
    shell.script("""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
raise OSError(f"gone, and {child.pid} is left")
""")
    launched = shell.launch("--num-processes", "2", "train.py")
    assert launched.returncode == 1
    assert "OSError: gone" in launched.stderr
    wait_until(lambda: not shell.processes(), "the children of the ranks to be gone")


TWO = ["--num-processes", "2"]
MISTAKES = {
    "missing script": (["nowhere.py"], "there is no script nowhere.py"),
    "folder": (["."], "folder without a __main__.py"),
    "missing module": (["-m", "no_such_module_here"], "there is no module no_such_module_here"),
    "missing program": (["--no-python", "no-such-program-here"], "there is no program no-such-program-here"),
    "count": (["--num-processes", "zero", "train.py"], "num_processes: 'zero' is not a whole number"),
    "precision": (["--mixed-precision", "fp7", "train.py"], "mixed_precision: 'fp7' is none of no, fp16, bf16"),
    "division": (["--num-machines", "2", "--num-processes", "3", "train.py"], "does not divide by 2"),
    "meeting point": (["--num-machines", "2", "--machine-rank", "0", "train.py"], "need --main-process-ip"),
    "rank": (["--num-machines", "2", "--main-process-ip", "::1", "train.py"], "need --machine-rank"),
    "range": (["--nnodes", "4:1", "train.py"], "ends before it begins"),
    "port": (["--main-process-port", "99999", "train.py"], "main_process_port: 99999 is more than 65535"),
    "endpoint": ([*TWO, "--rdzv-endpoint", "localhost:99999", "train.py"], "localhost:99999 is no HOST:PORT"),
    "backend": ([*TWO, "--rdzv-backend", "nosuch", "train.py"], "the rendezvous cannot begin"),
    "meeting's options": ([*TWO, "--rdzv-conf", "timeout", "train.py"], "--rdzv-conf: 'timeout' is no NAME=VALUE"),
    "GPUs": (["--gpu-ids", "first", "train.py"], "gpu_ids: 'first' is not a list of GPUs"),
    "tee": ([*TWO, "--tee", "9", "train.py"], "--tee: '9' is neither 1, 2, 3 nor a list such as 0:3,1:3"),
    "folder for output": ([*TWO, "--log-dir", "train.py", "train.py"], "no folder for the ranks' output: train.py"),
    "unknown option": (["--num-proceses", "2", "train.py"], "--num-processes"),
}

KNOWN_BY_TORCH = ("backend", "folder for output")  # which is imported first


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_clear_line(shell: Shell, mistake: str) -> None:
    shell.script("raise SystemExit('must not run')")
    arguments, reason = MISTAKES[mistake]
    launched = shell.launch(*arguments) if mistake in KNOWN_BY_TORCH else shell.run("launch", *arguments)
    assert launched.returncode == 2
    assert reason in launched.stderr
    assert "Traceback" not in launched.stderr
    assert launched.stdout == ""
    if mistake != "unknown option":  # click adds a usage line there
        assert len(launched.stderr.splitlines()) == 1
    assert Path(shell.folder / "train.py").exists()


WITH_TWO_GPUS = """
import pathlib, sys
from accelify.cli import main
from accelify.runtime.launch import detection
detection.NVIDIA_PROC = pathlib.Path("gpus")  # where the driver lists them
main(sys.argv[1:])
"""


def test_more_processes_than_gpus(shell: Shell) -> None:
    shell.script("raise SystemExit('must not run')")
    for number in range(2):
        (shell.folder / "gpus" / f"0000:0{number}:00.0").mkdir(parents=True)
    launched = shell.python("-c", WITH_TWO_GPUS, "launch", "--num-processes", "3", "train.py")
    assert launched.returncode == 2
    reason = "3 processes on this machine, but 2 GPUs; give --cpu to use none"
    assert launched.stderr == f"accelify: flag --num-processes: {reason}\n"


def test_a_python_without_torch(shell: Shell) -> None:
    shell.script("raise SystemExit('must not run')")
    library = shell.folder / "library"
    library.mkdir()
    (library / "click").symlink_to(Path(click.__file__).parent)
    path = f"{ROOT}{os.pathsep}{library}"
    command = ("-S", "-m", "accelify", "launch", "--num-processes", "2", "train.py")  # -S: nothing that is installed
    launched = shell.python(*command, PYTHONPATH=path)
    assert launched.returncode == 2
    assert launched.stderr == f"accelify: {sys.executable} has no torch: pip install 'accelify[runtime]' into it\n"


@pytest.mark.parametrize("tee", [(), ("--tee", "3")])
def test_a_reader_that_leaves_ends_the_ranks_quietly(shell: Shell, tee: tuple[str, ...]) -> None:
    shell.script(
        """
import os, time
from pathlib import Path
Path("up-" + os.environ["RANK"]).touch()
while not tee or not Path("stop").exists():
    print("line")
    time.sleep(0.05)
""".replace("tee", str(bool(tee)))
    )
    process = shell.start("launch", "--cpu", "--num-processes", "2", *tee, "train.py")
    assert process.stdout is not None
    assert "line" in process.stdout.readline()
    process.stdout.close()
    if tee:  # the launcher copies what the ranks print, and they do not see who reads it
        wait_until(lambda: all((shell.folder / f"up-{rank}").exists() for rank in (0, 1)), "both ranks to be up")
        (shell.folder / "stop").touch()
    assert process.stderr is not None
    assert "Traceback" not in (text := process.stderr.read())
    assert process.wait(PATIENCE) == (0 if tee else 128 + signal.SIGPIPE)
    assert tee or text == ""
    assert tee or shell.logs() == []
    wait_until(lambda: not shell.processes(), "every process to be gone")


HOLDING = """
import atexit, ctypes
def function(): pass
ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))  # as a library's own code may, and so the script's variables
file = open("left_open.txt", "w")
file.write("all")
atexit.register(lambda: file.write(" of it"))
"""


def test_a_file_that_a_rank_leaves_open_is_written(tmp_path):
    (tmp_path / "train.py").write_text(HOLDING)
    subprocess.run([sys.executable, bootstrap.__file__, "script", "train.py"], cwd=tmp_path, check=True)
    assert (tmp_path / "left_open.txt").read_text() == "all of it"
