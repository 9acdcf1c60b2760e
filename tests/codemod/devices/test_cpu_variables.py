"""Facts about variables that say that something goes to the CPU, beside what is trained on the device."""

from __future__ import annotations

import ast

from accelify.codemod.devices.cpu_variables import cpu_only
from tests.codemod.training_scripts import training

TRAINED = "x = x.to(device)\n"
LATER = "device = torch.device('cpu')\nz = model(x).to(device)\n"


def is_for_the_cpu(before: str, batch: str = TRAINED, end: str = "") -> bool:
    facts = training(before=before, batch=batch, end=end)
    devices = facts.script.devices
    statement = facts.statement("device = torch.device('cpu')")
    assert isinstance(statement, ast.Assign)
    trained = [m for m in devices.moves if devices.is_needless(m)]
    return cpu_only(facts.program, facts.tracer, statement, trained)


def test_a_variable_that_is_the_cpu_after_the_training() -> None:
    assert is_for_the_cpu("device = torch.device('cuda')\n", end=LATER)


def test_a_device_that_is_trained_on() -> None:
    assert not is_for_the_cpu("device = torch.device('cpu')\n")


def test_without_a_move_there_is_nothing_beside_it() -> None:
    assert not is_for_the_cpu("device = torch.device('cpu')\n", batch="")


def test_a_choice_is_not_for_good() -> None:
    assert not is_for_the_cpu("device = torch.device('cuda')\nif p:\n    device = torch.device('cpu')\n")
