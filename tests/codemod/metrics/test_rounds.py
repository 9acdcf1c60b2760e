"""Facts about the rounds of a loop: whether one needs another, and what they keep."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.rounds import Remains, Rounds, is_in, kept_in, stored_in
from accelify.codemod.metrics.sums.meter_classes import Meters
from accelify.codemod.training.harmless import Harmless
from tests.codemod.facts import Facts
from tests.codemod.metrics.loops import in_loop


def independent(body: str) -> bool:
    facts, loop = in_loop(body, before="total, best, rows = 0.0, 0.0, []")
    harmless = Harmless(facts.program, facts.roles)
    return Rounds(facts.program, facts.tracer, harmless, Meters(facts.program), loop).are_independent()


@pytest.mark.parametrize(
    "body",
    [
        "out = model(x)\ntotal += out.sum().item()",
        "out = model(x)\nrows.append(out.sum().item())",
        "out = model(x)\nif out.sum() > 0:\n    total += 1",
        "print(model(x))",
    ],
)
def test_rounds_that_need_no_other(body: str) -> None:
    assert independent(body)


@pytest.mark.parametrize(
    "body",
    [
        "best = max(best, model(x).sum().item())\nx = best",
        "unknown(x)",
        "out = torch.randn(3)",
        "if total > 3:\n    break\ntotal += model(x).sum().item()",
        "total = total * 0.9 + model(x).sum().item()",
        "model(x).sum().backward()",
        "torch.save(x, p)",
    ],
)
def test_rounds_that_do_more(body: str) -> None:
    assert not independent(body)


BODY = """\
out = model(x)
total += out.sum().item()
table[0] += 1
rows.append(out.tolist())
"""


def test_sums_tables_lists_and_what_is_bound_anew() -> None:
    facts, loop = in_loop(BODY.rstrip("\n"), before="total, table, rows = 0.0, torch.zeros(3), []")
    found = Remains(facts.program, facts.tracer, loop)
    assert found.sums == {"total"}
    assert "out" in found.local
    assert "total" not in found.local
    assert found.is_outer("total")
    assert not found.is_outer("out")
    assert set(found.nodes()) >= {loop.body[0]}


def test_what_nobody_asks_for() -> None:
    facts, loop = in_loop(BODY.rstrip("\n"), before="total, table, rows = 0.0, torch.zeros(3), []")
    found = Remains(facts.program, facts.tracer, loop)
    found.forget(["total"])
    assert found.sums == set()


def test_names_that_are_bound() -> None:
    _facts, loop = in_loop("a = 1\nb.c = 2\nd, e = f()")
    assert set(stored_in(*loop.body)) == {"a", "d", "e"}


def test_variables_that_hold_what_the_code_made() -> None:
    facts = Facts("def f(x):\n    a = g()\n    b = x\n    c = []\n    for d in c: pass\n    a = x\n    c[0].y = 1\n")
    kept = kept_in(facts["def f"])
    assert kept == {"c"}
    assert is_in(facts.expression("c[0].y"), kept)
    assert not is_in(facts.expression("x"), kept)
