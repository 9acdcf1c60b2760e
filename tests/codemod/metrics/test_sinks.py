"""Where values leave the training: source text in, sinks out."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.sinks import Sinks, Way
from tests.codemod.facts import Facts
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


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        ("self.say = lambda x: print('>', x)", "x"),
        ("self.say = lambda xs: [print(x) for x in xs]", "x"),
        ("self.say = lambda x: x; self.other = lambda x: print('>', x)", None),
    ],
)
def test_a_lambda_shows_what_an_imported_object_hands_it(made: str, shown: str | None) -> None:
    log = f"class Log:\n    def __init__(self): {made}\n    def info(self, x): self.say(x)\nlog = Log()\n"
    used = "from log import log\ndef report(x): log.info(x)\n"
    text = "from used import report\n" + training(end="report(epoch)")
    chains = Facts({"train.py": text, "used.py": used, "log.py": log}).script.metrics.measured.chains
    found = {ast.unparse(s.value) for s in Sinks(chains).find() if chains.program.path(s.node) == "log.py"}
    assert (shown in found) if shown else not found
