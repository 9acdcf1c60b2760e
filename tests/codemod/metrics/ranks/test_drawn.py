"""What ranks draw for themselves."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.ranks.drawn import Draws
from tests.codemod.training_scripts import STEP, training


@pytest.mark.parametrize(
    ("taken", "is_drawn"),
    [("itertools.islice(valid, 2)", True), ("valid", False)],
)
def test_some_batches_that_each_rank_draws_are_others(taken: str, is_drawn: bool) -> None:
    facts = training(
        imports="import itertools",
        before="valid = DataLoader(rows, batch_size=2, shuffle=True)",
        step=f"{STEP}for a, b in {taken}:\n    print(model(a), torch.rand(3))\n",
    )
    draws = facts.script.metrics.ranks.draws
    assert isinstance(draws, Draws)
    loop = facts["for a, b in"]
    assert isinstance(loop, ast.For)
    assert draws.is_in_a_round(loop)
    assert draws.draws_batches(loop) is is_drawn
