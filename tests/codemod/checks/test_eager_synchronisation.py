"""Gradients that are averaged in each of several accumulated steps."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.eager_synchronisation import NAME
from tests.codemod.checks.checking import DDP, leaves, reports

TEXT = (
    DDP
    + """\
net = DDP(net)
for i, x in enumerate(loader):
    loss = net(x)
    loss.backward(){mark}
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""
)
PLAIN = TEXT.replace("{mark}", "")


def test_every_pass_averages() -> None:
    reports(NAME, TEXT.replace("{mark}", "  # <- here"))


def test_a_step_in_each_round() -> None:
    leaves(NAME, PLAIN.replace("    if (i + 1) % 4 == 0:\n        optimizer.step()", "    optimizer.step()\n    if i:"))


def test_what_asks_for_something_else() -> None:
    leaves(NAME, PLAIN.replace("(i + 1) % 4 == 0", "train"))


def test_no_sync_is_used() -> None:
    leaves(NAME, PLAIN.replace("    loss.backward()", "    with net.no_sync():\n        loss.backward()"))


def test_a_model_that_is_not_wrapped() -> None:
    leaves(NAME, PLAIN.replace("net = DDP(net)\n", ""))


START = DDP + "net = DDP(net)\noptimizer = torch.optim.SGD(net.parameters())\nseen = 0\n"
PARTS = "for x in loader:\n    for part in range(4):\n        net(x[part]).sum().backward(){mark}\n"
PASS = "for i, x in enumerate(loader):\n    net(x).sum().backward(){mark}\n"
MARK = "  # <- here"


@pytest.mark.parametrize(
    "text",
    [
        PASS + "    if not (i + 1) % 4:\n        optimizer.step()\n",
        PASS + "    if i % 4 != 3:\n        continue\n    optimizer.step()\n",
        PASS + "    due = (i + 1) % 4 == 0\n    if due:\n        optimizer.step()\n",
        PASS + "    if i % args.steps == 0 and i > 0:\n        scaler.step(optimizer)\n",
        PASS + "    seen += 1\n    if seen == 4:\n        optimizer.step()\n        seen = 0\n",
        PARTS + "    optimizer.step()\n",
    ],
)
def test_other_ways_to_accumulate(text: str) -> None:
    reports(NAME, START + text.format(mark=MARK))
    leaves(NAME, START + text.format(mark="") + "    net.require_backward_grad_sync = i % 4 == 0\n")


@pytest.mark.parametrize(
    "text",
    [
        PASS + "    optimizer.step()\n    if i % 4 == 0:\n        plan.step()\n",
        PASS + "    if torch.isfinite(norm):\n        optimizer.step()\n",
        PASS + "    seen += 1\n    optimizer.step()\n    if seen == 4:\n        seen = 0\n",
        "for i in range(9):\n    if i % 5 == 0:\n        net(x).sum().backward()\n        optimizer.step()\n",
        "for i in range(9):\n    if i % 5:\n        continue\n    net(x).sum().backward()\n    optimizer.step()\n",
        PARTS + "        optimizer.step()\n",
        "for x in loader:\n    for k in range(4):\n        nets[k](x).sum().backward()\n    optimizer.step()\n",
    ],
)
def test_a_step_for_each_pass(text: str) -> None:
    leaves(NAME, START + text.format(mark=""))
