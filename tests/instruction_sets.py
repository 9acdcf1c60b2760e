"""With which instructions the CPU computes where whole scripts are proven: its best, or by `make soak` each it has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from accelify.verify.forking import Server

# For torch's own kernels, for oneDNN's and for MKL's, with the flag by which Linux calls what a CPU must have.
INSTRUCTIONS = {
    "": ("", {}),
    "default": ("", ("default", "SSE41", "SSE4_2")),
    "avx2": ("avx2", ("avx2", "AVX2", "AVX2")),
    "avx512": ("avx512f", ("avx512", "AVX512_CORE", "AVX512")),
}
VARIABLES = "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"
WANTED = os.environ.get("ACCELIFY_TEST_INSTRUCTION_SETS", "").split(",")
IS_SOAK = WANTED != [""]


@contextmanager
def serving(instructions: str) -> Iterator[Server]:
    """A server whose runs compute with these instructions; skips the test where the CPU has none of them."""
    flag, values = INSTRUCTIONS[instructions]
    if flag and flag not in Path("/proc/cpuinfo").read_text(encoding="utf-8").split():
        pytest.skip(f"this CPU has no {flag}")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in zip(VARIABLES, values, strict=False):
            patch.setenv(name, value)
        with Server() as server:
            yield server
