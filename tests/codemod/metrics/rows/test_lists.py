"""Facts about the lists that a loop fills, and that are gathered after it."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.rows.lists import Lists
from accelify.codemod.training.harmless import Harmless
from tests.codemod.metrics.loops import in_loop, sums_of


def lists(body: str, end: str, before: str = "losses = []") -> list[tuple[str, str | None, str]]:
    facts, loop = in_loop(body, end, f"import numpy as np\n{before}")
    found = Lists(facts.program, facts.tracer, Harmless(facts.program, facts.roles), sums_of(facts))
    block = facts.program.block(loop)
    listed = found.of(loop, block[: block.index(loop)])
    return [(c.name, c.per, ast.unparse(c.trimmed) if c.trimmed else "") for c in listed]


@pytest.mark.parametrize(
    ("value", "mean"),
    [
        ("model(x).mean().item()", "np.mean(losses)"),
        ("model(x).mean().detach()", "torch.stack(losses).mean()"),
    ],
)
def test_a_list_that_is_read_for_its_mean(value: str, mean: str) -> None:
    assert lists(f"losses.append({value})", f"print({mean})\n") == [("losses", "batch", "")]


@pytest.mark.parametrize(
    ("body", "end", "before"),
    [
        ("losses.append(model(x).mean().item())", "print(losses[-1])\n", "losses = []"),
        ("losses.append(model(x))", "print(np.mean(losses))\n", "losses = []"),
        ("losses.append(1.0)\nbreak", "print(np.mean(losses))\n", "losses = []"),
        ("losses.append(1.0)", "print(np.mean(losses))\n", "losses = [0.0]"),
    ],
)
def test_lists_that_are_left_alone(body: str, end: str, before: str) -> None:
    assert lists(body, end, before) == []


def test_a_sum_by_the_number_of_batches() -> None:
    facts, loop = in_loop("losses.append(model(x).mean().item())", "print(sum(losses) / len(loader))\n", "losses = []")
    found = Lists(facts.program, facts.tracer, Harmless(facts.program, facts.roles), sums_of(facts))
    block = facts.program.block(loop)
    (collected,) = found.of(loop, block[: block.index(loop)])
    assert [ast.unparse(n) for n in collected.lengths] == ["len(loader)"]


ROWS = [
    "model(x).argmax(1).tolist()",
    "y.cpu().numpy()",
    "list(y.numpy())",
    "torch.softmax(model(x), dim=1)[:, 1].tolist()",
    "torch.max(model(x), 1)[1].tolist()",
    "np.argmax(model(x).detach().numpy(), axis=1)",
    "(torch.sigmoid(model(x)).squeeze() > 0.5).long().tolist()",
    "[int(each) for each in y]",
]


@pytest.mark.parametrize("value", ROWS)
def test_a_list_of_rows(value: str) -> None:
    end = "print(sum(a == b for a, b in zip(rows, rows)) / len(rows), rows[-1])\n"
    assert lists(f"rows.extend({value})", end, "rows = []") == [("rows", "row", "")]
    assert lists(f"rows += {value}", end, "rows = []") == [("rows", "row", "")]


@pytest.mark.parametrize(
    ("before", "value"),
    [
        ("pass", "model(x).detach().cpu().numpy()"),
        ("pass", "y.cpu()"),
        ("x, y = x.to(device), y.to(device)", "y.cpu()"),
        ("x = x.to(device)\ny = y.long().to(device)", "y"),
        ("pass", "model(x).argmax(1).cpu()"),
        ("_, found = torch.max(model(x), 1)", "found"),
        ("pass", "(model(x) > 0.5).float()"),
        ("pass", "model(x).max(dim=1).indices"),
    ],
)
def test_a_list_of_batches_is_trimmed(before: str, value: str) -> None:
    found = lists(f"{before}\nrows.append({value})", "print(np.concatenate(rows)[0])\n", "device = 'cpu'\nrows = []")
    assert found == [("rows", "batch", value)]


@pytest.mark.parametrize("value", ["model(x)", "found", "model(x).max(dim=1)[0]", "x * model(x)"])
def test_a_list_of_batches_that_something_may_be_learned_from(value: str) -> None:
    before = "found, _ = torch.max(model(x), 1)"
    assert lists(f"{before}\nrows.append({value})", "print(np.concatenate(rows)[0])\n", "rows = []") == []


@pytest.mark.parametrize(
    "value",
    [
        "y[y > 0].tolist()",
        "model(x).view(-1, 2).tolist()",
        "model(x).flatten(0, 1).tolist()",
        "model(x).t().tolist()",
        "criterion(model(x), y).tolist()",
        "unknown(y)",
        "sorted(y.tolist())",
        "[each for each in y if each]",
    ],
)
def test_what_may_be_other_rows(value: str) -> None:
    assert lists(f"rows.extend({value})", "print(rows)\n", "criterion = torch.nn.MSELoss()\nrows = []") == []


@pytest.mark.parametrize(
    ("body", "end", "before"),
    [
        ("rows.extend(y.tolist())", "print(sum(rows) / len(loader))\n", "rows = []"),
        ("rows.extend(y.tolist())\nmasks.extend(y[y > 0])", "print(score(rows, masks))\n", "rows, masks = [], []"),
        ("rows.extend(y.tolist())\nhigh = high * 0.9 + x[0, 0]", "print(len(rows) * high)\n", "rows, high = [], 0"),
        ("if len(x) > 1: rows.extend(y.tolist())", "print(rows)\n", "rows = []"),
        ("rows.extend(y.tolist())\nif sum(rows) > 3: model.train()", "print(rows)\n", "rows = []"),
    ],
)
def test_rows_that_would_be_set_beside_what_is_one_process_s_own(body: str, end: str, before: str) -> None:
    assert lists(body, end, before) == []
