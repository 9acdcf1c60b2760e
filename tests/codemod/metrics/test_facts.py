"""Facts about metrics, as rules are told of them."""

from __future__ import annotations

import ast

from accelify.codemod.metrics.facts import Metrics
from tests.codemod.training_scripts import training


def metrics(**slots: str) -> Metrics:
    found = training(**slots).script.metrics
    assert isinstance(found, Metrics)
    return found


def test_loops_whose_items_are_sharded() -> None:
    found = metrics(end="for z in range(3): pass\nfor x, y in loader: print(x)\n")
    assert [ast.unparse(n.iter) for n in found.shared_loops] == ["loader", "loader"]
    assert found.evaluations == []


def test_a_script_that_adds_nothing_up() -> None:
    found = metrics()
    assert found.reductions == ()
    assert found.gathered == ()
    assert found.dealt == ()
