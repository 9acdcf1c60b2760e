"""What a statement adds to a running value: source text in, fact out."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.updates import Updating, added_in, additions_in, updating
from tests.codemod.metrics.facts import script_of, training
from tests.codemod.pairs import run


def additions(batch: str) -> dict[str, list[str]]:
    """What each batch adds, and to what."""
    script = script_of(
        training(begin="total, n, rows = torch.zeros(2), 0, []", batch=batch, end="print(total, n, rows)")
    )
    (loop,) = script.metrics.shared_loops
    found = additions_in(script.metrics.measured.chains, loop)
    return {ast.unparse(a.target): [ast.unparse(p) for p in a.parts] for a in found}


@pytest.mark.parametrize(
    ("batch", "target", "parts"),
    [
        ("total += loss", "total", ["loss"]),
        ("total = total + loss.item()", "total", ["loss.item()"]),
        ("total, n = total + loss, n + 1", "n", ["1"]),
        ("total.add_(loss)", "total", ["loss"]),
    ],
)
def test_an_addition(batch: str, target: str, parts: list[str]) -> None:
    assert additions(batch)[target] == parts


@pytest.mark.parametrize(
    "batch", ["total = loss", "total = 0.9 * total + 0.1 * loss", "total *= 2", "total += 2 * total"]
)
def test_what_is_no_addition(batch: str) -> None:
    assert "total" not in additions(batch)


ADDS = {
    "add = lambda x, sum: sum + x": ["x"],
    "def add(x, sum):\n    sum += x.mean()\n    return sum": ["x.mean()"],
    "def add(x, sum):\n    if len(x):\n        sum = sum + x\n    return sum + 1": ["1", "x"],
    "def more(x, sum):\n    return sum + x\ndef add(x, sum):\n    sum = more(x, sum)\n    return sum": ["x"],
}
DOES_NOT_ADD = {
    "def add(x, sum):\n    return x",
    "def add(x, sum):\n    return 0.9 * sum + x",
    "def add(x, sum):\n    sum = x\n    return sum",
    "def add(x, sum):\n    return sum if len(x) else x",
    "def add(x, sum):\n    return add(x, sum)",
}


def additions_through(function: str, batch: str) -> dict[str, list[str]]:
    script = script_of(function + "\n" + training(begin="total, n = 0, 0", batch=batch, end="print(total, n)"))
    (loop,) = script.metrics.shared_loops
    found = additions_in(script.metrics.measured.chains, loop)
    return {ast.unparse(a.target): [ast.unparse(p) for p in a.parts] for a in found}


@pytest.mark.parametrize("function", ADDS)
def test_a_function_that_adds_to_what_it_is_given(function: str) -> None:
    assert sorted(additions_through(function, "total = add(loss, total)")["total"]) == ADDS[function]
    both = f"{function}\ndef both(x, sum, n):\n    return add(x, sum), n + len(x)"
    assert additions_through(both, "total, n = both(loss, total, n)")["n"] == ["len(x)"]


@pytest.mark.parametrize("function", sorted(DOES_NOT_ADD))
def test_a_function_that_gives_something_else(function: str) -> None:
    assert "total" not in additions_through(function, "total = add(loss, total)")
    assert "total" not in additions_through("add = lambda x, sum: sum + x", "total = add(total, total)")


def test_a_sum_that_a_function_adds_to_is_reduced() -> None:
    function = "def add(x, sum):\n    sum += x.item()\n    return sum\n"
    text = function + training(
        begin="total, n = 0, 0", batch="total = add(loss, total); n += 1", end="print(total / n)"
    )
    assert "accelerator.reduce((total, n), " in run(text).after.decode()


def test_the_variables_that_a_loop_adds_to() -> None:
    loop = ast.parse("for x in xs:\n    a += x\n    b = b + x\n    c = x\n").body[0]
    assert set(added_in(loop)) == {"a", "b"}


@pytest.mark.parametrize(
    ("update", "how"),
    [
        ("rows += list(loss.cpu())", Updating.COLLECTS),
        ("rows = rows + loss.tolist()", Updating.COLLECTS),
        ("rows += names(batch)", Updating.COLLECTS),
        ("rows += [loss.item()]", Updating.COLLECTS),
        ("total += loss", Updating.ADDS),
        ("n += count(batch)", Updating.ADDS),
    ],
)
def test_a_list_collects_what_is_added_to_it(update: str, how: Updating) -> None:
    script = script_of(
        training(begin="total, n, rows = torch.zeros(2), 0, []", batch=update, end="print(total, n, rows)")
    )
    (loop,) = script.metrics.shared_loops
    chains = script.metrics.measured.chains
    targets = [n for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id in ("rows", "total", "n")]
    assert {updating(chains, n) for n in targets if isinstance(n.ctx, ast.Store)} == {how}
