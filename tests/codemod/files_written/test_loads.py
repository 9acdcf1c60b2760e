"""Facts about loads that may read what was saved before, in the same run."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.files_written.loads import is_loaded_later, leads_to, may_be_of
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import training

SAVE = "torch.save(model.state_dict(), 'best.pt')"


def loaded(before: str = "", end: str = "") -> tuple[Facts, ast.Call, ast.expr, ast.Call]:
    facts = training(before=before, end_of_epoch=SAVE, end=end)
    load = facts.call("torch.load(")
    return facts, load, load.args[0], facts.call("torch.save(")


@pytest.mark.parametrize(
    ("before", "end", "may"),
    [
        ("", "torch.load('best.pt')\n", True),
        ("", "torch.load('other.pt')\n", False),
        ("torch.load('best.pt')\n", "", False),  # which is over before anything is saved
        ("", "p = 'best.pt'\ntorch.load(p)\n", True),
    ],
)
def test_whether_a_load_may_read_it(before: str, end: str, may: bool) -> None:
    facts, load, path, save = loaded(before, end)
    assert may_be_of(facts.script.written.stored, load, path, save) is may
    assert is_loaded_later(facts.script.written.stored, load, path, save) is may


def test_calls_that_lead_to_others() -> None:
    facts = training(before=f"def f():\n    g()\ndef g():\n    {SAVE}\ndef h(): pass\n", end="f()\nh()\n")
    save = facts.call("torch.save(")
    assert leads_to(facts.script.written.stored, facts.call("f()"), save)
    assert not leads_to(facts.script.written.stored, facts.call("h()"), save)
