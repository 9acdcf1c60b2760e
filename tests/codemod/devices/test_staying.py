"""Whether all moves of a script stay, and how its tensors come together that are in two memories."""

from __future__ import annotations

import pytest

from accelify.codemod.devices.staying import Together
from tests.codemod.training_scripts import STEP, training

MOVED = "x, y = x.cuda(), y.cuda()\n"


@pytest.mark.parametrize(
    ("model", "step", "stays"),
    [
        ("model.cuda()", MOVED + STEP, False),
        ("if torch.cuda.is_available():\n    model.cuda()", MOVED + STEP, False),
        ("if flag:\n    model.cuda()", MOVED + STEP, True),
        ("model.cuda() if flag else model", MOVED + STEP, True),
        ("model.cuda()", "x = x.cuda()\n" + STEP.replace("model(x), y", "model(x).cpu(), y"), True),
    ],
)
def test_moves_stay_where_a_loader_would_change_what_they_do(model: str, step: str, stays: bool) -> None:
    found = training(before="flag = bool(input())", model=model, step=step).script.devices
    assert found.keeps_moves is stays
    assert found.together == Together()


def test_a_script_of_the_cpu_has_its_tensors_in_two_memories() -> None:
    found = training(before="scale = torch.ones(4)", step=STEP.replace("model(x)", "model(x * scale)")).script.devices
    assert not found.keeps_moves
    assert found.together.mixed is not None
    assert found.together.homemade is None
