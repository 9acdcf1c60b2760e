"""Accelerate's own examples, rewritten, train as they do on Accelerate (`make soak`).

ACCELIFY_ACCELERATE_SOURCES names a copy of Accelerate's repository; without it nothing is run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.accelerate_examples.compare import EXAMPLES, compared

SOURCES = os.environ.get("ACCELIFY_ACCELERATE_SOURCES", "")


@pytest.mark.skipif(not SOURCES, reason="ACCELIFY_ACCELERATE_SOURCES is not set")
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_trains_as_on_accelerate(name: str, size: int) -> None:
    _, differences = compared(Path(SOURCES), name, size)
    assert differences == []
