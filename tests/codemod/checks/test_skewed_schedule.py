"""Schedules whose length is not that of the steps which they are advanced by."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.skewed_schedule import NAME
from tests.codemod.checks.checking import ACCELERATE, DDP, leaves, reports

IMPORTS = (
    "from torch.utils.data import DataLoader\nfrom torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR\n"
    "from transformers import get_linear_schedule_with_warmup, get_scheduler\n"
)
MADE = "net = torch.nn.Linear(1, 1)\nopt = torch.optim.SGD(net.parameters())\n"
START = IMPORTS + ACCELERATE + MADE + "loader = DataLoader(data)\n"
PREPARED = START + "net, opt, loader = accelerator.prepare(net, opt, loader)\n"
SHARDED = IMPORTS + DDP + MADE + "net = DDP(net)\nloader = DataLoader(data, sampler=DistributedSampler(data))\n"
BACKWARD = "    net(x).sum().backward()\n"


@pytest.mark.parametrize(
    "schedule",
    [
        "get_scheduler('linear', opt, num_warmup_steps=0, num_training_steps=len(loader) * 3)",
        "get_scheduler('linear', opt, 0, len(loader) // 4 * 3)",
        "get_linear_schedule_with_warmup(opt, 0, len(loader) * 3)",
        "CosineAnnealingLR(opt, T_max=len(loader))",
        "OneCycleLR(opt, 0.1, epochs=3, steps_per_epoch=len(loader))",
    ],
)
def test_a_length_after_prepare(schedule: str) -> None:
    reports(NAME, PREPARED + f"plan = {schedule}  # <- here\nplan = accelerator.prepare(plan)\n")
    reports(NAME, PREPARED + f"plan = {schedule}  # <- here\nplan = accelerator.prepare_scheduler(plan)\n")
    leaves(NAME, PREPARED + f"plan = {schedule}\nfor x in loader:\n{BACKWARD}    plan.step()\n")
    leaves(NAME, START + f"plan = {schedule}\nnet, opt, loader, plan = accelerator.prepare(net, opt, loader, plan)\n")


def test_a_length_that_goes_through_a_variable() -> None:
    text = PREPARED + "steps = {}\nplan = CosineAnnealingLR(opt, steps){}\nplan = accelerator.prepare(plan)\n"
    reports(NAME, text.format("len(loader) * 3", "  # <- here"))
    leaves(NAME, text.format("len(loader) * 3 * accelerator.num_processes", ""))
    leaves(NAME, text.format("args.steps", ""))
    leaves(NAME, text.format("len(data)", ""))
    leaves(NAME, text.replace("Accelerator()", "Accelerator(split_batches=True)").format("len(loader)", ""))


def test_a_length_before_prepare() -> None:
    text = (
        START
        + "plan = CosineAnnealingLR(opt, {}){}\nnet, opt, loader = accelerator.prepare(net, opt, loader)\n"
        + "for epoch in range(3):\n    for x in loader:\n        accelerator.backward(net(x).sum())\n"
    )
    reports(NAME, text.format("len(loader) * 3", "  # <- here") + "        plan.step()\n")
    leaves(NAME, text.format("len(loader) * 3", "") + "    plan.step()\n")
    leaves(NAME, text.format("len(loader) * 3 // accelerator.num_processes", "") + "        plan.step()\n")
    leaves(NAME, text.format("3", "") + "        plan.step()\n")


def test_a_length_in_a_function() -> None:
    text = (
        "def plan_of(loader):\n    return CosineAnnealingLR(opt, len(loader) * 3)\nplan = plan_of(loader)\n"
        "for x in loader:\n    accelerator.backward(net(x).sum())\n    plan.step()\n"
    )
    leaves(NAME, PREPARED + text)


def test_a_length_that_is_divided_again() -> None:
    text = SHARDED + "plan = CosineAnnealingLR(opt, {}){}\nfor x in loader:\n" + BACKWARD + "    plan.step()\n"
    reports(NAME, text.format("len(loader) * 3 // dist.get_world_size()", "  # <- here"))
    leaves(NAME, text.format("len(loader) * 3", ""))
    leaves(NAME, text.format("len(loader) * 3 * dist.get_world_size()", ""))
    leaves(NAME, text.format("len(data) // dist.get_world_size()", ""))
