"""The scripts of `fixtures/scripts` train the same after the rewrite: to the bit in one process, in meaning in two.

All one-process runs share an interpreter, all two-process runs a world: starting costs seconds, the scripts do not.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from accelify.codemod.rewrite import Options
from tests import scripts
from tests.interpreters import PYTHONPATH
from tests.scripts import FIXTURES

DRIVER = Path(__file__).with_name("run_traced.py")
LIMIT = 1200  # seconds; only a deadlock ever takes so long
# They download; `fixtures/runnable/tutorial` runs.
NOT_RUN = {"tutorial", "tutorial_in_main", "tutorial_device_elsewhere"}
BY_HAND = {"torchrun", "torchrun_trainer", "spawned"}  # they start their processes by other means: see test_by_hand
NAMES = [name for name in scripts.names("scripts") if name not in NOT_RUN | BY_HAND]
WRONG_IN_TWO: dict[str, str] = {}
# With the script's own batch shared by two processes, each step is the step of one process; but not where ...
OTHER_STEPS = {
    *("gan", "mnist", "random_batches"),  # ... numbers are drawn beside the batch
    *("minibatches_of_a_rollout", "replay", "rollout"),  # ... likewise
    *("agents_by_name", "augmented_in_a_sibling", "meta_learning", "searched_batches", "self_play"),  # ... likewise
    "functions_by_name",  # ... each row is mixed with another one of its batch
    *("language_model_slices", "per_sample", "slices"),  # ... no loader makes the batches
    "carried_state",  # ... the state has the size of a whole batch
    *("optional_processes", "settings_at_the_top"),  # ... the script divides the batch itself
    *("accelerate_functions", "accelerate_trainer"),  # ... on Accelerate, whose batches are each process's own
}
# Scripts whose printed metrics are those of one process: all of them when the processes share each batch ...
SAME_METRICS = [
    *("best_so_far", "collected_predictions", "evaluation_by_batches", "evaluation_by_rows", "folds", "globals"),
    *("loaders_with_something_round_them", "phases", "train_flag", "training_sums", "uneven_epoch"),
    *("batches_of_a_class", "closures", "entry_without_torch", "frozen_backbone", "global_step", "loaders_by_phase"),
    *("plateau_of_the_training_loss", "prepare_device", "resumed", "tqdm_block", "training_meters"),
]
# ... and otherwise those of the first lines, which are printed before the weights have changed.
SAME_AT_FIRST = {
    "evaluation_by_batches": 3,
    "evaluation_by_rows": 1,
    "tqdm_block": 2,
    "train_flag": 4,
    "training_sums": 1,
    "uneven_epoch": 1,
}
WRONG_TOGETHER: dict[str, str] = {}


@dataclass(frozen=True)
class Trace:
    losses: list[float]
    weights: list[float]
    printed: str
    error: str | None


NOTHING = Trace([], [], "", "did not finish")


@dataclass(frozen=True)
class Runs:
    """What a script computed: before, after, on each of two ranks, and on rank 0 of two that share batches."""

    report: str
    before: Trace
    after: Trace
    ranks: tuple[Trace, Trace]
    sharing: Trace
    messages: str  # of all launches


@functools.cache
def runs() -> dict[str, Runs]:
    """Every script, run."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in NAMES:
            _lay_out(root, name)
        _alone(root, [(name, side) for name in NAMES for side in ("before", "after")])
        messages = _together(root, [(name, "both") for name in NAMES])
        messages += _together(root, [(name, "sharing") for name in NAMES if name not in OTHER_STEPS])
        return {
            name: Runs(
                (FIXTURES / "scripts" / name / "report.json").read_text(),
                _trace(root, name, "before", 0),
                _trace(root, name, "after", 0),
                (_trace(root, name, "both", 0), _trace(root, name, "both", 1)),
                _trace(root, name, "sharing", 0),
                messages,
            )
            for name in NAMES
        }


def _lay_out(root: Path, name: str) -> None:
    """The files before, and after: `test_fixtures` shows that the rewrite gives those."""
    before, after = (scripts.read(FIXTURES / "scripts" / name, side) for side in ("before", "after"))
    scripts.write(root / name / "before", before)
    scripts.write(root / name / "after", before | after)
    scripts.write(root / name / "both", before | after)
    if name not in OTHER_STEPS:
        _, sharing = scripts.rewrite(root / name / "sharing", before, Options(keep_global_batch=True))
        scripts.write(root / name / "sharing", sharing)


