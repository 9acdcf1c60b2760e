"""What a rewrite gives does not depend on where objects happen to lie in memory, or on the hash of a text."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.interpreters import PYTHONPATH, ROOT

# Every so many fixtures are rewritten; `make soak` asks for all of them, and `test_fixtures` compares each with what is
# kept, whatever the hash seed of the run.
EVERY = os.environ.get("ACCELIFY_TEST_EVERY", "12")
REWRITE_ALL = """\
import sys
kept = [object() for _ in range(int(sys.argv[1]))]  # other objects come to lie elsewhere
from pathlib import Path
from tempfile import TemporaryDirectory
from accelify.report.json import render
from tests import scripts
for kind in ("scripts", "declined"):
    for name in scripts.names(kind)[:: int(sys.argv[2])]:
        with TemporaryDirectory() as folder:
            results, after = scripts.rewrite(Path(folder), scripts.read(scripts.FIXTURES / kind / name, "before"))
        print(name, sorted(after.items()), render(results, written=True))
"""


def rewritten(hash_seed: int, more_objects: int) -> str:
    """The new text and the report of every fixture, from an interpreter of its own."""
    command = [sys.executable, "-c", REWRITE_ALL, str(more_objects), EVERY]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": PYTHONPATH}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def test_every_interpreter_gives_the_same() -> None:
    first = rewritten(hash_seed=1, more_objects=0)
    assert "accelerator" in first
    assert rewritten(hash_seed=2, more_objects=12345) == first
