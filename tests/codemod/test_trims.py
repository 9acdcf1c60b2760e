"""Rows that only even out an epoch: trimmed off before rows are counted, where nothing else needs them."""

from __future__ import annotations

import pytest

from accelify.codemod.rewrite import Options
from tests.codemod.pairs import run

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,))), batch_size=2)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
for epoch in range(2):
    total, hits = 0, 0
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        found = out.argmax(1)
        loss = criterion(out, y)
        {before}
        loss.backward()
        optimizer.step()
        {after}
    print(total, hits)
"""


def rewritten(after: str, before: str = "pass") -> str:
    text = SCRIPT.format(before=before.replace("; ", "\n        "), after=after.replace("; ", "\n        "))
    return run(text.replace("        pass\n", ""), Options()).after.decode()


@pytest.mark.parametrize(
    ("adding", "names"),
    [
        ("total += x.size(0)", "x"),
        ("total += len(y); hits += (found == y).sum().item()", "y, found"),
        ("hits += found.eq(y.data).cpu().sum(); total += loss.item() * x.size(0)", "found, y, x"),
        ("total += y.shape[0]; hits += torch.sum(found == y.data)", "y, found"),
        ("total += nn.functional.nll_loss(out, y, reduction='sum').item()", "out, y"),
    ],
)
def test_rows_are_trimmed_before_they_are_counted(adding: str, names: str) -> None:
    value = f"({names})" if "," in names else names
    first = adding.partition(";")[0]
    assert f"        {names} = accelerator.trim_for_metrics({value})\n        {first}\n" in rewritten(adding)


@pytest.mark.parametrize(
    ("after", "before"),
    [
        ("total += len(y); hits += (found == y).float().mean().item() * len(y)", "pass"),  # of no rows: nan
        ("total += loss.item()", "pass"),
        ("size = len(y); total += size; hits += (found[size - 1] == y).sum()", "pass"),
    ],
)
def test_rows_stay_where_it_is_not_clear_what_is_counted(after: str, before: str) -> None:
    assert "trim_for_metrics" not in rewritten(after, before)


@pytest.mark.parametrize(
    ("before", "trimmed"),
    [
        ("total += len(y); hits += 1", "total += len(accelerator.trim_for_metrics(y))"),
        ("hits += (found == y).sum().item()", "hits += accelerator.trim_for_metrics(found == y).sum().item()"),
        (
            "total += y.size(0); hits += torch.sum(out.max(1)[1] == y.view(-1)).float()",
            "hits += torch.sum(accelerator.trim_for_metrics(out.max(1)[1] == y.view(-1))).float()",
        ),
        ("hits += int(found.eq(y).cpu().sum())", "hits += int(accelerator.trim_for_metrics(found.eq(y).cpu()).sum())"),
        ("total += x.shape[0] * 2", "total += accelerator.trim_for_metrics(x).shape[0] * 2"),
    ],
)
def test_rows_that_something_else_needs_are_trimmed_where_they_are_counted(before: str, trimmed: str) -> None:
    """Many scripts count what was right before they compute the loss of the same rows."""
    assert f"        {trimmed}\n" in rewritten("pass", f"{before}; loss = criterion(out, y * x.sum().long())")


AGAIN = "        loss = accelerator.mean_for_metrics(loss, criterion, out, y)\n"


@pytest.mark.parametrize(
    ("adding", "before", "how"),
    [
        ("total += loss.item() * x.size(0)", "pass", "again"),
        ("hits += len(y); total += len(y) * float(loss)", "pass", "again"),
        ("total += 2 * loss.data[0] * len(y)", "pass", "again"),
        ("total += loss.item() * x.size(0)", "loss = loss + 1", "told"),
        ("total += loss.item() * x.size(0); print(loss)", "pass", "told"),
        ("total += loss.item() * x.size(0)", "criterion = nn.CrossEntropyLoss(ignore_index=0)", "again"),
        ("hits += 100 * (found == y).sum().item()", "pass", ""),
    ],
)
def test_a_mean_of_rows_is_taken_again_without_those_that_were_added(adding: str, before: str, how: str) -> None:
    text = SCRIPT.format(before="pass", after=adding.replace("; ", "\n        ")).replace("        pass\n", "")
    if before.startswith("criterion"):
        text = text.replace("criterion = nn.CrossEntropyLoss()", before)
    elif before != "pass":
        text = text.replace("        loss.backward()", f"        {before}\n        loss.backward()")
    result = run(text, Options())
    (reason,) = [c.reason for c in result.changes if "repeated to fill" in c.reason]
    assert ("a mean within that step includes them" in reason) == (how == "told")
    assert (f"{AGAIN}        " in result.after.decode()) == (how == "again")


def test_a_mean_that_is_trained_on_below_stays() -> None:
    after = run(SCRIPT.format(before="total += loss.item() * len(found)", after="pass").replace("        pass\n", ""))
    assert "mean_for_metrics" not in after.after.decode()


OWN = """\
def score(out, y):
    return float((out == out.max()).sum()) / len(y)
