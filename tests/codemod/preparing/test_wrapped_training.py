"""Facts about what a wrapper round the model would break."""

from __future__ import annotations

import pytest

from accelify.codemod.options import ACCELERATE
from accelify.codemod.preparing.wrapped_training import WrappedTraining
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import STEP, script


def obstacles(step: str = STEP, **slots: str) -> list[str]:
    found = Facts(script(step=step, **slots), runtime=ACCELERATE).script
    assert found.wrapping is not None
    training = WrappedTraining(found.program, found.roles, found.tracer, found.training, found.wrapping)
    return [message for _, message in training.obstacles()]


def test_the_common_training_loop() -> None:
    assert obstacles() == []


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (STEP.replace("model(x)", "model.encode(x)"), "without the wrapper"),
        (STEP.replace("model(x)", "inner(x)"), "from before it was prepared"),
        (STEP.replace("model(x)", "x"), "cannot tell through which wrapped model"),
    ],
)
def test_training_past_the_wrapper(step: str, reason: str) -> None:
    assert any(reason in message for message in obstacles(step, model="inner = model\n"))


def test_a_model_that_is_taken_apart() -> None:
    assert obstacles(STEP.replace("model(x)", "model[0](x)"), model="model = nn.Sequential(model)\n")
