"""Scripts rewritten with `--runtime accelerate` train the same on the installed Accelerate, and ranks stay equal."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from accelify.codemod.options import ACCELERATE
from accelify.codemod.result import Status
from accelify.codemod.rewrite import Options, rewrite_together
from tests import scripts
from tests.interpreters import PYTHONPATH
from tests.scripts import FIXTURES

DRIVER = Path(__file__).with_name("run_traced.py")
LIMIT = 1200  # seconds; only a deadlock ever takes so long
# tutorial_other_names is the tutorial's script, with data of its own
NAMES = ["tutorial_other_names", "mnist", "trainer_class", "trainer_with_a_base", "gan", "model_members", "amp_bf16"]
Trace = dict[str, object]


@functools.cache
def runs() -> dict[tuple[str, str], Trace]:
    """What each script computed: `before`, `after`, and `0` and `1` for the ranks of a world of two."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in NAMES:
            before = scripts.read(FIXTURES / "scripts" / name, "before")
            results, after = scripts.rewrite(root / name / "after", before, Options(runtime=ACCELERATE))
            assert {r.status for r in results} == {Status.MIGRATED}
            for side, files in (("before", before), ("after", after), ("both", after)):
                scripts.write(root / name / side, files)
        run(root, [sys.executable], ["before", "after"])
        run(root, [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"], ["both"])
        found = {(name, side): trace(root, name, side, 0) for name in NAMES for side in ("before", "after")}
        return found | {(name, str(rank)): trace(root, name, "both", rank) for name in NAMES for rank in (0, 1)}


def run(root: Path, launch: list[str], sides: list[str]) -> None:
    manifest = root / "manifest.json"
    jobs = [{"folder": str(root / n / s), "trace": str(root / n / f"{s}.json")} for n in NAMES for s in sides]
    manifest.write_text(json.dumps(jobs))
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "ACCELERATE_USE_CPU": "true",
        "PYTHONPATH": PYTHONPATH,
    }
    command = [*launch, str(DRIVER), str(manifest)]
    subprocess.run(command, env=environment, timeout=LIMIT, check=False, capture_output=True, cwd=root)


def trace(root: Path, name: str, side: str, rank: int) -> Trace:
    path = root / name / f"{side}.json.{rank}"
    return dict(json.loads(path.read_text())) if path.exists() else {"error": "did not run"}


@pytest.mark.parametrize("name", NAMES)
def test_one_process_computes_the_same_numbers(name: str) -> None:
    before, after = runs()[name, "before"], runs()[name, "after"]
    assert after["error"] is None, after["error"]
    assert before["losses"]
    if name != "amp_bf16":  # Accelerate's autocast turns what a model gives back into float32
        assert after == before


@pytest.mark.parametrize("name", NAMES)
def test_two_ranks_hold_the_same_parameters_at_every_step(name: str) -> None:
    ranks = [runs()[name, str(rank)] for rank in (0, 1)]
    assert [r["error"] for r in ranks] == [None, None]
    assert ranks[0]["weights"]
    assert ranks[0]["weights"] == ranks[1]["weights"]
    assert ranks[0]["losses"] != ranks[1]["losses"]


@pytest.mark.parametrize("name", NAMES)
def test_a_second_run_changes_nothing(name: str, tmp_path: Path) -> None:
    options = Options(runtime=ACCELERATE)
    _, after = scripts.rewrite(tmp_path, scripts.read(FIXTURES / "scripts" / name, "before"), options)
    scripts.write(tmp_path, after)
    with scripts.inside(tmp_path):
        assert {r.status for r in rewrite_together((scripts.MAIN,), options)} == {Status.UNCHANGED}
