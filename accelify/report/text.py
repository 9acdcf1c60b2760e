"""Results as text, for people: what was done and what is left, each at `path:line`, and one line that sums up."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from accelify.codemod.result import ChangeRecord, FileResult, Note, Status, Tier
from accelify.errors import place
from accelify.report.colour import Paint, plain


@dataclass(frozen=True, slots=True)
class Style:
    """How to print.

    tentative: nothing was written, so say what would be. quiet: only say what is left for a person. verbose: name what
    is right as it stands, too.
    width: columns to wrap at; None for a pipe, where a finding stays on its line for grep.
    """

    tentative: bool = False
    quiet: bool = False
    verbose: bool = False
    width: int | None = None
    paint: Paint = plain


@dataclass(frozen=True, slots=True)
class _Row:
    """One finding: where, which rule, a mark for what needs a look, and the words."""

    place: str
    rule: str
    tier: Tier
    words: str


def render(result: FileResult, style: Style) -> str:
    """The report on one file that was read: a headline, what was done, what is left."""
    changes = [
        _Row(place(result.path, it.line, cell=it.cell), it.rule, it.tier, it.reason)
        for it in sorted(() if style.quiet else result.changes, key=_line)
    ]
    notes = _rows(result, result.notes)
    kept = _rows(result, result.kept if style.verbose else ())
    rows = [*changes, *notes, *kept]
    columns = max((len(row.place) for row in rows), default=0), max((len(row.rule) for row in rows), default=0)
    lines = [_headline(result, style)]
    lines += [line for row in changes for line in _lines(row, columns, style)]
    if changes and notes:
        lines.append("  " + style.paint("bold", "for you to review (line numbers of the new file):"))
    lines += [line for row in notes for line in _lines(row, columns, style)]
    if kept:
        lines.append("  " + style.paint("bold", "left as it is (line numbers of the new file):"))
    lines += [line for row in kept for line in _lines(row, columns, style)]
    return "".join(f"{line}\n" for line in lines)


def _rows(result: FileResult, notes: Iterable[Note]) -> list[_Row]:
    return [
        _Row(place(result.path, it.line, cell=it.cell), it.rule, it.tier, it.message) for it in sorted(notes, key=_line)
    ]


def line(result: FileResult, style: Style) -> str:
    """The same in one line: the headline, and of a declined file the first reason with its place."""
    if result.status is not Status.DECLINED:
        return f"{_headline(result, style).removesuffix(':')}{_counted(result)}\n"
    first, *others = sorted(result.notes, key=_line)
    where = place(result.path, first.line, cell=first.cell)
    more = f" (and {_many(len(others), 'more reason')})" if others else ""
    verdict = style.paint("bold yellow", "declined")
    return f"{style.paint('bold', where)}: {verdict}, {first.rule}: {first.message}{more}\n"


def _counted(result: FileResult) -> str:
    is_unchanged = result.status is Status.UNCHANGED and result.notes
    return f" ({_many(len(result.notes), 'note')})" if is_unchanged else ""


def render_error(result: FileResult, style: Style) -> str:
    """One line for a file that could not be read, parsed or written."""
    error = result.error
    assert error is not None
    where = place(result.path, error.line, error.column, error.cell)
    return f"{style.paint('bold', where)}: {style.paint('bold red', 'error:')} {error.message}\n"


def summary(results: Sequence[FileResult], style: Style) -> str:
    """One line that sums up the run."""
    verdicts = {
        Status.MIGRATED: ("would be migrated" if style.tentative else "migrated", "green"),
        Status.DECLINED: ("declined", "yellow"),
        Status.UNCHANGED: ("unchanged", "dim"),
        Status.ERROR: ("failed", "red"),
    }
    parts: list[str] = []
    for status, (verdict, colour) in verdicts.items():
        count = sum(result.status is status for result in results)
        if count:
            parts.append(style.paint(colour, f"{count if parts else _many(count, 'file')} {verdict}"))
    notes = sum(len(result.notes) for result in results if result.status is not Status.DECLINED)
    if notes:
        parts.append(f"{_many(notes, 'note')} to review")
    return ", ".join(parts or ["Nothing to do"]) + ".\n"


def _headline(result: FileResult, style: Style) -> str:
    path = style.paint("bold", result.path)
    if result.status is Status.MIGRATED:
        verdict = "would be migrated" if style.tentative else "migrated"
        counted = [_many(len(result.changes), "change")]
        if result.notes:
            counted.append(_many(len(result.notes), "note"))
        return f"{path}: {style.paint('bold green', verdict)} ({', '.join(counted)})"
    if result.status is Status.DECLINED:
        return f"{path}: {style.paint('bold yellow', 'declined')}, the file is unchanged. Reasons:"
    reason = f", {result.because or 'nothing to migrate'}" if result.because or not result.notes else ""
    return f"{path}: unchanged{reason}" + (":" if result.notes else "")


def _lines(row: _Row, columns: tuple[int, int], style: Style) -> Iterator[str]:
    """A finding in aligned columns, its words wrapped under themselves."""
    before = f"  {row.place:<{columns[0]}}  {row.rule:<{columns[1]}}  "
    mark = "review: " if row.tier is Tier.REVIEW else ""
    words = [mark + row.words]
    if style.width and style.width - len(before) >= 30:
        words = textwrap.wrap(words[0], style.width - len(before), break_on_hyphens=False, break_long_words=False)
    first = words[0]
    if mark and first.startswith(mark):
        first = style.paint("yellow", mark) + first.removeprefix(mark)
    yield f"  {style.paint('cyan', row.place)}{before[2 + len(row.place) :]}{first}"
    for line in words[1:]:
        yield " " * len(before) + line


def _line(finding: ChangeRecord | Note) -> tuple[int, int]:
    return finding.cell or 0, finding.line


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
