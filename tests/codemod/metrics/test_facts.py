"""Facts about metrics, as rules are told of them."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.reports import About
from tests.codemod.metrics.facts import script_of
from tests.codemod.training_scripts import training


def metrics(**slots: str) -> Metrics:
    found = training(**slots).script.metrics
    assert isinstance(found, Metrics)
    return found


def test_loops_whose_items_are_sharded() -> None:
    found = metrics(end="for z in range(3): pass\nfor x, y in loader: print(x)\n")
    assert [ast.unparse(n.iter) for n in found.shared_loops] == ["loader", "loader"]
    assert found.evaluations == []


def test_a_script_that_adds_nothing_up() -> None:
    found = metrics()
    assert found.reductions == ()
    assert found.sharded == ()


BY_HAND = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


class Meter:
    def __init__(self):
        self.sum = 0.0

    def update(self, value):
        self.sum += value

    def synchronize(self):
        if not dist.is_initialized():
            return
        every = torch.tensor(self.sum)
        dist.all_reduce(every)
        self.sum = every.item()


def averaged(value):
    if dist.get_world_size() < 2:
        return value
    every = value.clone()
    dist.all_reduce(every)
    return every / dist.get_world_size()


def train(model, loader, optimizer):
    losses = []
    total = torch.zeros(1)
    meter = Meter()
    for x in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        meter.update(loss.item())
        losses.append({loss})
    {reduced}
    return {returned}


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    data = torch.randn(8, 4)
    loader = DataLoader(data, sampler=DistributedSampler(data))
    model = DDP(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        print("loss", train(model, loader, optimizer))


main()
"""


@pytest.mark.parametrize(
    ("reduced", "returned", "reported"),
    [
        ("", "total / len(loader)", ["total"]),
        ("", "{'loss': total.item(), 'epoch': 1}", ["total"]),
        ("if dist.get_rank() == 0: print(total)", "None", ["total"]),
        ("", "meter.sum", ["meter"]),
        ("dist.all_reduce(total)", "total / dist.get_world_size()", []),
        ("if dist.get_world_size() > 1: dist.all_reduce(total)", "total", []),
        ("if len(loader) > 9: dist.all_reduce(total)", "total", ["total"]),
        ("meter.synchronize()", "meter.sum", []),
        ("meter.synchronize()", "meter.sum, total", ["total"]),
        ("", "sum(losses) / len(losses)", []),
    ],
)
def test_what_a_script_that_distributes_itself_does_not_reduce(
    reduced: str, returned: str, reported: list[str]
) -> None:
    text = BY_HAND.replace("{reduced}", reduced).replace("{returned}", returned).replace("{loss}", "averaged(loss)")
    assert [r.text for r in script_of(text).metrics.reports if r.about in (About.SUM, About.LIST)] == reported


def test_an_attribute_that_two_files_know() -> None:
    text = BY_HAND.replace("{reduced}", "loader.total = total; put(loader)").replace("{returned}", "loader.total")
    state = """\
    import torch.distributed as dist
    def put(each):
        dist.all_reduce(each.total)
    """
    text = "from state import put\n" + text.replace("{loss}", "loss")
    assert [r.text for r in script_of(text, **{"state.py": state}).metrics.reports if r.about is About.SUM] == ["total"]


def test_the_parameters_that_an_optimizer_steps_are_alike() -> None:
    clip = "def clip(groups, most):\n    return [nn.utils.clip_grad_norm_(g['params'], most) for g in groups]"
    found = metrics(before=clip, batch="norms = clip(optimizer.param_groups, x.max().item())", end="print(norms)")
    assert not [r for r in found.reports if "param_groups" in r.text]
