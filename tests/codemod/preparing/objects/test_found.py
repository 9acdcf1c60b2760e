"""What is found is prepared once, and by functions that have an accelerator."""

from __future__ import annotations

from accelify.codemod.preparing.grouping import Item
from accelify.codemod.preparing.objects.found import Found
from tests.codemod.facts import Facts

TEXT = """\
def make():
    return DataLoader(rows), DataLoader(more)
loader, other = make()
"""


def test_an_object_that_two_loops_go_over_is_prepared_once() -> None:
    facts, found = Facts(TEXT), Found(set())
    item = Item("loader", "loader", facts.scope("main.py"), facts.statement("loader, other"), 3)
    for each in (item, item, Item("loader", "other", item.frame, item.statement, 3)):
        found.add(each)
    assert [i.text for i in found.items] == ["loader", "other"]


def test_what_has_no_name_is_wrapped_once_where_it_is_made() -> None:
    facts, found = Facts(TEXT), Found(set())
    calls = [facts.call("DataLoader(more)"), facts.call("DataLoader(rows)")]
    found.wrap("loader", calls[1])
    found.wrap_all(facts.program, "loader", calls)
    assert found.wrapped == [("loader", calls[1]), ("loader", calls[0])]
    assert found.needed == {facts.scope("make")}
