"""Findings have the lines of the files that are there, and the words of the report."""

from __future__ import annotations

from accelify.codemod.result import ChangeRecord, FileResult, Note, Problem, Status, Tier
from accelify.report.findings import Finding, findings

BEFORE = b"import torch\r\nloss.backward()\r\nprint(loss)\r\n"
AFTER = b"import torch\r\nimport new\r\n\r\naccelerator.backward(loss)\r\nprint(loss)\r\n"
CHANGE = ChangeRecord(2, "backward", Tier.SAFE, "the accelerator scales")
MIGRATED = FileResult(
    "train.py", Status.MIGRATED, BEFORE, AFTER, (CHANGE,), (Note(5, "notes", Tier.REVIEW, "one process's own"),)
)


def test_before_files_are_changed_notes_are_at_the_lines_that_are_there() -> None:
    assert list(findings([MIGRATED], tentative=True)) == [
        Finding("train.py", 2, None, "backward", "note", "would be changed: the accelerator scales"),
        Finding("train.py", 3, None, "notes", "warning", "one process's own"),
    ]


def test_after_that_only_what_is_left_is_a_finding() -> None:
    assert list(findings([MIGRATED], tentative=False)) == [
        Finding("train.py", 5, None, "notes", "warning", "one process's own")
    ]


def test_reasons_for_declining_are_warnings_and_errors_are_errors() -> None:
    note = Note(4, "distributed", Tier.ADVICE, "it sends")
    declined = FileResult("a.py", Status.DECLINED, b"", b"", notes=(note,))
    failed = FileResult("b.py", Status.ERROR, error=Problem(3, 0, "no Python"))
    gone = FileResult("c.py", Status.ERROR, error=Problem(None, None, "no such file"))
    assert list(findings([declined, failed, gone], tentative=True)) == [
        Finding("a.py", 4, None, "distributed", "warning", "declined: it sends"),
        Finding("b.py", 3, 1, "error", "error", "no Python"),
        Finding("c.py", 1, None, "error", "error", "no such file"),
    ]


def test_in_a_notebook_the_message_names_the_cell() -> None:
    note = Note(2, "notes", Tier.ADVICE, "look", cell=4)
    book = FileResult("a.ipynb", Status.MIGRATED, b"{}", b"{}", (), (note,))
    (found,) = findings([book], tentative=True)
    assert found == Finding("a.ipynb", 1, None, "notes", "note", "cell 4, line 2: look")
