"""Facts about what every process runs, and equally often."""

from __future__ import annotations

import pytest

from accelify.codemod.training.certainty import Certainty, asks_for_one
from tests.codemod.facts import Facts

TEXT = """\
import argparse, torch, random
args = argparse.ArgumentParser().parse_args()
lr, loss, best = 0.1, f(), 3
drawn = random.random()
for epoch in range(10):
    {0}
"""


def certain(text: str) -> bool:
    facts = Facts(TEXT.format(text.replace("\n", "\n    ")))
    return Certainty(facts.program, facts.tracer, facts.training).of(facts.call("here()"))


@pytest.mark.parametrize(
    "text",
    [
        "here()",
        "if epoch % 2 == 0:\n    here()",
        "if args.save:\n    here()",
        "if lr > 0:\n    here()",
        "for k in range(3):\n    here()",
        "if len(args.names) > 2:\n    here()",
        "with torch.no_grad():\n    here()",
    ],
)
def test_what_is_the_same_everywhere(text: str) -> None:
    assert certain(text)


@pytest.mark.parametrize(
    "text",
    [
        "if loss < best:\n    here()",
        "if f():\n    here()",
        "if drawn > 0.5:\n    here()",
        "if args.rank == 0:\n    here()",
        "if is_main_process:\n    here()",
        "try:\n    f()\nexcept E:\n    here()",
        "g = lambda: here()",
        "while f():\n    here()",
    ],
)
def test_what_depends_on_a_process(text: str) -> None:
    assert not certain(text)


def test_through_functions() -> None:
    assert certain("def save():\n    here()\nif args.save:\n    save()")
    assert not certain("def save():\n    here()\nif loss < best:\n    save()")
    assert not certain("def save():\n    here()\nother(save)")
    assert not certain("def save():\n    here()")  # that nothing calls


def test_questions_for_one_process() -> None:
    facts = Facts("use(rank == 0, is_main, args.local_rank, epoch, name == 'main')\n")
    assert [asks_for_one(a) for a in facts.call("use(").args] == [True, True, True, False, False]
