"""Accelerate's own examples, rewritten, train as on Accelerate; its own tests pass as is said (`make soak`).

ACCELIFY_ACCELERATE_SOURCES names a copy of Accelerate's repository; without it nothing is run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.accelerate_examples.compare import EXAMPLES, compared
from benchmarks.accelerate_tests.expected import FILES, SCRIPTS
from benchmarks.accelerate_tests.run import outcomes

SOURCES = os.environ.get("ACCELIFY_ACCELERATE_SOURCES", "")


@pytest.mark.skipif(not SOURCES, reason="ACCELIFY_ACCELERATE_SOURCES is not set")
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_trains_as_on_accelerate(name: str, size: int) -> None:
    _, differences = compared(Path(SOURCES), name, size)
    assert differences == []


@pytest.mark.skipif(not SOURCES, reason="ACCELIFY_ACCELERATE_SOURCES is not set")
@pytest.mark.parametrize("name", [*SCRIPTS, *FILES])
def test_what_accelerate_tests_is_so_here_or_known_to_differ(name: str) -> None:
    """The files need the library `parameterized`."""
    counted = [one for one in outcomes(Path(SOURCES), [name]) if one.left_out is None]
    assert [one for one in counted if not one.is_as_expected] == []
    assert counted
