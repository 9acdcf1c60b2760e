"""Whose gradients are one rank's own: source text in, fact out."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.ranks.own_gradients import OwnGradients
from tests.codemod.metrics.facts import find, script_of, training
from tests.codemod.metrics.ranks.test_rank import rank

MADE = "delta = torch.zeros(2, 4, requires_grad=True)"


@pytest.mark.parametrize(
    ("before", "batch", "is_own"),
    [
        (MADE, "delta.data = (delta + 0.1 * delta.grad.sign()).clamp(-1, 1)", True),
        (MADE, "g = delta.grad.detach()\ndelta.data += g.sign()", True),
        (MADE, "with torch.no_grad(): delta.sub_(delta.grad)", True),
        (MADE, "delta.data = torch.zeros(2, 4)", False),
        (f"{MADE}\nother = torch.optim.SGD([delta], lr=0.1)", "delta.data += delta.grad", False),
        (f"{MADE}\nheld = [delta]\nother = torch.optim.SGD(held, lr=0.1)", "delta.data += delta.grad", False),
        ("delta = model.weight", "delta.data -= delta.grad", False),
    ],
)
def test_tensors_that_no_optimizer_steps(before: str, batch: str, is_own: bool) -> None:
    assert rank("delta", before=before, batch=batch).is_own is is_own


def test_they_are_of_the_loop_whose_batches_they_come_from() -> None:
    script = script_of(training(before=MADE, batch="delta.data += delta.grad"))
    gradient, (loop,) = find(script, "delta.grad"), script.training.rounds
    assert isinstance(gradient, ast.Attribute)
    assert OwnGradients(script.metrics.measured.chains, {loop}).loop_of(gradient) is loop
    assert OwnGradients(script.metrics.measured.chains, ()).loop_of(gradient) is None
