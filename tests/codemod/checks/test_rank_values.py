"""Which values are computed from the batches of one process's shard: source text in, answers out."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.processes import Processes
from accelify.codemod.checks.rank_values import RankValues
from tests.codemod.checks.checking import ACCELERATE, DDP
from tests.codemod.facts import Facts

SAMPLED = "data = DataLoader(rows, sampler=DistributedSampler(rows))\n"
MAYBE = "many = DistributedSampler(rows) if rank >= 0 else None\ndata = DataLoader(rows, sampler=many)\n"
PREPARED = "from torch.utils.data import DataLoader\ndata = accelerator.prepare(DataLoader(rows))\n"


def values_of(text: str) -> tuple[Facts, RankValues]:
    facts = Facts(text)
    return facts, RankValues(Processes(facts.program))


@pytest.mark.parametrize("start", [DDP + SAMPLED, DDP + MAYBE, ACCELERATE + PREPARED])
@pytest.mark.parametrize("over", ["data", "enumerate(data)"])
def test_a_sharded_loop(start: str, over: str) -> None:
    facts, values = values_of(start + f"for batch in {over}:\n    total = net(batch)\n    x = total + 1\n")
    assert len(values.loops) == 1
    assert values.ranks.is_own(facts.expression("total + 1"))


@pytest.mark.parametrize(
    "text",
    [
        DDP + "data = DataLoader(rows)\n",
        DDP
        + "many = DistributedSampler(rows) if train and rank >= 0 else None\ndata = DataLoader(rows, sampler=many)\n",
        DDP + SAMPLED + "if fast:\n    data = DataLoader(all_rows)\n",
        ACCELERATE + "from torch.utils.data import DataLoader\ndata = DataLoader(rows)\n",
    ],
)
def test_a_loop_over_all_of_the_data(text: str) -> None:
    facts, values = values_of(text + "for batch in data:\n    total = net(batch)\n    x = total + 1\n")
    assert values.loops == ()
    assert not values.ranks.is_own(facts.expression("total + 1"))


def test_what_is_given_to_a_collective_may_be_reduced() -> None:
    text = DDP + SAMPLED + "total = 0\nother = 0\nfor x in data:\n    total += net(x)\n    other += net(x)\n"
    _, values = values_of(text + "dist.all_reduce(total)\nprint(total)\nprint(other)\n")
    found = {values.may_be_reduced(sink, origin) for sink, origin in values.leaving()}
    assert found == {False}
    _, values = values_of(text + "total = summed_by_all_reduce(total)\nprint(total)\n")
    assert {values.may_be_reduced(sink, origin) for sink, origin in values.leaving()} == {True}
