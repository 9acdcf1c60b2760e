"""Facts about conditions that leave out what all ranks do together."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.comparisons import Answer
from accelify.codemod.metrics.joint_steps import JointSteps
from accelify.codemod.semantics.control_flow import choices
from tests.codemod.training_scripts import STEP, training


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("if bad: continue\n" + STEP, Answer.ANY),
        ("if bad:\n    print(1)\n    left += 1\n    optimizer.zero_grad()\n    break\n" + STEP, Answer.ANY),
        (STEP.replace("optimizer.step()", "if bad: pass\nelse: optimizer.step()"), Answer.ANY),
        (STEP.replace("optimizer.step()", "if not bad: optimizer.step()"), Answer.ALL),
        ("if bad:\n    kept.append(x)\n    continue\n" + STEP, None),
        ("if bad: raise ValueError\n" + STEP, None),
        ("if bad: print(1)\n" + STEP, None),
        (STEP.replace("optimizer.step()", "if bad: optimizer.step()\nelse: model(x).sum().backward()"), None),
    ],
)
def test_what_only_leaves_out_a_step(asked: str, answer: Answer | None) -> None:
    facts = training(before="bad, left, kept = False, 0, []", step=asked)
    found = facts.script.training
    steps = JointSteps(facts.script.metrics, {*found.backwards, *found.steps})
    (choice,) = (c for n in ast.walk(facts.files[0].tree) if isinstance(n, ast.If) for c in choices(n))
    assert steps.left_out_by(choice) is answer
