"""Facts about modes: whether models compute as in evaluation where a loop runs."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.harmless import Harmless
from accelify.codemod.training.modes import Modes, only_evaluates
from tests.codemod.facts import MARK, Facts
from tests.codemod.training_scripts import training

DROPS = "model = nn.Sequential(nn.Linear(4, 1), nn.Dropout())\n"


def evaluates(facts: Facts) -> bool:
    loop = facts.here
    assert isinstance(loop, ast.For)
    return Modes(facts.program, facts.roles, facts.tracer, Harmless(facts.program, facts.roles)).evaluates(loop, None)


def loop(before: str, inside: str = "model(x)") -> Facts:
    return training(model=DROPS, end=f"{before}\nfor x, y in loader:  {MARK}\n    {inside}\n")


def test_where_no_model_has_modes() -> None:
    assert evaluates(training(end=f"for x, y in loader:  {MARK}\n    model(x)\n"))


@pytest.mark.parametrize("before", ["model.eval()", "model.train()\nmodel.eval()", "model.train(False)"])
def test_in_evaluation(before: str) -> None:
    assert evaluates(loop(before))


@pytest.mark.parametrize(
    "before", ["", "model.train()", "model.eval()\nmodel.train()", "other.eval()", "model.train(flag)"]
)
def test_not_in_evaluation(before: str) -> None:
    assert not evaluates(loop(before))


def test_the_mode_is_set_in_the_loop() -> None:
    assert evaluates(loop("", "model.eval()\n    model(x)"))


def test_the_mode_is_set_by_the_callers() -> None:
    text = f"def test():\n    for x, y in loader:  {MARK}\n        model(x)\nmodel.eval()\ntest()\n"
    assert evaluates(training(model=DROPS, end=text))
    assert not evaluates(training(model=DROPS, end=text + "model.train()\ntest()\n"))


EVALUATES = """\
import sys, torch
model = {made}
model.load_state_dict(torch.load("best.pt"))
model.eval()
with torch.no_grad():
    print(model(torch.ones(1)).argmax(1))
{end}
"""


@pytest.mark.parametrize(
    ("made", "end", "is_so"),
    [
        ("eval(sys.argv[1])()", "", True),
        ("globals()[sys.argv[1]]()", "print(model.state_dict())", True),
        ("eval(sys.argv[1])()", "model.fit()", False),
        ("eval(sys.argv[1])()", "model.train()", False),
        ("eval(sys.argv[1])()", "eval(sys.argv[2])(model)", False),
    ],
)
def test_a_script_that_only_evaluates_what_it_picks(made: str, end: str, is_so: bool) -> None:
    text = EVALUATES.format(made=made, end=end)
    assert only_evaluates(Facts(text).program) is is_so
    assert not only_evaluates(Facts(text.replace("model.eval()", "")).program)
    assert not only_evaluates(Facts(text.replace("torch.no_grad()", "open('a')")).program)
