"""Loaders that drop what does not fill a step of all processes: no row is repeated, so nothing is said of such rows."""

from __future__ import annotations

import pytest

from accelify.codemod.options import Options
from accelify.codemod.result import FileResult
from accelify.codemod.rewrite import rewrite_source

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

{before}
loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=4{drops})
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    total, rows, losses = 0.0, 0, []
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {adds}
    print({shown})
"""
ROWS = {"adds": "total += loss.item() * len(x); rows += len(x)", "shown": "total / rows"}
BATCHES = {"adds": "total += loss.item()", "shown": "total / len(loader)"}
LIST = {"adds": "losses.append(loss.item())", "shown": "sum(losses) / len(losses)"}


def rewritten(drops: str, options: Options | None = None, before: str = "", **slots: str) -> FileResult:
    text = SCRIPT.format(drops=drops, before=before, **slots)
    return rewrite_source("train.py", text.encode(), options or Options())


def said(result: FileResult) -> str:
    return next(change.reason for change in result.changes if change.rule == "metrics")


@pytest.mark.parametrize("slots", [ROWS, LIST])
def test_sums_and_lists_of_full_steps_have_no_row_twice(slots: dict[str, str]) -> None:
    result = rewritten(", drop_last=True", **slots)
    assert said(result).endswith("`drop_last` leaves out the batches that do not make a step of all processes")
    assert b"trim_for_metrics" not in result.after


def test_a_mean_over_full_batches_has_no_smaller_one() -> None:
    assert said(rewritten(", drop_last=True", **BATCHES)).endswith("take the same number of steps")
    assert "a smaller last batch" in said(rewritten("", **BATCHES))


@pytest.mark.parametrize(
    ("drops", "before", "options"),
    [
        ("", "", Options()),
        (", drop_last=False", "", Options()),
        (", drop_last=drops", "drops = bool(int(input()))", Options()),
        (", drop_last=True", "", Options(keep_global_batch=True)),
    ],
)
def test_rows_may_be_repeated_where_the_last_step_is_not_full(drops: str, before: str, options: Options) -> None:
    result = rewritten(drops, options, before, **ROWS)
    assert b"trim_for_metrics" in result.after
    assert "without the samples that are repeated" in said(result)
