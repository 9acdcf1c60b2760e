"""All that is prepared, and loops that would be sharded twice."""

from __future__ import annotations

from accelify.codemod.preparing.grouping import Item
from accelify.codemod.preparing.objects.preparation import Preparation, sharded_twice
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import training


def preparation(**slots: str) -> Preparation:
    return training(**slots).script.preparation


def test_what_is_prepared() -> None:
    found = preparation()
    assert {(i.kind, i.text) for i in found.items} == {
        ("loader", "loader"),
        ("model", "model"),
        ("optimizer", "optimizer"),
    }
    assert found.has_model
    assert found.trains_something
    assert not found.obstacles
    assert not found.sharded


TEXT = """\
loader = DataLoader(d)
other = DataLoader(e)
def g(l):
    yield from l
for x in g(loader): pass
for x in other: pass
"""


def obstacles(kind: str = "loader", name: str = "loader") -> list[str]:
    facts = Facts(TEXT)
    statement = facts.statement(f"{name} = DataLoader")
    item = Item(kind, name, facts.scope("main.py"), statement, 1)
    source = facts.call("g(loader)").args[0]
    return [message for _, message in sharded_twice(facts.tracer, [source], [item])]


def test_a_loader_that_is_prepared() -> None:
    assert len(obstacles()) == 1
    assert "`loader`" in obstacles()[0]


def test_something_else_that_is_prepared() -> None:
    assert obstacles(name="other") == []
    assert obstacles(kind="model") == []
