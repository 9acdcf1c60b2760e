"""Ranks that make no progress: they are reported with their stacks, and nothing is ended for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from accelify.runtime.launch import stacks, stalls
from tests.launch.conftest import PATIENCE, Shell, wait_until

DEADLOCK = """
import threading, torch
import torch.distributed as dist
dist.init_process_group("gloo")
lock = threading.Lock()
def work():
    with lock, lock:
        pass
if dist.get_rank() == 1:
    work()
dist.all_reduce(torch.ones(1))
"""
WAITING = """
import os, time
import {library}
open("pid-" + os.environ["RANK"], "w").write(str(os.getpid()))
while not os.path.exists("go"):
    {pause}
print("done")
"""
LAUNCH = ("launch", "--cpu", "--num-processes", "2", "--stall-timeout", "3")


def text_until(process: subprocess.Popen[str], wanted: str) -> str:
    """What a launch prints on standard error, up to the line that has the wanted text."""
    assert process.stderr is not None
    text = ""
    while wanted not in text:
        line = process.stderr.readline()
        assert line, text
        text += line
    return text


def test_a_deadlock_is_reported_with_its_stack_long_before_the_others_give_up(shell: Shell) -> None:
    script = shell.script(DEADLOCK)
    process = shell.start(*LAUNCH, "train.py")
    text = text_until(process, f"    {script}:10, in <module>")
    assert "accelify: no progress for " in text
    assert f"accelify:   rank 0 waiting for other ranks at {script}:11, in <module>\n" in text
    assert f"accelify:   rank 1 at {script}:7, in work\n" in text
    assert process.poll() is None  # nothing is ended for it
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 128 + signal.SIGTERM


def test_a_stopped_rank_is_reported_and_goes_on(shell: Shell) -> None:
    shell.script(WAITING.format(library="sys", pause="sum(range(10**5))"))
    process = shell.start(*LAUNCH, "train.py")
    wait_until(lambda: all(shell.lines(f"pid-{rank}") for rank in (0, 1)), "both ranks to be up")
    (pid,) = shell.lines("pid-1")
    os.kill(int(pid), signal.SIGSTOP)
    text = text_until(process, f"`kill -CONT {pid}` lets it go on")
    assert "accelify: rank 1 has been stopped for " in text
    os.kill(int(pid), signal.SIGCONT)
    (shell.folder / "go").touch()
    assert process.communicate(timeout=PATIENCE) == ("done\n", "")
    assert process.returncode == 0


def test_a_slow_import_or_evaluation_is_reported_and_nothing_else(shell: Shell) -> None:
    shell.script("import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.1)\n", "slow.py")
    script = shell.script(WAITING.format(library="slow", pause="pass"))
    process = shell.start(*LAUNCH, "train.py")
    text = text_until(process, f"{script}:3, in <module>")
    assert f"accelify:   rank 0 at {shell.folder}/slow.py:3, in <module>\n" in text
    (shell.folder / "go").touch()
    assert process.communicate(timeout=PATIENCE)[0] == "done\n"
    assert process.returncode == 0


def test_a_rank_that_became_another_program_is_not_asked(shell: Shell) -> None:
    shell.script("import os\nos.execvp('sh', ['sh', '-c', 'while ! test -e go; do sleep 0.2; done; echo done'])\n")
    process = shell.start(*LAUNCH, "train.py")  # the signal would end what does not know it
    assert "rank 0: it cannot say where" in text_until(process, "rank 1: it cannot say where")
    (shell.folder / "go").touch()
    assert process.communicate(timeout=PATIENCE)[0] == "done\n"
    assert process.returncode == 0


def test_a_notebook_s_processes_are_watched(shell: Shell) -> None:
    shell.script("""
import os, time
from accelify.runtime import notebook_launcher
def train():
    while not os.path.exists("go"):
        time.sleep(0.1)
if __name__ == "__main__":
    notebook_launcher(train, num_processes=2, cpu=True, stall_timeout=2)
