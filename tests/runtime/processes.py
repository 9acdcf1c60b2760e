"""Run checks in real processes: one world for many modules of `tests.runtime.checks`, since each start costs seconds.

Every public function of such a module that takes an `accelerator` is a check. All run in one world, in order; a test
reports one check's outcome on every rank. After a failure the ranks may be out of step, so the rest of the module is
not run, and another world goes on with the next one.
"""

import functools
import gc
import importlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import traceback
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from tests.forked import run_ranks
from tests.interpreters import PYTHONPATH
from tests.ports import free_port

# Units: seconds; only a deadlock ever takes so long.
COLLECTIVE_LIMIT, WORLD_LIMIT = 180, 900


def together(*names, processes=2):
    """A test function per check of these modules of `tests.runtime.checks`, as one parametrized test."""
    checks = [(name, check) for name in names for check in _checks(name)]

    @pytest.mark.parametrize(("name", "check"), checks)
    def test(name, check):
        for rank, outcomes in enumerate(_run(names, processes)[name]):
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
        "PYTHONPATH": PYTHONPATH,
    }


def launch(arguments, processes, cwd=None, limit=WORLD_LIMIT):
    """Run `python ARGUMENTS` as so many ranks; their (exit status, output) in order."""
    port = free_port()
    with ExitStack() as stack:
        # Files, not pipes: a rank whose pipe nobody empties yet would wait, and the others for it.
        outputs = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(processes)]
        running = [
            subprocess.Popen(
                [sys.executable, *map(str, arguments)],
                env=environment(rank, processes, port),
                cwd=cwd,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            for rank, output in enumerate(outputs)
        ]
        for process in running:
            stack.callback(process.wait)
            stack.callback(process.kill)
        statuses = [process.wait(timeout=limit) for process in running]
        return list(zip(statuses, map(_all_of, outputs), strict=True))


def launch_forked(arguments, processes, cwd):
    """As `launch`, in forks of an interpreter that has imported the runtime: all ranks hash texts alike."""
    port = free_port()
    environments = [environment(rank, processes, port) for rank in range(processes)]
    return run_ranks(list(map(str, arguments)), cwd, environments, WORLD_LIMIT)


def _all_of(output):
    output.seek(0)
    return output.read()


@functools.cache
def _run(names, processes):
    """What became of the checks of each module, rank by rank."""
    found = {}
    while left := [name for name in names if name not in found]:
        with tempfile.TemporaryDirectory() as folder:
            results = launch(["-m", "tests.runtime.processes", folder, *left], processes)
            for name in left:
                found[name] = [_outcomes(Path(folder, f"{name}.{r}"), name, *told) for r, told in enumerate(results)]
                if any(isinstance(outcomes, Unfinished) for outcomes in found[name]):
                    break
    return found


def _outcomes(report, name, status, output):
    lines = report.read_text().splitlines() if report.exists() else []
    found = dict(json.loads(line) for line in lines)
    is_whole = len(found) == len(_checks(name)) and {*found.values()} <= {"ok"}
    return found if is_whole else Unfinished(found, f"exit status {status}\n{output}")


class Unfinished(dict):
    def __init__(self, found, output):
        super().__init__(found)
        self.output = output

    def get(self, key, default=None):
        return super().get(key, f"{default}\n{self.output}")


def main(folder, *names):
    from accelify.runtime import Accelerator, InitProcessGroupKwargs
    from tests.runtime.training import seed

    gc.freeze()  # what is imported stays; the workers of loaders are forked from here
    limit = InitProcessGroupKwargs(timeout=timedelta(seconds=COLLECTIVE_LIMIT))
    for name in names:
        if name != names[0]:
            seed(0)  # as alike as ranks are when they begin, whatever the module before has drawn
        with Path(folder, f"{name}.{os.environ['RANK']}").open("w") as report:
            for key, check in _checks(name).items():
                try:
                    check(Accelerator(kwargs_handlers=[limit]))
                    outcome = "ok"
                except Exception:
                    outcome = traceback.format_exc()
                report.write(json.dumps([key, outcome]) + "\n")
                report.flush()
                if outcome != "ok":
                    return


if __name__ == "__main__":
    main(*sys.argv[1:])
