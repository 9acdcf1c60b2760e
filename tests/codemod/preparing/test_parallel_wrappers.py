"""Facts about calls that wrap a model for several GPUs."""

from __future__ import annotations

import pytest

from accelify.codemod.preparing.parallel_wrappers import Wrappers
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import training

PLAIN = "class Mine(nn.DataParallel):\n    def __getattr__(self, name):\n        return getattr(self.module, name)\n"
OTHER = "class Mine(nn.DataParallel):\n    def forward(self, x):\n        return x\n"


def found(facts: Facts) -> list[str]:
    script = facts.script
    wrappers = Wrappers(script.program, script.files, script.run.run, script.preparation.models).find()
    assert list(script.wrappers) == wrappers
    return texts(wrappers)


@pytest.mark.parametrize("call", ["nn.DataParallel(model)", "nn.DataParallel(module=model, device_ids=[0])"])
def test_wrappers_of_the_library(call: str) -> None:
    assert found(training(model=f"model = {call}\n")) == [call]


def test_plain_wrappers_of_the_project_s_own() -> None:
    assert found(training(before=PLAIN, model="model = Mine(model)\n")) == ["Mine(model)"]
    assert found(training(before=OTHER, model="model = Mine(model)\n")) == []


def test_no_wrapper() -> None:
    assert found(training(model="model = nn.Sequential(model)\n")) == []