"""


@pytest.mark.parametrize(
    ("adding", "expected"),
    [
        (
            "total += len(y); hits += score(found, y)",
            "        y, found = accelerator.trim_for_metrics((y, found))\n"
            "        if len(y):\n            total += len(y)\n            hits += score(found, y)\n",
        ),
        (
            "total += x.size(0); print(epoch); hits += (found == found.max()).sum().item()",
            "        if len(x):\n            total += x.size(0)\n        print(epoch)\n"
            "        if len(x):\n            hits += (found == found.max()).sum().item()\n",
        ),
        ("hits += score(found, y); total += 1", ""),  # a batch without rows would be counted
    ],
)
def test_nothing_is_computed_of_no_rows_that_may_fail(adding: str, expected: str) -> None:
    text = SCRIPT.format(before="pass", after=adding.replace("; ", "\n        ")).replace("        pass\n", "")
    text = text.replace("loader =", f"{OWN}loader =", 1).replace("print(total, hits)", "print(hits / total)")
    after = run(text, Options()).after.decode()
    assert expected in after if expected else "trim_for_metrics" not in after


MODELS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(29, 4), torch.randint(0, 3, (29,))), batch_size=8)
models = nn.ModuleList([nn.Linear(4, 3), nn.Linear(4, 3)])
optimizer = torch.optim.SGD(models.parameters(), lr=0.1)
hits, total = 0, 0
for x, y in loader:
    losses = []
    {head}
        out = model(x)
        losses.append(nn.functional.cross_entropy(out, y))
        found = out.argmax(1)
        {adding}
    optimizer.zero_grad()
    sum(losses).backward()
    optimizer.step()
print(hits, total)
"""


def of_models(adding: str, head: str = "for model in models:") -> str:
    text = MODELS.format(adding=adding.replace("; ", "\n        "), head=head.replace("; ", "\n        "))
    return run(text, Options()).after.decode()


@pytest.mark.parametrize(
    ("adding", "head", "trimmed"),
    [
        (
            "hits += found.eq(y.view_as(found)).sum().item()",
            "for model in models:",
            "hits += accelerator.trim_for_metrics(found.eq(y.view_as(found))).sum().item()",
        ),
        (
            "hits += (found == y).sum().item()",
            "k = 0\n    while k < 2:; model = models[k]; k += 1",
            "hits += accelerator.trim_for_metrics(found == y).sum().item()",
        ),
        ("total += len(x)", "for k, model in enumerate(models):", "total += len(accelerator.trim_for_metrics(x))"),
    ],
)
def test_rows_that_another_round_needs_are_trimmed_where_they_are_counted(adding: str, head: str, trimmed: str) -> None:
    """The next model computes its loss of all rows."""
    after = of_models(adding, head)
    assert f"        {trimmed}\n" in after
    assert "= accelerator.trim_for_metrics" not in after.replace("+=", "")


@pytest.mark.parametrize(
    ("adding", "head", "names"),
    [
        ("hits += found.sum().item()", "for model in models:", "found"),
        ("hits += (found == z).sum().item()", "for model in models:; z = y", "found, z"),
        ("hits += (found == z).sum().item()", "for model, z in zip(models, (y, y)):", "found, z"),
    ],
)
def test_rows_that_each_round_computes_anew_are_trimmed(adding: str, head: str, names: str) -> None:
    value = f"({names})" if "," in names else names
    assert f"        {names} = accelerator.trim_for_metrics({value})\n        {adding}\n" in of_models(adding, head)
