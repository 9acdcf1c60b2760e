"""Facts about loops with a number of rounds: do these ask for more batches than a process has?"""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.steps.ranges import overlong_rounds
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import STEP, script


@pytest.mark.parametrize(
    ("before", "head", "take", "found"),
    [
        ("n = len(rows) // 2", "batches = iter(loader)\n    for _ in range(n):", "next(batches)", ["n"]),
        ("n = 100 // 2", "batches = iter(loader)\n    for _ in range(1, n):", "batches.__next__()", ["n"]),
        ("n = 8", "batches = iter(loader)\n    for _ in range(len(loader)):", "next(batches)", []),
        ("n = 100 // 2", "batches = iter(loader)\n    for _ in range(n):", "next(iter(loader))", []),
        ("n = 100 // 2", "batches = iter(loader)\n    for _ in range(n):", "next(batches, (x, y))", []),
    ],
)
def test_rounds_that_ask_for_more_batches_than_a_shard_has(before: str, head: str, take: str, found: list[str]) -> None:
    text = script(before=f"rows = f()\n{before}", step=f"x, y = {take}\n{STEP}").replace("for x, y in loader:", head)
    assert texts(overlong_rounds(Facts(text).script.metrics)) == found
