"""Counts by rule, and of reasons without what is one script's own."""

from __future__ import annotations

from accelify.codemod.result import FileResult, Note, Status, Tier
from accelify.report.statistics import as_text, general, statistics
from tests.report.test_findings import MIGRATED


def declined(path: str, *messages: str) -> FileResult:
    notes = tuple(Note(1, "distributed", Tier.ADVICE, message) for message in messages)
    return FileResult(path, Status.DECLINED, notes=notes)


def test_a_reason_is_counted_once_a_file_whatever_names_it_has() -> None:
    results = [
        MIGRATED,
        declined("a.py", "`dist.send` is not migrated", "`dist.recv` is not migrated"),
        declined("b.py", "`dist.isend` is not migrated", "a group of its own"),
    ]
    assert as_text(statistics(results)).splitlines() == [
        "changes:",
        "      1  backward",
        "notes:",
        "      1  notes",
        "declined:",
        "      2  distributed: `...` is not migrated",
        "      1  distributed: a group of its own",
    ]


def test_what_is_one_scripts_own() -> None:
    assert general("src/lib.py:12: set up in 3 files, main.py and nb.ipynb") == (
        "`...`: set up in N files, `...` and `...`"
    )


def test_places_that_share_a_reason_are_not_counted() -> None:
    assert general("`a` is odd; also `b` (line 12), line 15") == "`...` is odd"
    assert general("a choice; also line 15") == "a choice"


def test_nothing_is_said_to_be_nothing() -> None:
    assert as_text(statistics([])) == "Nothing to count.\n"
