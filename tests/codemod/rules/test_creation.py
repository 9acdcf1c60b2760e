"""Where functions get the accelerator, and how their calls hand it over."""

from __future__ import annotations

import pytest

from tests.codemod.pairs import migrated

TEXT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


def train({parameters}):
    for x in loader:
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(torch.randn(8, 4))
    train({arguments})


main()
"""
THREE = "model, optimizer, loader"


@pytest.mark.parametrize(
    ("parameters", "arguments", "taken", "handed"),
    [
        (THREE, THREE, f"{THREE}, accelerator", f"{THREE}, accelerator"),
        (
            THREE,
            "model, loader=loader, optimizer=optimizer",
            f"{THREE}, accelerator",
            "=optimizer, accelerator=accelerator",
        ),
        (f"{THREE}, epochs=1", THREE, f"{THREE}, epochs=1, accelerator=None", f"{THREE}, accelerator=accelerator"),
        (f"{THREE}, *, epochs=1", THREE, f"{THREE}, accelerator, *, epochs=1", f"{THREE}, accelerator"),
        (
            f"{THREE}, **more",
            f"{THREE}, a=1",
            f"{THREE}, accelerator, **more",
            f"{THREE}, a=1, accelerator=accelerator",
        ),
        (f"{THREE}, *more", THREE, f"accelerator, {THREE}, *more", f"accelerator, {THREE}"),
    ],
)
def test_no_parameter_that_others_give_by_its_place_moves(
    parameters: str, arguments: str, taken: str, handed: str
) -> None:
    after = migrated(TEXT.format(parameters=parameters, arguments=arguments))
    assert f"def train({taken}):" in after
    assert f"{handed})\n\n\nmain()" in after