def _manifest(root: Path, jobs: list[tuple[str, str]]) -> Path:
    path = root / "manifest.json"
    listed = [{"folder": str(root / name / side), "trace": str(root / name / f"{side}.json")} for name, side in jobs]
    path.write_text(json.dumps(listed))
    return path


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": PYTHONPATH,
        "TQDM_DISABLE": "1",
    }


def _alone(root: Path, jobs: list[tuple[str, str]]) -> None:
    subprocess.run(
        [sys.executable, str(DRIVER), str(_manifest(root, jobs))], env=_environment(), timeout=LIMIT, check=False
    )


def _together(root: Path, jobs: list[tuple[str, str]]) -> str:
    """Run all jobs on two ranks; a world that breaks is started again behind the job that broke it.

    Returns what the launches print on standard error.
    """
    (root / "temporary").mkdir(exist_ok=True)  # else the scripts' folders are temporary ones, whose files do not count
    environment = {**_environment(), "TMPDIR": str(root / "temporary")}
    messages = ""
    launch = [sys.executable, "-m", "accelify", "launch", "--cpu", "--num-processes", "2", str(DRIVER)]
    while jobs:
        command = [*launch, str(_manifest(root, jobs))]
        done = subprocess.run(command, env=environment, timeout=LIMIT, capture_output=True, text=True, cwd=root)
        messages += done.stderr
        left = [index for index, job in enumerate(jobs) if any(_trace(root, *job, rank).error for rank in (0, 1))]
        if not left:
            break
        jobs = jobs[left[0] + 1 :]
    return messages


def _trace(root: Path, name: str, side: str, rank: int) -> Trace:
    path = root / name / f"{side}.json.{rank}"
    return Trace(**json.loads(path.read_text())) if path.exists() else NOTHING


def known(wrong: dict[str, str]) -> list[ParameterSet]:
    return [
        pytest.param(name, marks=[pytest.mark.xfail(strict=True, reason=wrong[name])] if name in wrong else [])
        for name in NAMES
    ]


@pytest.mark.parametrize("name", NAMES)
def test_one_process_computes_the_same_numbers(name: str) -> None:
    run = runs()[name]
    assert run.before.error is None
    assert run.after.error is None, run.after.error
    assert run.before.losses
    assert run.after.losses == run.before.losses
    assert run.after.weights == run.before.weights
    assert run.after.printed == run.before.printed


@pytest.mark.parametrize("name", known(WRONG_IN_TWO))
def test_two_processes_stay_together(name: str) -> None:
    run = runs()[name]
    first, second = run.ranks
    assert first.error is None, first.error
    assert second.error is None, second.error
    assert len(first.losses) == len(second.losses) >= 1
    assert first.weights == second.weights
    told = "the result is correct, but more processes make it no faster" in run.report
    assert (first.losses == second.losses) == told


@pytest.mark.parametrize("name", [p for p in known(WRONG_TOGETHER) if p.values[0] not in OTHER_STEPS])
def test_two_processes_that_share_the_batch_take_the_same_steps(name: str) -> None:
    run = runs()[name]
    assert run.sharing.error is None, run.sharing.error
    assert run.sharing.weights == pytest.approx(run.before.weights, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("name", SAME_METRICS)
def test_two_processes_that_share_the_batch_print_the_same_metrics(name: str) -> None:
    run = runs()[name]
    assert _numbers(run.sharing.printed) == pytest.approx(_numbers(run.before.printed), rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(("name", "lines"), SAME_AT_FIRST.items())
def test_two_processes_print_the_metrics_of_all_the_data(name: str, lines: int) -> None:
    run = runs()[name]
    expected = _numbers(run.before.printed, lines)
    assert expected
    for rank in run.ranks:
        assert _numbers(rank.printed, lines) == pytest.approx(expected, rel=1e-3, abs=1e-3)


def _numbers(printed: str, lines: int | None = None) -> list[float]:
    return [float(n) for n in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", "\n".join(printed.split("\n")[:lines]))]


@pytest.mark.parametrize("name", ["files_of_many_kinds", "written_once"])
def test_two_processes_write_what_one_writes(name: str) -> None:
    run = runs()[name]
    assert run.before.printed
    main, other = run.ranks
    assert main.printed == run.before.printed
    assert run.before.printed.startswith(other.printed)  # the main process alone asks for the files that it wrote


def test_no_file_is_opened_for_writing_by_both_processes() -> None:
    assert "opened the same file" not in runs()[NAMES[0]].messages
