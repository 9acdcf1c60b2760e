"""What `make demo` shows holds: its scripts are proven, whatever instructions the CPU computes with.

`make soak` runs them to their ends with each instruction set that the CPU has, by ACCELIFY_TEST_INSTRUCTION_SETS; else
it is the CPU's best, one script and one epoch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from accelify.verify.forking import Server
from accelify.verify.verdict import Status

ROOT = Path(__file__).parent.parent
# For torch's own kernels, for oneDNN's and for MKL's, with the flag by which Linux calls what a CPU must have.
INSTRUCTIONS = {
    "": ("", {}),
    "default": ("", ("default", "SSE41", "SSE4_2")),
    "avx2": ("avx2", ("avx2", "AVX2", "AVX2")),
    "avx512": ("avx512f", ("avx512", "AVX512_CORE", "AVX512")),
}
VARIABLES = "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"
WANTED = os.environ.get("ACCELIFY_TEST_INSTRUCTION_SETS", "").split(",")
IS_WHOLE = WANTED != [""]
# The libraries that the scripts need beside torch; importing transformers in each run takes longer than all the rest.
LIBRARIES = {"digits": "sklearn", "tutorial": "transformers"} if IS_WHOLE else {"digits": "sklearn"}
STEPS = None if IS_WHOLE else 24  # an epoch, its evaluation and one more


@pytest.fixture(scope="module", params=WANTED)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    flag, values = INSTRUCTIONS[request.param]
    if flag and flag not in Path("/proc/cpuinfo").read_text(encoding="utf-8").split():
        pytest.skip(f"this CPU has no {flag}")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in zip(VARIABLES, values, strict=False):
            patch.setenv(name, value)
        with Server() as server:
            yield server


@pytest.mark.parametrize("name", LIBRARIES)
def test_its_scripts_are_proven(name: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(LIBRARIES[name])
    monkeypatch.syspath_prepend(ROOT / "fixtures")
    import demo

    verdict = demo.proven(name, server, steps=STEPS)
    assert verdict.error is None
    assert [row for row in verdict.rows if row.status is Status.DIFFERS] == []
    assert verdict.is_whole is IS_WHOLE
    assert verdict.steps > 20
