"""The findings of `accelify check`, as text for people: a line for each, and a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accelify.codemod.result import FileResult, Status
from accelify.errors import place
from accelify.report.colour import Paint, plain
from accelify.report.text import Style, render_error


def lines(results: Sequence[FileResult], paint: Paint = plain) -> Iterator[tuple[bool, str]]:
    """The lines, each with whether it is of a file that failed: `train.py:12: every_rank_writes: every process ...`"""
    for result in results:
        if result.status is Status.ERROR:
            yield True, render_error(result, Style(paint=paint))
        for note in sorted(result.notes, key=lambda n: (n.cell or 0, n.line, n.rule)):
            where = place(result.path, note.line, cell=note.cell)
            yield False, f"{paint('bold', where)}: {paint('yellow', note.rule)}: {note.message}\n"


def summary(results: Sequence[FileResult], fixed: int) -> str:
    """One line that sums up a run over some files."""
    notes = sum(len(result.notes) for result in results)
    files = sum(bool(result.notes) for result in results)
    failed = sum(result.status is Status.ERROR for result in results)
    parts = [f"{_many(fixed, 'problem')} fixed"] if fixed else []
    parts.append(f"{_many(notes, 'problem')} in {_many(files, 'file')}" if notes else "nothing found")
    parts += [f"{_many(failed, 'file')} could not be read"] if failed else []
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]} ({_many(len(results), 'file')} checked).\n"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
