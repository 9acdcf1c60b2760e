"""Facts about what a loop puts into its lists."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.collected import Collected
from accelify.codemod.training.harmless import Harmless
from tests.codemod.metrics.loops import in_loop


@pytest.mark.parametrize(
    ("value", "number", "plain"),
    [
        ("3", True, True),
        ("loss.item()", True, True),
        ("float(x)", True, True),
        ("named", True, True),
        ("loss.item() * 2", True, True),
        ("*x.tolist()", True, True),
        ("x", False, True),
        ("model(x)", False, True),
        ("x.cpu().numpy()", False, True),
        ("(x, y)", False, True),
        ("open(p)", False, False),
        ("unknown", False, False),
    ],
)
def test_numbers_and_what_processes_can_hand_each_other(value: str, number: bool, plain: bool) -> None:
    facts, loop = in_loop(f"named = loss.item()\nuse({value})")
    found = Collected(facts.program, facts.tracer, Harmless(facts.program, facts.roles), loop)
    node = facts.call("use(").args[0]
    assert (found.is_number(node), found.is_plain(node)) == (number, plain)
