"""Facts about what one process alone may run."""

from __future__ import annotations

import pytest

from accelify.codemod.files_written.one_process import Effect, OneProcess
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import training

BEFORE = """\
import json
def log(x):
    with open("log.txt", "a") as f:
        f.write(x)
def other(x):
    return json.dumps(x)
def both(x):
    x.backward()
"""


def calm(end: str) -> tuple[OneProcess, Facts]:
    facts = training(before=BEFORE, end=f"{end}\n")
    found = facts.script.written.guarding.alone
    assert isinstance(found, OneProcess)
    return found, facts


@pytest.mark.parametrize(
    ("statement", "may"),
    [
        ("json.dump(a, open(p, 'w'))", True),
        ("a = json.dumps(b)", True),
        ("if a:\n    json.dump(a, open(p, 'w'))", True),
        ("for c in [1, 2]:\n    json.dumps(c)", True),
        ("with open(p, 'w') as f:\n    f.write('x')", True),
        ("pass", True),
        ("log('a')", False),  # what it writes is guarded inside, where the accelerator reaches
        ("both(z)", False),
        ("model(z)", False),
        ("unknown()", False),
        ("torch.randn(3)", False),
        ("for z in loader:\n    log(z)", False),
        ("while a:\n    log('c')", False),
        ("a.b = 1", False),
    ],
)
def test_what_may_run_in_one_process(statement: str, may: bool) -> None:
    found, facts = calm(statement)
    assert found.may(facts.files[0].tree.body[-1]) is may
    assert not found.may(facts.files[0].tree.body[-1], [facts.files[0].tree.body[-1]])


def test_effects_of_functions() -> None:
    found, facts = calm("other('a')\nboth(b)\njson.dumps(c)")
    assert found.effect(facts.call("other('a')")) is Effect.NOTHING
    assert found.effect(facts.call("both(b)")) is None
    assert found.effect(facts.call("json.dumps(c)")) is Effect.NOTHING


def test_a_save_that_the_accelerator_does() -> None:
    found, facts = calm("torch.save(a, p)\ntorch.save(a, open(p, 'wb'))")
    assert found.becomes_a_save(facts.call("torch.save(a, p)"))
    assert not found.becomes_a_save(facts.call("torch.save(a, open("))


def test_what_may_be_a_bar_of_a_figure_is_drawn_by_all() -> None:
    found, facts = calm("unknown.bar([1], [2])\nimport visdom\nvisdom.Visdom().bar([1])")
    assert found.effect(facts.call("unknown.bar")) is not Effect.WRITES
    assert found.effect(facts.call("visdom.Visdom().bar")) is Effect.WRITES
