"""`rewrite --verify` writes what is proven and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from accelify.codemod.result import FileResult, Status
from accelify.verify import gate
from accelify.verify.forking import Server
from tests.verify import scripts


def test_what_is_not_proven_is_declined_with_the_reasons(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(scripts.RANDOM_BATCHES)
    sabotaged = scripts.RANDOM_BATCHES_MIGRATED.replace("5 + accelerator.process_index", "5").encode()
    before = script.read_bytes()
    program = (FileResult(str(script), Status.MIGRATED, before, sabotaged),)
    ((result,),) = gate.keep_proven([program], lambda words: None, server)
    assert (result.status, result.after) == (Status.DECLINED, before)
    assert [note.rule for note in result.notes] == ["verify"]
    assert "data on 2: ranks 0 and 1 compute on the same data" in result.notes[0].message
    assert script.read_bytes() == before


def test_the_command_writes_a_script_that_is_proven(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(scripts.CLASSIFIER)
    command = [sys.executable, "-m", "accelify", "rewrite", "--verify", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "accelerator.backward(loss)" in (tmp_path / "train.py").read_text()
    assert "rewritten, 2 processes" in done.stderr
