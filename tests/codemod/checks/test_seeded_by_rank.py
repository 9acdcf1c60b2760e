"""What all processes must begin with alike, drawn after each was given a seed of its own."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.seeded_by_rank import NAME
from tests.codemod.checks.checking import DDP, leaves, reports

SPLIT = DDP + "from torch.utils.data import random_split\ntorch.manual_seed(7 + rank)\n"
BARE = SPLIT.replace("from torch.nn.parallel import DistributedDataParallel as DDP\n", "")
BY_HAND = """\
net = torch.nn.Linear(3, 3){mark}
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in data:
    net(x).sum().backward()
    for p in net.parameters():
        dist.all_reduce(p.grad)
    opt.step()
"""


def test_a_split_and_a_model_without_a_wrapper() -> None:
    reports(NAME, SPLIT + "train, val = random_split(data, [9, 1])  # <- here\nnet = DDP(net)\n")
    reports(NAME, BARE + BY_HAND.format(mark="  # <- here"))


def test_a_seed_that_a_variable_holds() -> None:
    reports(
        NAME,
        SPLIT.replace("torch.manual_seed(7 + rank)", "seed = 7 * dist.get_rank()\ntorch.manual_seed(seed)")
        + "train, val = random_split(data, [9, 1])  # <- here\n",
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("7 + rank", "7"),
        ("7 + rank", "args.seed"),
        ("torch.manual_seed(7 + rank)\n", ""),
        ("torch.manual_seed(7 + rank)\n", "torch.manual_seed(7 + rank)\ntorch.manual_seed(7)\n"),
        ('dist.init_process_group("nccl")', ""),
    ],
)
def test_other_seeds(old: str, new: str) -> None:
    assert old in BARE
    leaves(NAME, BARE.replace(old, new) + "train, val = random_split(data, [9, 1])\n" + BY_HAND.format(mark=""))


def test_what_is_sent_or_drawn_otherwise() -> None:
    leaves(NAME, SPLIT + "train, val = random_split(data, [9, 1], generator=own)\n")
    leaves(NAME, SPLIT + "net = DDP(torch.nn.Linear(3, 3))\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n")
    sent = BY_HAND.format(mark="").replace("opt = ", "dist.broadcast(net.weight, 0)\nopt = ")
    leaves(NAME, BARE + sent)
    leaves(
        NAME, BARE.replace("torch.manual_seed(7 + rank)\n", "") + BY_HAND.format(mark="") + "torch.manual_seed(rank)\n"
    )
