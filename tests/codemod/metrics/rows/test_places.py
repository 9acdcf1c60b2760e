"""Facts about places of containers at literal keys."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.rows.places import holder_of, made_at, reads_at, variable_of
from tests.codemod.training_scripts import training


@pytest.mark.parametrize(
    ("place", "holder"),
    [
        ("rows", "rows"),
        ("self.rows", "self.rows"),
        ("logs['loss']", "logs"),
        ("self.logs['loss']", "self.logs"),
        ("logs[key]", None),
        ("logs['a']['b']", None),
        ("rows()", None),
    ],
)
def test_the_holder_of_a_place(place: str, holder: str | None) -> None:
    found = holder_of(ast.parse(place, mode="eval").body)
    assert (found and ast.unparse(found)) == holder


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ("{'loss': [], 'acc': [1]}", "[]"),
        ("{k: [] for k in names}", "[]"),
        ("collections.defaultdict(list)", "list()"),
        ("dict.fromkeys(names, [])", None),
        ("{}", None),
    ],
)
def test_what_a_dict_is_made_with_at_a_key(value: str, made: str | None) -> None:
    facts = training(end=f"import collections\nuse({value})\n")
    found = made_at(facts.program, facts.call("use(").args[0], "logs['loss']")
    assert (found and ast.unparse(found)) == made
    assert variable_of("logs['loss']") == "logs"


@pytest.mark.parametrize(
    ("use", "reads"),
    [
        ("print(mean(logs['loss']), logs['acc'])", ["logs['loss']"]),
        ("print({k: mean(v) for k, v in logs.items()})", ["v"]),
        ("for v in logs.values(): print(mean(v), max(v))", ["v", "v"]),
        ("print(logs)", ["logs"]),
        ("print(logs[key])", ["logs"]),
        ("print([len(logs.values())])", ["logs"]),
    ],
)
def test_the_reads_of_a_place(use: str, reads: list[str]) -> None:
    facts = training(end=f"logs = make()\n{use}\n")
    held = facts.program.reads_of(facts.program.frame(facts.files[0].nodes[0]), "logs")
    found = [ast.unparse(r) for read in held for r in reads_at(facts.program, read, "logs['loss']")]
    assert found == reads
