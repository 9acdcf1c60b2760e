"""Labels of values, of parts of objects, and of values that are updated from round to round."""

from __future__ import annotations

import ast

from accelify.codemod.metrics.ranks.labels import (
    Given,
    Label,
    Mark,
    Origin,
    Rank,
    bounded,
    given_in,
    into_part,
    is_draw,
    part_of,
    put_at,
    uncovered,
    updated,
    without_place,
)
from tests.codemod.facts import Facts

FACTS = Facts("def run(x):\n    return x\nfor x in rows:\n    total += x\n")
LOOP, UPDATE = FACTS["for x in rows"], FACTS["total += x"]
GIVEN = Given(next(s for s in FACTS.program.scope(LOOP).walk() if s.name == "run"), "x")
BATCH = Origin(Mark.BATCH, LOOP)


def labels(*found: Label) -> frozenset[Label]:
    return frozenset(found)


def test_what_is_put_into_a_part_is_found_in_that_alone() -> None:
    placed = put_at(labels(BATCH, GIVEN), "loss")
    assert part_of(placed, "loss") == labels(BATCH, GIVEN)
    assert part_of(placed, "step") == labels()
    assert without_place(placed) == labels(BATCH, GIVEN)
    assert put_at(placed, "log") == placed  # a part of a part


def test_a_part_of_what_is_given_is_another_for_each_call() -> None:
    assert part_of(labels(GIVEN), "loss") == labels(Given(GIVEN.scope, "x", at="loss"))
    assert given_in(labels(BATCH, into_part(GIVEN, "loss"))) == labels(into_part(GIVEN, "loss"))


def test_a_value_that_is_added_to_is_a_running_one() -> None:
    assert updated(labels(BATCH), UPDATE) == labels(Origin(Mark.RUNNING, UPDATE))
    assert updated(labels(Origin(Mark.CLOCK, LOOP)), UPDATE) == labels(Origin(Mark.CLOCK, LOOP))
    assert updated(labels(GIVEN), UPDATE) == labels(Given(GIVEN.scope, "x", update=UPDATE))


def test_the_label_of_all_covers_those_of_parts() -> None:
    part = Origin(Mark.BATCH, LOOP, "loss")
    assert uncovered(labels(part), labels(BATCH)) == labels()
    assert uncovered(labels(part), labels()) == labels(part)


def test_what_is_in_many_parts_is_in_all() -> None:
    few, many = ([Origin(Mark.BATCH, LOOP, str(k)) for k in range(count)] for count in (5, 50))
    assert bounded(labels(*few)) == labels(*few)
    assert bounded(labels(*many)) == labels(BATCH)


def test_a_count_is_the_same_number_on_all_ranks() -> None:
    count = Origin(Mark.STEPS, ast.Pass(), differs=False)
    assert count.is_count
    assert not Rank(frozenset({count})).is_own
    assert Rank(frozenset({count})).steps
    assert Rank(frozenset({BATCH})).is_own
    assert is_draw(Origin(Mark.DRAW, LOOP))
    assert not is_draw(BATCH)
