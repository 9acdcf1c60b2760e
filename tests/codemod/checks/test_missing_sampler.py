"""Loaders that give every process all of the data."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.missing_sampler import NAME
from tests.codemod.checks.checking import DDP, leaves, reports

TEXT = (
    DDP.replace("from torch.utils.data.distributed import DistributedSampler\n", "")
    + """\
net = DDP(net)
loader = DataLoader(data, shuffle=True){mark}
for x in loader:
    net(x).backward()
"""
)
PLAIN = TEXT.replace("{mark}", "")


def test_a_loader_that_shuffles() -> None:
    reports(NAME, TEXT.replace("{mark}", "  # <- here"))
    reports(NAME, TEXT.replace("{mark}", "  # <- here").replace("(data, shuffle=True)", "(data, 8, True)"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("shuffle=True", "shuffle=True, sampler=sampler"),
        ("shuffle=True", "shuffle=sampler is None"),
        ("(data, shuffle=True)", "(parts[rank], shuffle=True)"),
        ("(data, shuffle=True)", "(**options)"),
        ("net(x).backward()", "net(x)"),
        ("net = DDP(net)\n", ""),
        ("loader = ", "data = split_dataset_by_node(data)\nloader = "),
    ],
)
def test_what_is_left_alone(old: str, new: str) -> None:
    assert old in PLAIN
    leaves(NAME, PLAIN.replace(old, new))
