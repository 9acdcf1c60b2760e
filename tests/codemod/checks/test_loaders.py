"""Loaders that a sampler shards, and the loops over them."""

from __future__ import annotations

from accelify.codemod.checks.loaders import Loaders
from tests.codemod.checks.checking import DDP
from tests.codemod.facts import Facts, texts

TEXT = (
    DDP
    + """\
sampler = DistributedSampler(data, shuffle=False)
loader = DataLoader(data, sampler=sampler)
plain = DataLoader(data)
for epoch in range(2):
    for x in loader:
        net(x).backward()
    for y in plain:
        net(y)
"""
)


def test_a_sampler_with_its_loader_and_loop() -> None:
    (sampled,) = Loaders(Facts(TEXT).program).sampled
    assert texts(sampled.loaders) == ["DataLoader(data, sampler=sampler)"]
    assert [loop.target.id for loop in sampled.loops] == ["x"]  # type: ignore[attr-defined]  # a name
    assert not sampled.shuffles


def test_which_loop_trains_and_how_often() -> None:
    loaders = Loaders(Facts(TEXT).program)
    one, other = sorted(loaders.loops_over_loaders, key=loaders.program.position)
    assert loaders.trains(one)
    assert not loaders.trains(other)
    assert len(loaders.epochs_round(one)) == 1
