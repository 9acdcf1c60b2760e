"""Annotations are one command a line, with all that would end it escaped."""

from __future__ import annotations

from accelify.codemod.result import FileResult, Note, Problem, Status, Tier
from accelify.report import github
from tests.report.test_findings import MIGRATED


def test_changes_of_a_file_are_one_annotation() -> None:
    assert github.render([MIGRATED], tentative=True).splitlines() == [
        "::warning title=accelify (rewrite),file=train.py,line=2::"
        "train.py:2: would be migrated (1 change): run `accelify rewrite` on it",
        "::warning title=accelify (notes),file=train.py,line=3::train.py:3: one process's own",
    ]
    assert len(github.render([MIGRATED], tentative=False).splitlines()) == 1


def test_what_would_end_a_command_is_escaped() -> None:
    note = Note(1, "notes", Tier.ADVICE, "50% of it\nand::more")
    (line,) = github.render([FileResult("a,b:c.py", Status.UNCHANGED, notes=(note,))], tentative=True).splitlines()
    assert line == ("::notice title=accelify (notes),file=a%2Cb%3Ac.py,line=1::a,b:c.py:1: 50%25 of it%0Aand::more")


def test_errors_have_their_column() -> None:
    failed = FileResult("b.py", Status.ERROR, error=Problem(3, 4, "no Python"))
    assert github.render([failed], tentative=True) == (
        "::error title=accelify (error),file=b.py,line=3,col=5::b.py:3: no Python\n"
    )
