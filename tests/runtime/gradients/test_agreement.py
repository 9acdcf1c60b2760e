"""What the ranks compare of their optimizers."""

from __future__ import annotations

import torch
from torch import nn

from accelify.runtime.gradients.agreement import SAMPLED, facts_of


def facts(model: nn.Module, parameters: list[nn.Parameter], gradient: float = 1.0) -> dict[str, object]:
    optimizer = torch.optim.Adam([{"params": parameters[:-1]}, {"params": parameters[-1:]}], lr=0.1)
    for number, parameter in enumerate(model.parameters()):
        parameter.grad = torch.full_like(parameter, number * gradient)
    optimizer.step()
    return dict(facts_of([optimizer], {id(p): place for place, p in enumerate(model.parameters())}))


def test_the_order_in_a_group_makes_no_difference() -> None:
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(SAMPLED)))
    copy = nn.Sequential(*(nn.Linear(2, 2) for _ in range(SAMPLED)))
    mine, theirs = list(model.parameters()), list(copy.parameters())
    assert facts(model, mine) == facts(copy, [*reversed(theirs[:-1]), theirs[-1]])


def test_other_momentum_makes_one() -> None:
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)
    assert facts(model, list(model.parameters())) != facts(other, list(other.parameters()), gradient=2.0)
