"""Run checks in real processes: one world per module of `tests.runtime.checks`, since each start costs seconds.

Every public function of such a module that takes an `accelerator` is a check. All run in one world, in order; a test
reports one check's outcome on every rank. After a failure the ranks may be out of step, so the rest is not run.
"""

import functools
import importlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import traceback
from datetime import timedelta
from pathlib import Path

import pytest

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
# Units: seconds; only a deadlock ever takes so long.
COLLECTIVE_LIMIT, WORLD_LIMIT = 180, 900


def together(name, processes=2):
    """A test function per check of `tests.runtime.checks.<name>`, as one parametrized test."""
    checks = list(_checks(name))

    @pytest.mark.parametrize("check", checks)
    def test(check):
        for rank, outcomes in enumerate(_run(name, processes)):
            outcome = outcomes.get(check, "was not reached")
            assert outcome == "ok", f"rank {rank}: {outcome}"

    return test


def _checks(name):
    module = importlib.import_module(f"tests.runtime.checks.{name}")
    return {
        key: value
        for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_")
        if "accelerator" in inspect.signature(value).parameters
    }


def environment(rank, processes, port):
    clean = {
        key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "PMI", "OMPI", "ACCELIFY"))
    }
    return {
        **clean,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": str(ROOT),
    }


def launch(arguments, processes, cwd=None, limit=WORLD_LIMIT):
    """Run `python ARGUMENTS` as so many ranks; their (exit status, output) in order."""
    port = free_port()
    running = [
        subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            env=environment(rank, processes, port),
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(processes)
    ]
    results = []
    try:
        for process in running:
            output, _ = process.communicate(timeout=limit)
            results.append((process.returncode, output))
    finally:
        for process in running:
            process.kill()
    return results


@functools.cache
def _run(name, processes):
    with tempfile.TemporaryDirectory() as folder:
        results = launch(["-m", "tests.runtime.world", name, folder], processes)
        outcomes = []
        for rank, (_, output) in enumerate(results):
            report = Path(folder, str(rank))
            lines = report.read_text().splitlines() if report.exists() else []
            found = dict(json.loads(line) for line in lines)
            outcomes.append(found if len(found) == len(_checks(name)) else Unfinished(found, output))
        return outcomes


class Unfinished(dict):
    def __init__(self, found, output):
        super().__init__(found)
        self.output = output

    def get(self, key, default=None):
        return super().get(key, f"{default}\n{self.output}")


def main(name, folder):
    from accelify.runtime import Accelerator, InitProcessGroupKwargs

    limit = InitProcessGroupKwargs(timeout=timedelta(seconds=COLLECTIVE_LIMIT))
    rank = os.environ["RANK"]
    with Path(folder, rank).open("w") as report:
        for key, check in _checks(name).items():
            try:
                check(Accelerator(kwargs_handlers=[limit]))
                outcome = "ok"
            except Exception:
                outcome = traceback.format_exc()
            report.write(json.dumps([key, outcome]) + "\n")
            report.flush()
            if outcome != "ok":
                break


if __name__ == "__main__":
    main(*sys.argv[1:])
