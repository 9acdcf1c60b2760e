"""Whatever a task does to its process, the others are done and the caller lives."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from accelify.workers import Failure, run_here, run_many


def act(task: str) -> str:
    """Do as told, in a worker."""
    if task == "segfault":
        ctypes.string_at(0)
    if task == "exit":
        os._exit(3)
    if task == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "recursion":
        return act_deeper(task)
    if task == "memory":
        raise MemoryError
    if task == "bug":
        raise KeyError("no such\nthing")
    if task == "quit":
        raise SystemExit(0)
    return f"{task} done"


def act_deeper(task: str) -> str:
    return max([task], key=act_deeper)  # through C, which takes the most stack


def depth_reached(limit: int) -> int:
    return 0 if limit == 0 else 1 + depth_reached(limit - 1)


def test_results_of_many_tasks_belong_to_their_index() -> None:
    tasks = [f"task {number}" for number in range(20)]
    outcomes = dict(run_many(act, tasks, jobs=2))
    assert outcomes == {index: f"{task} done" for index, task in enumerate(tasks)}


def test_a_worker_that_dies_costs_only_its_task() -> None:
    tasks = ["a", "segfault", "b", "killed", "exit", "c", "recursion", "memory", "d", "bug", "quit", "e", "segfault"]
    outcomes = dict(run_many(act, tasks, jobs=2))
    assert sorted(outcomes) == list(range(len(tasks)))
    reasons = {
        task: outcome.reason if isinstance(outcome, Failure) else outcome
        for task, outcome in zip(tasks, (outcomes[index] for index in range(len(tasks))), strict=True)
    }
    assert [reasons[task] for task in "abcde"] == [f"{task} done" for task in "abcde"]
    assert "SIGSEGV" in reasons["segfault"]
    assert "SIGKILL" in reasons["killed"]
    assert "exit status 3" in reasons["exit"]
    assert reasons["recursion"] == "nested too deeply to be analysed"
    assert reasons["memory"] == "not enough memory to analyse it"
    assert "KeyError" in reasons["bug"]
    assert "\n" not in reasons["bug"]
    assert "SystemExit" in reasons["quit"]


def test_the_traceback_of_a_bug_is_kept() -> None:
    outcome = run_here(act, "bug")
    assert isinstance(outcome, Failure)
    assert "test_workers.py" in outcome.traceback


def test_in_this_process_recursion_is_deep_and_ends_in_a_failure_rather_than_a_crash() -> None:
    limit = sys.getrecursionlimit()
    assert run_here(depth_reached, 50_000) == 50_000
    assert run_here(act, "recursion") == Failure("nested too deeply to be analysed")
    assert sys.getrecursionlimit() == limit


def test_no_process_is_left_when_the_caller_stops_early() -> None:
    children = set(psutil.Process().children())
    outcomes = run_many(act, [str(number) for number in range(50)], jobs=2)
    next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]  # it is a generator
    left = set(psutil.Process().children()) - children
    assert not [child for child in left if "resource_tracker" not in " ".join(child.cmdline())]


def test_ctrl_c_leaves_no_worker_behind(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import signal, time\n"
        "from accelify.workers import run_many\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell may have us ignore it
        "    for _ in run_many(time.sleep, [0, 0, 600, 600], jobs=2):\n"
        "        print('.', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.readline()
    children = psutil.Process(process.pid).children()
    assert children
    process.send_signal(signal.SIGINT)
    assert process.wait() != 0
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive


def test_a_task_that_outgrows_the_pipe_goes_both_ways() -> None:
    large = "x" * 2**22
    assert dict(run_many(act, [large, large], jobs=2)) == {0: f"{large} done", 1: f"{large} done"}
