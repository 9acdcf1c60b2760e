"""Facts about calls in a training loop that only evaluate."""

from __future__ import annotations

import pytest

from accelify.codemod.training.randomness.evaluating_calls import Evaluations
from tests.codemod.facts import Facts

EVALUATED = """\
import torch
from torch import nn
def score(model, x):
    return model(x + torch.rand(3)).mean()
model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters())
x, scores, best = torch.ones(4, 3), [], 0
for step in range(100):
    {step}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {end}
"""
STEP_ALONE = "loss = model(x).sum()"


@pytest.mark.parametrize(
    ("step", "end", "kind"),
    [
        (STEP_ALONE, "print(score(model, x))", "full"),
        (STEP_ALONE, "found = score(model, x)\n    best = max(best, found)\n    print(best)", "full"),
        (STEP_ALONE, "scores.append(score(model, x))", "full"),
        ("loss = score(model, x)", "", "random"),
        ("loss = model(x).sum() + best", "best = score(model, x)", "random"),
        ("loss = model(x).sum()", "x[0] = score(model, x)", "random"),
        ("loss = model(x + torch.rand(3)).sum()", "", "random"),
    ],
)
def test_draws_of_an_evaluation(step: str, end: str, kind: str) -> None:
    facts = Facts(EVALUATED.format(step=step, end=end))
    assert {d.kind for d in facts.training.data} == {kind}


def test_what_is_only_run_by_such_calls() -> None:
    facts = Facts(EVALUATED.format(step=STEP_ALONE, end="print(score(model, x))"))
    frames = {facts.program.frame(b) for b in facts.training.backwards}
    evaluations = Evaluations(facts.program, facts.roles, frames)
    assert evaluations.hold(facts.call("torch.rand(3)"))
    assert not evaluations.hold(facts.call("model(x).sum()"))


def test_a_loop_of_their_own() -> None:
    facts = Facts(EVALUATED.format(step=STEP_ALONE, end="print(x)\nfor each in x:\n    print(model(each))\nmodel(x)"))
    frames = {facts.program.frame(b) for b in facts.training.backwards}
    evaluations = Evaluations(facts.program, facts.roles, frames)
    assert evaluations.have_loop(facts.call("model(each)"))
    assert not evaluations.have_loop(facts.call("print(x)"))
