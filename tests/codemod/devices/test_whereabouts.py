"""Facts about where the tensors of expressions came to be, through names, parts and calls."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.devices.conflicts import Meetings
from accelify.codemod.devices.origins import Known, Origins
from accelify.codemod.devices.own_tensors import Homemade
from accelify.codemod.devices.parts import Portions, is_open
from accelify.codemod.devices.single_tensors import Shapes
from accelify.codemod.devices.unprepared_models import Cold
from accelify.codemod.devices.whereabouts import Whereabouts
from accelify.codemod.preparing.tensors import Tensors
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import STEP, training


def asked(expression: str, **slots: str) -> tuple[Whereabouts, ast.expr, Facts]:
    facts = training(step=f"use({expression})\n{STEP}", **slots)
    script = facts.script
    tensors = Tensors(script.program, script.roles, script.prepared)
    found = Whereabouts(script.program, script.roles, script.tracer, script.prepared, tensors)
    assert isinstance(found, Portions)
    assert isinstance(found, Origins)
    return found, facts.call("use(").args[0], facts


@pytest.mark.parametrize("expression", ["x", "model(x)", "model(x).sum()", "x * 2"])
def test_what_is_on_the_device(expression: str) -> None:
    found, node, _ = asked(expression)
    assert found.of(node) == {Known.THERE}


@pytest.mark.parametrize("expression", ["torch.zeros(3)", "made", "made + 1", "x.cpu()"])
def test_what_is_not(expression: str) -> None:
    found, node, _ = asked(expression, before="made = torch.ones(2)\n")
    assert Known.THERE not in found.of(node)


def test_what_is_no_tensor() -> None:
    found, node, _ = asked("3")
    assert found.of(node) == frozenset()


def test_single_tensors() -> None:
    found, node, facts = asked("torch.zeros(3), [torch.zeros(1)], 'a', unknown")
    assert isinstance(node, ast.Call | ast.expr)
    shapes = Shapes(found)
    assert [shapes.is_tensor(a) for a in facts.call("use(").args] == [True, False, False, False]


def test_containers_as_arguments() -> None:
    assert is_open(Facts("f(*a)").call("f(*a)"))
    assert is_open(Facts("f(**a)").call("f(**a)"))
    assert not is_open(Facts("f(a, b=c)").call("f(a"))


def test_networks_that_run_unprepared() -> None:
    found, node, facts = asked("frozen(x)", before="frozen = nn.Linear(4, 4)\n")
    assert isinstance(node, ast.Call)
    cold = Cold(found.tensors, facts.tracer)
    assert [ast.unparse(c) for c in cold.made_at(node) or ()] == ["nn.Linear(4, 4)"]
    assert not cold.made_at(facts.call("model(x)"))


def test_what_is_amiss() -> None:
    found, _, _ = asked("x")
    assert Meetings(found).is_all_there(frozenset({Known.THERE}))
    assert not Meetings(found).is_all_there(frozenset())
    assert Meetings(found).is_there(frozenset({Known.THERE}))


def test_what_a_model_is_given_of_the_script_s_own() -> None:
    _, _, facts = asked("x", batch="x = torch.zeros(2, 4)\n")
    script = facts.script
    tensors = Tensors(script.program, script.roles, script.prepared)
    own = Homemade(script.devices.on_device, tensors, script.training.backwards).find()
    assert own is not None
    _, _, other = asked("x")
    script = other.script
    tensors = Tensors(script.program, script.roles, script.prepared)
    assert Homemade(script.devices.on_device, tensors, script.training.backwards).find() is None
