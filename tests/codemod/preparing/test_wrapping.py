"""Facts about where a prepared model is its wrapper, for a runtime that wraps it."""

from __future__ import annotations

from accelify.codemod.options import ACCELERATE
from accelify.codemod.preparing.wrapping import Wrapping
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import script


def wrapping(**slots: str) -> tuple[Wrapping, Facts]:
    facts = Facts(script(**slots), runtime=ACCELERATE)
    found = facts.script.wrapping
    assert found is not None
    return found, facts


def test_a_runtime_that_does_not_wrap() -> None:
    assert Facts(script()).script.wrapping is None


def test_after_it_is_prepared_a_model_is_its_wrapper() -> None:
    found, facts = wrapping(end="use(model, optimizer)\n")
    model, optimizer = facts.call("use(").args
    assert found.is_wrapper(model)
    assert not found.is_wrapper(optimizer)
    assert not found.is_wrapper(facts.expression("model.parameters()"))


def test_members_that_the_wrapper_does_not_have() -> None:
    found, _ = wrapping(end="model.weight.data\nmodel.eval()\nmodel.state_dict()\n")
    assert "model" in texts(found.unwrapped)
    found, _ = wrapping(end="model.eval()\n")
    assert texts(found.unwrapped) == []
