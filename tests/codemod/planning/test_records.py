"""Notes that say the same of several places are one; places are those of the new files."""

from __future__ import annotations

import ast

from accelify.codemod.edits.values import Obstacle, Plan, Remark, no_facts
from accelify.codemod.planning.records import noted, notes_of, reasons
from accelify.codemod.result import Status, Tier

LINES = list(ast.parse("a\nb\nc\n").body)
DOWN = {"train.py": lambda line: line + 10}


def told(*remarks: Remark) -> list[tuple[int, str]]:
    return [(n.line, n.message) for n in notes_of(Plan(remarks=list(remarks)), "train.py", DOWN)]


def remark(line: int, message: str = "{} is own", path: str = "train.py", about: str = "") -> Remark:
    return Remark("notes", path, LINES[line - 1], message, Tier.REVIEW, about=about)


def test_places_of_which_the_same_is_said_are_one_note() -> None:
    assert told(remark(3, "stays"), remark(1, "stays")) == [(11, "stays; also line 13")]
    assert told(remark(1, about="`a`"), remark(2, about="`b`")) == [(11, "`a` is own; also `b` (line 12)")]
    assert told(remark(1, "stays"), remark(1, "stays")) == [(11, "stays")]


def test_the_other_places_have_their_own_lines_and_words() -> None:
    same = [remark(3, "stays"), remark(1, "stays"), remark(2, "stays"), remark(1, "stays")]
    (note,) = notes_of(Plan(remarks=same), "train.py", DOWN)
    assert note.also == ((12, "stays"), (13, "stays"))
    own = [remark(1, about="`a`"), remark(2, about="`b`")]
    assert [n.also for n in notes_of(Plan(remarks=own), "train.py", DOWN)] == [((12, "`b` is own"),)]


def test_other_messages_and_files_stay_apart() -> None:
    assert told(remark(1, "stays"), remark(2, "goes"), remark(3, "stays", "data.py")) == [(11, "stays"), (12, "goes")]


def test_files_that_do_not_change_have_their_notes_at_their_own_lines() -> None:
    remarks = [remark(3, "stays", "b.py"), remark(2, "stays", "a.py"), remark(1, "stays", "b.py"), remark(1, "goes")]
    data = {"a.py": b"a", "b.py": b"b", "train.py": b"c"}
    found = noted(Plan(remarks=remarks), {"train.py"}, data, DOWN)
    told = {result.path: [(note.line, note.message) for note in result.notes] for result in found}
    assert told == {"a.py": [(2, "stays")], "b.py": [(1, "stays; also line 3")]}
    assert {(r.status, r.before, r.after) for r in found} == {
        (Status.UNCHANGED, b"a", b"a"),
        (Status.UNCHANGED, b"b", b"b"),
    }


def why(*obstacles: Obstacle, here: str = "train.py") -> list[tuple[int, str]]:
    return [(n.line, n.message) for n in reasons(obstacles, here, no_facts, lambda path: 4)]


def obstacle(line: int, message: str, path: str = "train.py") -> Obstacle:
    return Obstacle("data", path, LINES[line - 1], message)


def test_reasons_that_repeat_are_one() -> None:
    assert why(obstacle(3, "odd"), obstacle(1, "odd"), obstacle(3, "odd")) == [(1, "odd; also line 3")]
    named = obstacle(1, "`a`: why"), obstacle(2, "`b`: why"), obstacle(3, "`b`: why not")
    assert why(*named) == [(1, "`a`: why; also `b` (line 2)"), (3, "`b`: why not")]
    assert why(obstacle(2, "odd: `'{}'.format(x)`"), obstacle(1, "`'{}'`: odd")) == [
        (2, "odd: `'{}'.format(x)`"),
        (1, "`'{}'`: odd"),
    ]
    (note,) = reasons((obstacle(1, "`a`: why"), obstacle(2, "`b`: why")), "train.py", no_facts, lambda path: 4)
    assert note.also == ((2, "`b`: why"),)


def test_reasons_in_other_files_name_their_places() -> None:
    found = [obstacle(1, "odd", "data.py"), obstacle(3, "odd", "data.py"), obstacle(2, "odd")]
    assert why(*found) == [(4, "data.py:1: odd; also data.py:3"), (2, "odd")]
    assert why(*found, here="data.py") == [(1, "odd; also line 3"), (4, "train.py:2: odd")]


def test_a_message_may_name_places_of_any_file() -> None:
    places = (("train.py", LINES[1]), ("data.py", LINES[2]))
    named = Remark("notes", "train.py", LINES[0], "counted in {0}", Tier.REVIEW, lines=(places,))
    assert told(named) == [(11, "counted in line 12, data.py:3")]
