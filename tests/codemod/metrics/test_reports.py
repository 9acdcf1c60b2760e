"""Which values of one rank's own are reported: source text in, reports out."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.rank import Ranks
from accelify.codemod.metrics.reports import Report, Reports
from tests.codemod.metrics.facts import script_of, training


def reports(**slots: str) -> list[Report]:
    """The reports of a script of which nothing is reduced."""
    script = script_of(training(**slots))
    ranks = Ranks(script.metrics.measured.chains, script.metrics.measured.shards(script.metrics.shared_loops))
    return Reports(ranks, lambda node: False).find()


@pytest.mark.parametrize("update", ["total += loss.item()", "total = max(total, loss.item())", "total.add_(loss)"])
def test_a_running_value_that_is_shown(update: str) -> None:
    found = reports(begin="total = torch.zeros(())", batch=update, end="print(total)")
    assert "total" in {report.text for report in found}


@pytest.mark.parametrize("shown", ["print(epoch)", "print(len(loader))", "total = 0"])
def test_what_every_rank_has_is_not_reported(shown: str) -> None:
    assert reports(end=shown) == []
