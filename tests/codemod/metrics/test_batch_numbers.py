"""Facts about data that a sharded loop picks by the number of its batch."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.batch_numbers import picked_by_number
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import STEP, script


@pytest.mark.parametrize(
    ("picked", "found"),
    [
        ("y = labels[i]\n", ["labels[i]"]),
        ("y = labels[0]\n", []),
        ("z = labels[i]\n", []),
        ("y = x[i]\n", []),
    ],
)
def test_what_is_picked_for_the_loss(picked: str, found: list[str]) -> None:
    text = script(before="labels = load()\n", step=picked + STEP).replace(
        "for x, y in loader", "for i, (x, y) in enumerate(loader)"
    )
    assert texts(node for _, node in picked_by_number(Facts(text).script.metrics)) == found
