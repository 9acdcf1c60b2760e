"""Facts about tensors that are on the process's device."""

from __future__ import annotations

import pytest

from accelify.codemod.devices.own_tensors import OnDevice, read_on_cpu
from tests.codemod.facts import Facts, texts
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


@pytest.mark.parametrize(
    ("call", "read"), [("x.numpy()", ["x"]), ("np.array(x)", ["x"]), ("plt.plot(x)", ["x"]), ("torch.cat(x)", [])]
)
def test_what_is_read_on_the_cpu(call: str, read: list[str]) -> None:
    facts = Facts(f"import torch\nimport numpy as np\nimport matplotlib.pyplot as plt\nx = torch.zeros(1)\n{call}\n")
    assert texts(read_on_cpu(facts.program, facts.call(call))) == read
