"""What people read: the verdict, what was done and what is left, each where an editor finds it."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest

from accelify.codemod.result import ChangeRecord, FileResult, Note, Problem, Status, Tier
from accelify.report.colour import colourful, paint_for, painted_diff, plain
from accelify.report.text import Style, render, render_error, summary

LONG = "with N processes every step sees N times the rows, so that the learning rate may have to change with it"
MIGRATED = FileResult(
    "src/train.py",
    Status.MIGRATED,
    changes=(
        ChangeRecord(120, "backward", Tier.SAFE, "the accelerator scales and divides the loss"),
        ChangeRecord(7, "global_batch", Tier.REVIEW, LONG),
    ),
    notes=(Note(99, "files", Tier.ADVICE, "every process writes log.txt"),),
)
DECLINED = FileResult("gan.py", Status.DECLINED, notes=(Note(30, "optimizer", Tier.ADVICE, "which one steps `net`?"),))
UNCHANGED = FileResult("util.py", Status.UNCHANGED)
BROKEN = FileResult("old.py", Status.ERROR, error=Problem(3, 0, "this is Python 2"))
GONE = FileResult("gone.py", Status.ERROR, error=Problem(None, None, "no such file"))


def test_a_migrated_file_says_what_was_done_and_what_is_left() -> None:
    assert render(MIGRATED, Style()) == (
        "src/train.py: migrated (2 changes, 1 note)\n"
        f"  src/train.py:7    global_batch  review: {LONG}\n"
        "  src/train.py:120  backward      the accelerator scales and divides the loss\n"
        "  for you to review (line numbers of the new file):\n"
        "  src/train.py:99   files         every process writes log.txt\n"
    )


def test_what_stays_is_only_said_to_whoever_asks() -> None:
    kept = replace(MIGRATED, kept=(Note(5, "device_moves", Tier.INFO, "stays: it goes to the CPU"),))
    assert render(kept, Style()) == render(MIGRATED, Style())
    assert summary([kept], Style()) == summary([MIGRATED], Style())
    assert render(kept, Style(verbose=True)) == render(MIGRATED, Style()) + (
        "  left as it is (line numbers of the new file):\n  src/train.py:5    device_moves  stays: it goes to the CPU\n"
    )


def test_what_was_not_written_only_would_be() -> None:
    style = Style(tentative=True)
    assert render(MIGRATED, style).startswith("src/train.py: would be migrated (")
    assert summary([MIGRATED, UNCHANGED], style) == "1 file would be migrated, 1 unchanged, 1 note to review.\n"


def test_a_declined_file_says_that_it_is_as_it_was_and_why() -> None:
    assert render(DECLINED, Style()) == (
        "gan.py: declined, the file is unchanged. Reasons:\n  gan.py:30  optimizer  which one steps `net`?\n"
    )


def test_an_unchanged_file_says_why_or_shows_its_notes() -> None:
    assert render(UNCHANGED, Style()) == "util.py: unchanged, nothing to migrate\n"
    noted = replace(UNCHANGED, notes=(Note(1, "already", Tier.ADVICE, "already migrated"),))
    assert render(noted, Style()) == "util.py: unchanged:\n  util.py:1  already  already migrated\n"


def test_an_error_is_one_line_with_the_place_as_editors_count() -> None:
    assert render_error(BROKEN, Style()) == "old.py:3:1: error: this is Python 2\n"
    assert render_error(GONE, Style()) == "gone.py: error: no such file\n"


def test_the_summary_counts_every_file() -> None:
    results = [MIGRATED, MIGRATED, DECLINED, UNCHANGED, UNCHANGED, UNCHANGED, BROKEN, GONE]
    assert summary(results, Style()) == ("2 files migrated, 1 declined, 3 unchanged, 2 failed, 2 notes to review.\n")
    assert summary([BROKEN], Style()) == "1 file failed.\n"


@pytest.mark.parametrize("width", [80, 100])
def test_on_a_terminal_words_wrap_under_themselves_and_none_is_lost(width: int) -> None:
    wrapped = render(MIGRATED, Style(width=width)).splitlines()
    assert max(map(len, wrapped)) <= width
    assert len(wrapped) > 5
    assert " ".join(" ".join(wrapped).split()) == " ".join(render(MIGRATED, Style()).split())
    column = wrapped[1].index("review:")
    assert wrapped[2][:column].isspace()
    assert not wrapped[2][column].isspace()


def test_a_narrow_terminal_is_left_to_wrap_itself() -> None:
    assert render(MIGRATED, Style(width=40)) == render(MIGRATED, Style())


def test_colour_changes_nothing_but_colour() -> None:
    style = Style(paint=colourful)
    for result in (MIGRATED, DECLINED, UNCHANGED):
        assert re.sub(r"\033\[[0-9;]*m", "", render(result, style)) == render(result, Style())
        assert "\033[" in render(result, style)
    assert re.sub(r"\033\[[0-9;]*m", "", render_error(BROKEN, style)) == render_error(BROKEN, Style())


def test_a_diff_is_painted_line_by_line() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same\n\\ No newline at end of file\n"
    painted = painted_diff(diff, colourful)
    assert "\033[31m-old\033[0m\n\033[32m+new\033[0m\n same\n" in painted
    assert re.sub(r"\033\[[0-9;]*m", "", painted) == diff


def test_a_pipe_is_plain_unless_colour_is_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    pipe, terminal = io.StringIO(), io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    assert (paint_for(pipe), paint_for(terminal)) == (plain, colourful)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert paint_for(pipe) is colourful
    monkeypatch.setenv("NO_COLOR", "1")
    assert (paint_for(pipe), paint_for(terminal)) == (plain, plain)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert paint_for(terminal) is plain
