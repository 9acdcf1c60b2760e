"""Backward passes that a process skips because of its own batch."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.skipped_backward import NAME
from tests.codemod.checks.checking import ACCELERATE, DDP, leaves, reports

START = DDP + "net = DDP(net)\nfor x in loader:\n    loss = net(x)\n"


def test_its_loss_decides() -> None:
    reports(NAME, START + "    if torch.isnan(loss):  # <- here\n        continue\n    loss.backward()\n")
    reports(NAME, START + "    if loss > 100:  # <- here\n        print(loss)\n        continue\n    loss.backward()\n")


@pytest.mark.parametrize(
    "text",
    [
        "    if torch.isnan(loss):\n        raise ValueError\n    loss.backward()\n",
        "    if step < 3:\n        continue\n    loss.backward()\n",
        "    if loss is None:\n        continue\n    loss.backward()\n",
        "    bad = reduce_max(torch.isnan(loss))\n    if bad:\n        continue\n    loss.backward()\n",
        "    loss = all_reduce(loss)\n    if loss > 100:\n        continue\n    loss.backward()\n",
        "    loss.backward()\n    if torch.isnan(loss):\n        continue\n",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    leaves(NAME, START + text)


def test_one_process_may_skip() -> None:
    leaves(
        NAME, "import torch\nfor x in l:\n    loss = net(x)\n    if loss > 9:\n        continue\n    loss.backward()\n"
    )


SHARDED = (
    DDP
    + "net = DDP(net)\ndata = DataLoader(rows, sampler=DistributedSampler(rows))\n"
    + "for step, (x, y) in enumerate(data):\n"
)


def test_its_batch_decides() -> None:
    reports(NAME, SHARDED + "    if y.sum() == 0:  # <- here\n        continue\n    net(x).sum().backward()\n")
    text = "    loss = net(x).sum()\n    loss.backward()\n    value = loss.item()\n"
    reports(NAME, SHARDED + text + "    if value < 0.1:  # <- here\n        break\n")


@pytest.mark.parametrize(
    "test",
    [
        "step < 3",
        "step >= len(data)",
        "len(x) < 4",
        "x.shape[0] != 8",
        "reduced(y.sum()) == 0",
        "args.fast",
        "x is None",
    ],
)
def test_what_all_processes_decide_alike(test: str) -> None:
    leaves(NAME, SHARDED + f"    if {test}:\n        continue\n    net(x).sum().backward()\n")
    leaves(NAME, SHARDED + f"    net(x).sum().backward()\n    if {test}:\n        break\n")


def test_a_trigger_is_checked_together() -> None:
    text = ACCELERATE + (
        "from torch.utils.data import DataLoader\nnet, data = accelerator.prepare(net, DataLoader(rows))\n"
        "for x in data:\n    loss = net(x)\n    accelerator.backward(loss)\n    if loss.item() < 1:\n"
    )
    leaves(NAME, text + "        accelerator.set_trigger()\n    if accelerator.check_trigger():\n        break\n")
    reports(NAME, text.replace("if loss.item() < 1:", "if loss.item() < 1:  # <- here") + "        break\n")


@pytest.mark.parametrize(
    "body",
    [
        "    with cast():\n        if loss > 9:  # <- here\n            continue\n        loss.backward()\n",
        "    try:\n        if loss > 9:  # <- here\n            continue\n        loss.backward()\n    finally: x\n",
        "    if not torch.isnan(loss):  # <- here\n        loss.backward()\n        opt.step()\n",
        "    if loss.item() < 100:  # <- here\n        with cast():\n            loss.backward()\n",
        "    loss.backward()\n    if args.early:\n        if loss.item() < 1:  # <- here\n            break\n",
    ],
)
def test_other_ways_to_skip(body: str) -> None:
    reports(NAME, START + body)


@pytest.mark.parametrize(
    "body",
    [
        "    if loss.item() > 3:\n        loss.backward()\n    else:\n        (loss * 0).backward()\n",
        "    if torch.isnan(loss):\n        loss = loss * 0\n    loss.backward()\n",
        "    if args.train:\n        loss.backward()\n",
        "    loss.backward()\n    if loss.item() > 9:\n        print(loss)\n",
        "    for y in x:\n        if y > loss:\n            break\n    loss.backward()\n",
        "    if step > 3:\n        break\n    loss.backward()\n",
    ],
)
def test_the_backward_pass_is_made_all_the_same(body: str) -> None:
    leaves(NAME, START + body)


def test_a_function_is_left() -> None:
    text = (
        DDP
        + "net = DDP(net)\ndef train():\n    for x in loader:\n        loss = net(x)\n"
        + "        if {}:{}\n            return\n"
    )
    reports(NAME, text.format("loss > 9", "  # <- here") + "        loss.backward()\ntrain()\n")
    leaves(NAME, text.format("args.dry", "") + "        loss.backward()\ntrain()\n")


def test_the_last_batch_decides_about_the_epochs() -> None:
    loop = SHARDED.replace("for step", "for epoch in range(9):\n    for step")
    text = loop + "        loss = net(x).sum()\n        loss.backward()\n{}    if {}:{}\n        break\n"
    reports(NAME, text.format("", "loss.item() < 0.1", "  # <- here"))
    leaves(NAME, text.format("", "epoch > 3", ""))
    leaves(NAME, text.format("    dist.all_reduce(loss)\n", "loss.item() < 0.1", ""))
    leaves(NAME, text.format("", "reduced(loss) < 0.1", ""))


@pytest.mark.parametrize("own", ["dist.get_rank()", "time.time()"])
def test_options_that_also_hold_what_is_one_process_s_own(own: str) -> None:
    options = "import time, argparse\nargs = argparse.ArgumentParser().parse_args()\nargs.own = " + own + "\n"
    text = SHARDED.replace("net = DDP(net)\n", "net = DDP(net)\n" + options)
    leaves(NAME, text + "    net(x).sum().backward()\n    if step > args.steps:\n        break\n")
    handed_on = "    if args.half:\n        scaled(loss)\n    else:\n        loss.backward()\n"
    leaves(NAME, text + "    loss = net(x).sum()\n" + handed_on)


def test_what_the_loop_adds_up_decides() -> None:
    text = SHARDED.replace("for step", "total = 0\nfor step") + "    loss = net(x).sum()\n    loss.backward()\n"
    reports(NAME, text + "    total += loss.item()\n    if total > 9:  # <- here\n        break\n")
    leaves(NAME, text + "    total += 1\n    if total > 9:\n        break\n")
