"""Training, as it is found."""

from __future__ import annotations

import dataclasses

import pytest

from accelify.codemod.training.loops.training import Training
from tests.codemod.training_scripts import training


def test_training_is_frozen() -> None:
    found = training().training
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.steps = ()  # type: ignore[misc]
    assert isinstance(found, Training)
