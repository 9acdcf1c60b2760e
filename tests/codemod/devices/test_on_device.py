"""Facts about tensors that are on the process's device."""

from __future__ import annotations

import pytest

from accelify.codemod.devices.own_tensors import OnDevice
from tests.codemod.training_scripts import STEP, training


@pytest.mark.parametrize(
    ("expression", "there"),
    [
        ("x", True),
        ("model(x)", True),
        ("model(x).mean()", True),
        ("x + 1", True),
        ("torch.relu(x)", True),
        ("x.cpu()", False),
        ("model(x).detach().cpu()", False),
        ("torch.zeros(3)", False),
        ("other", False),
        ("3", False),
    ],
)
def test_what_is_there(expression: str, there: bool) -> None:
    facts = training(before="other = load()\n", step=f"use({expression})\n{STEP}")
    script = facts.script
    found = OnDevice(script.program, script.roles, script.tracer, script.prepared)
    assert found.holds(facts.call("use(").args[0]) is there
