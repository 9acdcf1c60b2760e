"""Everything in fixtures/runnable is proven, from its first to its last step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from accelify.verify.experiment import Request
from accelify.verify.forking import Server
from accelify.verify.prove import prove
from tests.verify.conftest import LIMITS, differing

RUNNABLE = Path(__file__).parent.parent.parent / "fixtures" / "runnable"
FOLDERS = sorted(path.parent for path in RUNNABLE.glob("*/train.py"))
# The libraries that a script needs beside torch, and that not every environment has.
NEEDS = {"digits": ["sklearn"], "tutorial": ["transformers"]}
ARGUMENTS = {"digits": ("--epochs", "1")}


def test_there_is_something_to_prove() -> None:
    assert FOLDERS


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_it_is_proven(folder: Path, server: Server) -> None:
    for library in NEEDS.get(folder.name, []):
        pytest.importorskip(library)
    limits = replace(LIMITS, seconds=300.0)
    request = Request(folder / "train.py", ARGUMENTS.get(folder.name, ()), limits=limits, folder=folder)
    verdict = prove(request, lambda words: None, server)
    assert differing(verdict) == []
    assert verdict.is_whole
    assert verdict.steps > 20
