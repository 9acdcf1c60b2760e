"""Facts about files, as rules are told of them."""

from __future__ import annotations

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
