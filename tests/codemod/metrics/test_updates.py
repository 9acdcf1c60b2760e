"""What a statement adds to a running value: source text in, fact out."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.updates import Updating, added_in, additions_in, updating
from tests.codemod.metrics.facts import script_of, training


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
