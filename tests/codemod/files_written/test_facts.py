"""Facts about files, as rules are told of them."""

from __future__ import annotations

import pytest

from accelify.codemod.files_written.facts import Written
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import training


def written(**slots: str) -> tuple[Written, Facts]:
    facts = training(**slots)
    found = facts.script.written
    assert isinstance(found, Written)
    return found, facts


def test_saves_and_who_does_them() -> None:
    found, _ = written(end="torch.save(model.state_dict(), p)\n")
    assert [s.saver for s in found.saves] == ["accelerator"]
    assert written()[0].saves == ()


@pytest.mark.parametrize(
    ("expression", "computes"),
    [("a + 1", True), ("len(a)", True), ("torch.cat(a)", True), ("unknown()", False), ("torch.randn(3)", False)],
)
def test_expressions_that_only_compute(expression: str, computes: bool) -> None:
    found, facts = written(end=f"use({expression})\n")
    assert found.only_computes(facts.call("use(").args[0]) is computes
