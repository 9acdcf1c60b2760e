"""Facts about backward passes: which wrapped models they go through, and by which calls."""

from __future__ import annotations

import pytest

from accelify.codemod.options import ACCELERATE
from accelify.codemod.preparing.wrapped_training import Graph, Graphs
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import STEP, script


def graphs(step: str = STEP, **slots: str) -> tuple[Graphs, Facts]:
    facts = Facts(script(step=step, **slots), runtime=ACCELERATE)
    wrapping = facts.script.wrapping
    assert wrapping is not None
    return Graphs(facts.program, facts.tracer, wrapping), facts


def graph(step: str = STEP, **slots: str) -> Graph:
    found, facts = graphs(step, **slots)
    return found.of(facts.script.training.backwards[0])


def test_a_forward_pass() -> None:
    (calls,) = graph().forwards.values()
    assert texts(c for c in calls if c is not None) == ["model(x)"]


def test_through_names() -> None:
    found = graph(STEP.replace("model(x)", "out").replace("loss =", "out = model(x)\nloss =", 1))
    assert len(found.forwards) == 1


def test_a_method_of_the_model_s_own() -> None:
    found = graph(STEP.replace("model(x)", "model.encode(x)"))
    assert texts(call for _, call in found.methods) == ["model.encode(x)"]
    assert found.forwards == {}


@pytest.mark.parametrize("end", [".detach()", ".item()"])
def test_where_gradients_end(end: str) -> None:
    assert graph(STEP.replace("model(x)", f"model(x){end}")).forwards == {}


def test_a_model_by_its_old_name() -> None:
    found = graph(STEP.replace("model(x)", "inner(x)"), model="inner = model\n")
    assert texts(found.bypasses) == ["inner(x)"]
