"""Facts about what every process runs, and equally often."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.certainty import Certainty, asks_for_one
from tests.codemod.facts import Facts

TEXT = """\
import argparse, torch
args = argparse.ArgumentParser().parse_args()
for epoch in range(10):
    {0}
"""


def certain(text: str) -> bool:
    facts = Facts(TEXT.format(text.replace("\n", "\n    ")))
    return Certainty(facts.program, facts.training, is_alike).of(facts.call("here()"))


def is_alike(test: ast.expr) -> bool:
    return "own" not in ast.unparse(test)


@pytest.mark.parametrize(
    "text",
    [
        "here()",
        "if epoch % 2 == 0:\n    here()",
        "if args.save:\n    here()",
        "for k in range(3):\n    here()",
        "with torch.no_grad():\n    here()",
    ],
)
def test_what_is_the_same_everywhere(text: str) -> None:
    assert certain(text)


@pytest.mark.parametrize(
    "text",
    [
        "if own < 3:\n    here()",
        "here() if own else 3",
        "if args.rank == 0:\n    here()",
        "if is_main_process:\n    here()",
        "try:\n    f()\nexcept E:\n    here()",
        "g = lambda: here()",
        "while own:\n    here()",
    ],
)
def test_what_depends_on_a_process(text: str) -> None:
    assert not certain(text)


def test_through_functions() -> None:
    assert certain("def save():\n    here()\nif args.save:\n    save()")
    assert not certain("def save():\n    here()\nif own:\n    save()")
    assert not certain("def save():\n    here()\nother(save)")
    assert not certain("def save():\n    here()")  # that nothing calls


def test_questions_for_one_process() -> None:
    facts = Facts("use(rank == 0, is_main, args.local_rank, epoch, name == 'main')\n")
    assert [asks_for_one(a) for a in facts.call("use(").args] == [True, True, True, False, False]


@pytest.mark.parametrize(("beside", "expected"), [("loss.backward()", True), ("step(loss)", True), ("pass", False)])
@pytest.mark.parametrize("around", ["if own:", "while own:", "try: f()\nexcept E:"])
def test_where_all_processes_train_all_come_by(around: str, beside: str, expected: bool) -> None:
    step = "def step(loss):\n    loss.backward()\n    optimizer.step()\n"
    model = "model = torch.nn.Linear(3, 3)\noptimizer = torch.optim.SGD(model.parameters())\n"
    assert certain(f"{model}{step}{around}\n    {beside}\n    here()") is expected
    assert not certain(f"{model}{step}if own:\n    {beside}\nelse:\n    here()")
