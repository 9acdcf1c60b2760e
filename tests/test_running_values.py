"""What is reduced of running values comes out on two processes as it does on one: each spelling, run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelify.codemod.result import Status
from accelify.codemod.rewrite import Options, rewrite_source
from tests.codemod.running_values import REDUCED, script
from tests.interpreters import PYTHONPATH

BY_ROUNDS = {"average"}  # forgets by the round, of which each of two processes has half as many


def printed(folder: Path, text: bytes, *launch: str) -> list[float]:
    """The numbers that a script prints."""
    (folder / "train.py").write_bytes(text)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": PYTHONPATH}
    command = [sys.executable, *launch, "train.py"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return [float(line) for line in done.stdout.split()]


def test_two_processes_print_the_numbers_of_one(tmp_path: Path) -> None:
    before = script(REDUCED, "print(float(^))").encode()
    result = rewrite_source("train.py", before, Options())
    assert result.status is Status.MIGRATED
    expected = printed(tmp_path, before)
    assert len(expected) == 2 * len(REDUCED)
    assert printed(tmp_path, result.after) == expected
    both = printed(tmp_path, result.after, "-m", "accelify", "launch", "--cpu", "--num-processes", "2")
    wrong = {
        key: (one, two)
        for key, one, two in zip([*REDUCED, *REDUCED], expected, both, strict=True)
        if two != pytest.approx(one, rel=1e-5)
    }
    assert set(wrong) == BY_ROUNDS
