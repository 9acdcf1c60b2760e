"""What is collected of a file's points."""

from __future__ import annotations

from accelify.codemod.semantics.reaching.events import bits
from tests.codemod.semantics.reaching.sources import Named


def test_reads_come_before_what_is_written_there() -> None:
    source = Named("x = 1\nx = x + f(x)\n")
    (events,) = (listed for listed in source.collected().events[source.tree].values() if len(listed) > 1)
    kinds = ["reads" if e.reads else "calls" if e.calls else "hides" for e in events]
    assert kinds == ["reads", "reads", "calls", "hides"]


def test_a_name_of_a_class_is_an_attribute_too() -> None:
    source = Named("class A:\n    x = 1\n")
    made = source.collected().by_node[source.expression("x")]
    assert [definition.variable.is_attribute for definition in made] == [False, True]


def test_a_set_of_numbers() -> None:
    assert [*bits(0b10110)] == [1, 2, 4]
