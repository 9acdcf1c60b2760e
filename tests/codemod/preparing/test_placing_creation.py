"""Facts about when the accelerator can be created: what must not come before it."""

from __future__ import annotations

from accelify.codemod.preparing.placing import Start
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import training


def start(**slots: str) -> tuple[Start, Facts]:
    facts = training(**slots)
    found = facts.script
    return Start(found.program, found.roles, found.training, found.preparation, found.reach), facts


def test_what_draws_before_a_statement() -> None:
    found, facts = start(before="a = 1\nb = torch.randn(3)\nc = 2\n")
    assert not found.draws_before(facts.statement("a = 1"))
    assert found.draws_before(facts.statement("c = 2"))


def test_a_model_draws_its_weights() -> None:
    found, facts = start(set_up="late = 1\n")
    assert found.draws_before(facts.statement("late = 1"))


def test_what_needs_the_accelerator_before_a_statement() -> None:
    found, facts = start(before="a = 1\n", end="last = 1\n")
    assert not found.is_needed_before(facts.statement("a = 1"))
    assert found.is_needed_before(facts.statement("last = 1"))


def test_a_device_is_the_accelerator_s() -> None:
    found, facts = start(before="device = torch.device('cuda')\na = 1\n")
    assert found.is_needed_before(facts.statement("a = 1"))
