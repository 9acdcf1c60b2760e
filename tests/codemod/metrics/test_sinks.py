"""Where values leave the training: source text in, sinks out."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.sinks import Sinks, Way
from tests.codemod.metrics.facts import script_of, training


def ways(statement: str) -> set[tuple[Way, str]]:
    """How the values of a statement at an epoch's end leave."""
    chains = script_of(training(end=statement)).metrics.measured.chains
    wanted = {ast.unparse(n) for s in ast.parse(statement).body for n in ast.walk(s) if isinstance(n, ast.expr)}
    return {(sink.way, ast.unparse(sink.value)) for sink in Sinks(chains).find() if ast.unparse(sink.value) in wanted}


@pytest.mark.parametrize(
    ("statement", "way", "value"),
    [
        ("print(epoch)", Way.SHOWN, "epoch"),
        ("import logging\nlogging.info('%s', epoch)", Way.SHOWN, "epoch"),
        ("import neptune\nrun = neptune.init_run()\nrun['train/loss'].append(epoch)", Way.SHOWN, "epoch"),
        ("import neptune\nrun = neptune.init_run()\nrun['epoch'] = epoch", Way.SHOWN, "epoch"),
        ("from aim import Run\nrun = Run()\nrun.track(epoch, name='loss')", Way.SHOWN, "epoch"),
        ("torch.save(epoch, 'e.pt')", Way.SAVED, "epoch"),
        ("if epoch > 1: break", Way.DECIDED, "epoch > 1"),
    ],
)
def test_a_value_that_leaves(statement: str, way: Way, value: str) -> None:
    assert (way, value) in ways(statement)


@pytest.mark.parametrize(
    "shown",
    [
        "epoch, loss",
        "f'{epoch} of 3: {loss:.3f}'",
        "'%d %.3f' % (epoch, loss)",
        "'{} {}'.format(epoch, loss)",
        "'at ' + f'{epoch}' + ' ' + f'{loss}'",
        "{'epoch': epoch, 'all': [loss]}",
    ],
)
def test_values_that_are_shown_side_by_side_are_told_apart(shown: str) -> None:
    assert ways(f"print({shown})") >= {(Way.SHOWN, "epoch"), (Way.SHOWN, "loss")}


@pytest.mark.parametrize(
    "statement", ["k = epoch + 1", "rows = [epoch]", "rows = {}; rows['a'] = epoch", "len([epoch])"]
)
def test_a_value_that_stays(statement: str) -> None:
    assert ways(statement) == set()
