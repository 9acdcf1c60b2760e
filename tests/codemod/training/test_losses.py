"""Which losses does a backward pass begin at, and is one a sum over its batch?"""

from __future__ import annotations

import pytest

from accelify.codemod.training.losses import Losses, is_by_function, losses_of
from tests.codemod.facts import Facts, texts


@pytest.mark.parametrize(
    ("call", "losses", "by_function"),
    [
        ("loss.backward()", ["loss"], False),
        ("(one + two).backward()", ["one + two"], False),
        ("torch.autograd.backward([one, two])", ["one", "two"], True),
        ("torch.autograd.backward(losses)", [], True),
    ],
)
def test_losses_of_a_backward_pass(call: str, losses: list[str], by_function: bool) -> None:
    facts = Facts(f"import torch\n{call}")
    assert texts(losses_of(facts.program, facts.call(call))) == losses
    assert is_by_function(facts.program, facts.call(call)) is by_function


@pytest.mark.parametrize(
    ("code", "is_sum"),
    [
        ("loss = (x - y).pow(2).sum()", True),
        ("loss = (x - y).pow(2).mean()", False),
        ("loss = F.mse_loss(x, y)", False),
        ('loss = F.mse_loss(x, y, reduction="sum")', True),
    ],
)
def test_whether_a_loss_is_a_sum(code: str, is_sum: bool) -> None:
    facts = Facts(f"import torch.nn.functional as F\n{code}\nloss.backward()")
    assert Losses(facts.program, facts.roles).is_sum(facts.call("loss.backward()").func.value) is is_sum  # type: ignore[attr-defined]  # a method
