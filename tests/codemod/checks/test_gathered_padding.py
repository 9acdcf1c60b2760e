"""Gathered batches in which samples are counted twice."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.gathered_padding import NAME
from tests.codemod.checks.checking import ACCELERATE, fixed, leaves, reports

TEXT = (
    ACCELERATE
    + """\
loader = accelerator.prepare(loader)
for x, y in loader:
    metric.add_batch(predictions=accelerator.gather(net(x)), references=y){mark}
print(metric.compute())
"""
)
PLAIN = TEXT.replace("{mark}", "")


def test_a_gathered_batch() -> None:
    reports(NAME, TEXT.replace("{mark}", "  # <- here"))
    text = "for x in loader:\n    p = accelerator.gather(net(x))  # <- here\n    metric.add_batch(predictions=p)\n"
    reports(NAME, ACCELERATE + "loader = accelerator.prepare(loader)\n" + text)
    leaves(NAME, ACCELERATE + text.replace("  # <- here", ""))


def test_the_padding_is_dropped() -> None:
    assert "predictions=accelerator.gather_for_metrics(net(x))" in fixed(PLAIN)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("accelerator.gather(", "accelerator.gather_for_metrics("),
        ("    metric.add_batch", "    net(x).backward()\n    metric.add_batch"),
        ("print(metric.compute())", "print(metric.compute()[: len(data)])"),
        (
            "metric.add_batch(predictions=accelerator.gather(net(x)), references=y)",
            "losses = accelerator.gather(net(x))",
        ),
        ("for x, y in loader:", "if x:"),
        ("accelerator.gather(", "torch.gather("),
    ],
)
def test_what_is_left_alone(old: str, new: str) -> None:
    assert old in PLAIN
    leaves(NAME, PLAIN.replace(old, new))


LOOP = (
    ACCELERATE
    + "from torch.utils.data import DataLoader\nfrom accelerate.utils import gather\nrows, right = [], 0\n"
    + "loader = accelerator.prepare(DataLoader(data))\nfor x, y in loader:\n"
)


@pytest.mark.parametrize(
    "body",
    [
        "    rows.append(accelerator.gather(net(x)))  # <- here\n",
        "    rows.extend(accelerator.gather(net(x)).tolist())  # <- here\n",
        "    out = accelerator.gather(net(x))  # <- here\n    rows += out.tolist()\n",
        "    p, t = accelerator.gather((net(x), y))  # <- here\n    right += (p.argmax(1) == t).sum().item()\n",
        "    rows.append(gather(y))  # <- here\n",
        "    loss = criterion(net(x), y)\n    rows.append(accelerator.gather(loss.repeat(8)))  # <- here\n",
    ],
)
def test_what_is_kept_of_gathered_batches(body: str) -> None:
    reports(NAME, LOOP + body)
    plain = LOOP + body.replace("  # <- here", "")
    leaves(NAME, plain.replace("DataLoader(data)", "DataLoader(data, drop_last=True)"))
    leaves(NAME, plain.replace("Accelerator()", "Accelerator(even_batches=False)"))
    leaves(NAME, plain + "rows = rows[:len(data)]\n")


@pytest.mark.parametrize(
    "body",
    [
        "    rows.append(accelerator.gather_for_metrics(net(x)))\n",
        "    loss = criterion(net(x), y)\n    rows.append(accelerator.gather(loss))\n",
        "    right += accelerator.gather((net(x).argmax(1) == y).sum()).sum()\n",
        "    print(accelerator.gather(net(x)))\n",
        "    rows.append(net(x))\n",
    ],
)
def test_what_has_no_rows_and_what_is_not_kept(body: str) -> None:
    leaves(NAME, LOOP + body)
