"""What `make demo` shows holds: its scripts are proven, whatever instructions the CPU computes with.

`make soak` runs them to their ends with each instruction set that the CPU has, and proves every script of the fixtures,
by ACCELIFY_TEST_INSTRUCTION_SETS; else it is the CPU's best, one script and one epoch.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from accelify.verify.experiment import Request
from accelify.verify.forking import Server
from accelify.verify.prove import prove
from accelify.verify.runs import DRIVEN
from accelify.verify.verdict import Status, Verdict
from tests.instruction_sets import IS_SOAK, WANTED, serving
from tests.scripts import FIXTURES, MAIN, names

# The libraries that the scripts need beside torch; importing transformers in each run takes longer than all the rest.
LIBRARIES = {"digits": "sklearn", "tutorial": "transformers"} if IS_SOAK else {"digits": "sklearn"}
STEPS = None if IS_SOAK else 24  # an epoch, its evaluation and one more
# What trains only under another launcher, with a process for each GPU, or with what a model hub has.
UNTRAINED = ("spawned", "torchrun", "torchrun_trainer", "tutorial", "tutorial_device_elsewhere", "tutorial_in_main")


@pytest.fixture(scope="module", params=WANTED)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with serving(request.param) as server:
        yield server


def differing(verdict: Verdict) -> list[str]:
    return list(dict.fromkeys(row.name for row in verdict.rows if row.status is Status.DIFFERS))


@pytest.mark.parametrize("name", LIBRARIES)
def test_its_scripts_are_proven(name: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(LIBRARIES[name])
    monkeypatch.syspath_prepend(FIXTURES)
    import demo

    verdict = demo.proven(name, server, steps=STEPS)
    assert verdict.error is None
    assert differing(verdict) == []
    assert verdict.is_whole is IS_SOAK
    assert verdict.steps > 20


@pytest.mark.skipif(not IS_SOAK, reason="make soak proves them")
@pytest.mark.parametrize("name", names("scripts"))
def test_every_fixture_is_proven(name: str, server: Server, tmp_path: Path) -> None:
    source = FIXTURES / "scripts" / name
    folder = shutil.copytree(source / "before" if (source / "before").is_dir() else source, tmp_path / name)
    script = folder / (MAIN if (folder / MAIN).exists() else "before.py")
    verdict = prove(Request(script, limits=DRIVEN, folder=folder), lambda words: None, server)
    if name in UNTRAINED:
        assert (verdict.error or "").startswith("the original ")
        return
    assert verdict.error is None
    assert differing(verdict) == []
