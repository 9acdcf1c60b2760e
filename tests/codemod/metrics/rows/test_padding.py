"""Does a number of rounds follow the length to which the rows of a rank's own batch are padded?"""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.rows.padding import follows_padding
from tests.codemod.training_scripts import STEP, training

COLLATE = "def together(rows):\n    return torch.nn.utils.rnn.pad_sequence(rows, batch_first={first})"


@pytest.mark.parametrize(
    ("first", "count", "follows"),
    [
        (True, "range(x.size(1))", True),
        (True, "range(1, x.shape[1])", True),
        (False, "range(len(x))", True),
        (True, "range(x.size(0))", False),
        (True, "range(4)", False),
    ],
)
def test_the_padded_dimension_of_a_batch(first: bool, count: str, follows: bool) -> None:
    facts = training(
        before=COLLATE.format(first=first),
        model="loader = DataLoader(rows, 2, collate_fn=together)",
        step=f"{STEP}rounds = {count}",
    )
    assert follows_padding(facts.script.metrics, facts[f"rounds = {count}"].value) is follows
