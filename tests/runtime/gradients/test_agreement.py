"""What the ranks compare of their optimizers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from accelify.runtime.gradients.agreement import SAMPLED, _trained, facts_of


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


@pytest.mark.parametrize("is_frozen", [False, True])
def test_reading_the_state_of_a_parameter_is_no_step(is_frozen: bool) -> None:
    model = nn.Linear(2, 2)
    model.weight.requires_grad_(not is_frozen)
    optimizer = torch.optim.Adam(model.parameters())
    before, trained = dict(facts_of([optimizer], {})), list(_trained(optimizer))
    assert len(optimizer.state[model.weight]) == 0
    assert model.weight in optimizer.state
    assert dict(facts_of([optimizer], {})) == before == {"number of steps of Adam": []}
    assert [*map(id, _trained(optimizer))] == [*map(id, trained)]


def test_a_step_more_makes_a_difference() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    seen = [dict(facts_of([optimizer], {}))]
    for _ in range(2):
        optimizer.step()
        seen.append(dict(facts_of([optimizer], {})))
    assert [each["number of steps of Adam"] for each in seen] == [[], [1.0], [2.0]]