""")
    (shell.folder / "go").unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, "train.py"],
        cwd=shell.folder,
        env=shell.environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "rank 0 at " in text_until(process, "rank 1 at ")
    (shell.folder / "go").touch()
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def test_how_long_a_rank_waits_for_the_others_can_be_said(shell: Shell) -> None:
    shell.script("""
import time
from accelify.runtime import Accelerator
accelerator = Accelerator()
if accelerator.process_index == 1:
    time.sleep(600)
accelerator.wait_for_everyone()
""")
    shell.script("timeout = 600\nstall_timeout = 0\n", "accelify.toml")
    launched = shell.launch("--cpu", "--num-processes", "2", "train.py", ACCELIFY_TIMEOUT="2")
    assert launched.returncode == 1
    assert "rank 1 never came" in launched.stderr
    assert "no progress" not in launched.stderr


@pytest.mark.parametrize("seconds", ["-1", "soon", "nan", "inf", "1e300", "true"])
def test_no_number_of_seconds(shell: Shell, seconds: str) -> None:
    shell.script("raise SystemExit('must not run')")
    launched = shell.launch("--num-processes", "2", "--timeout", seconds, "train.py")
    assert (launched.returncode, launched.stderr.count("\n")) == (2, 1)
    assert "flag --timeout: timeout: " in launched.stderr


def test_the_timeouts_are_in_the_help(shell: Shell) -> None:
    text = " ".join(shell.run("launch", "--help").stdout.split())
    for option in ("--timeout SECONDS", "--stall-timeout SECONDS", "--shutdown-timeout SECONDS"):
        assert option in text


# Facts of stacks and of progress, without a launch.

TEXT = """Stack (most recent call first):
  File "/site-packages/torch/distributed/distributed_c10d.py", line 3 in all_reduce
  File "/home/me/train.py", line 7 in step
  File "/home/me/train.py", line 9 in <module>
  File "/x/accelify/runtime/launch/bootstrap.py", line 80 in _run_script
  File "/x/accelify/runtime/launch/bootstrap.py", line 90 in <module>
"""


def test_a_stack() -> None:
    stack = stacks.read('Stack (most recent call first):\n  File "old.py", line 1 in f\n' + TEXT)
    assert [frame.line for frame in stack.frames] == [3, 7, 9]
    assert (str(stack.own), stack.waits) == ("/home/me/train.py:7, in step", True)
    assert stack.innermost("/home/me/train.py") == "/home/me/train.py:7, in step"
    assert not stacks.read(TEXT.replace("torch/distributed", "torch/optim")).waits
    assert stacks.is_complete(TEXT)
    assert not stacks.is_complete(TEXT[:-3])
    assert stacks.read("").innermost(None) == ""


def test_only_what_does_nothing_is_reported_and_ever_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, now, said = {1: 0.0, 2: 0.0}, [0.0], []
    monkeypatch.setattr(stalls, "_state", lambda pid: "S")
    monkeypatch.setattr(stalls, "_time_used", lambda pid: used[pid])
    monkeypatch.setattr(stacks, "ask", lambda processes: {pid: stacks.read(TEXT) for pid, _ in processes})
    watch = stalls.Watch(60, lambda text: said.append((now[0], text)), clock=lambda: now[0])
    ranks = {pid: stalls.Rank(pid - 1, pid, tmp_path) for pid in (1, 2)}

    def pass_time(seconds: int, *, busy: tuple[int, ...] = ()) -> None:
        for _ in range(seconds):
            now[0] += 1.0
            for pid in busy:
                used[pid] += 0.5
            watch.look(ranks)

    pass_time(300, busy=(1, 2))
    assert said == []
    pass_time(250, busy=(1,))
    assert [int(when) for when, _ in said] == [361, 421, 541] or [int(when) for when, _ in said] == [360, 420, 540]
    pass_time(50, busy=(1, 2))
    now[0] += 600  # the launcher itself was stopped
    pass_time(30)
    assert len(said) == 3
