"""Gradients that are averaged in each of several accumulated steps."""

from __future__ import annotations

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
