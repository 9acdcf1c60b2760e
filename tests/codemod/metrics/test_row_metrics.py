"""Facts about metrics that are counted row by row."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.row_metrics import Rowwise
from tests.codemod.metrics.loops import in_loop


@pytest.mark.parametrize(
    ("statement", "of_rows"),
    [
        ("pred = out.argmax(1)", True),
        ("correct += (out.argmax(1) == y).sum().item()", True),
        ("n += y.size(0)", True),
        ("rows.extend(out.tolist())", True),
        ("n += 1", False),
        ("total += out.mean().item()", False),
        ("correct -= out.sum().item()", False),
        ("rows.append(out)", False),
        ("out = unknown(x)", False),
        ("x[0] = 1", False),
        ("print(out)", False),
    ],
)
def test_statements_of_the_rows_alone(statement: str, of_rows: bool) -> None:
    facts, loop = in_loop(f"out = model(x)\n{statement}", before="correct, n, total, rows = 0, 0, 0, []")
    assert Rowwise(facts.program, facts.tracer, loop).is_statement(loop.body[-1]) is of_rows
