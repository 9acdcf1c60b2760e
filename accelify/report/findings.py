"""The findings of a run, as lines of the files that are there: for programs that show findings beside the code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accelify.codemod.files.lines import line_after
from accelify.codemod.files.source import decode, is_notebook
from accelify.codemod.result import FileResult, Note, Status, Tier

ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: where, from which rule, how serious (`error`, `warning` or `note`), and what it says.

    line, column: from 1, in the file as it is on the disk; a notebook's cells have no lines there, so that `message`
    names the cell.
    """

    path: str
    line: int
    column: int | None
    rule: str
    level: str
    message: str


def findings(results: Sequence[FileResult], *, tentative: bool, changes: bool = True) -> Iterator[Finding]:
    """All findings. Changes are some while they are still to be made, that is if the run is `tentative`."""
    for result in results:
        if result.error is not None:
            error = result.error
            column = error.column + 1 if error.column is not None else None
            line = error.line if error.line is not None and error.cell is None else 1
            message = _in_cell(error.cell, error.line, error.message)
            yield Finding(result.path, line, column, ERROR, "error", message)
        for change in result.changes if tentative and changes else ():
            message = f"would be changed: {change.reason}"
            line = 1 if change.cell else change.line
            yield Finding(result.path, line, None, change.rule, "note", _in_cell(change.cell, change.line, message))
        for note in result.notes:
            is_reason = result.status is Status.DECLINED
            message = f"declined: {note.message}" if is_reason else note.message
            level = "warning" if is_reason or note.tier is Tier.REVIEW else "note"
            line = _line_on_disk(result, note, tentative=tentative)
            yield Finding(result.path, line, None, note.rule, level, _in_cell(note.cell, note.line, message))


def _in_cell(cell: int | None, line: int | None, message: str) -> str:
    return message if cell is None else f"cell {cell}, line {line}: {message}"


def _line_on_disk(result: FileResult, note: Note, *, tentative: bool) -> int:
    """The line of a note, whose own is of the new file, in the file that is there."""
    if note.cell is not None:
        return 1
    if not tentative or result.status is not Status.MIGRATED or is_notebook(result.path):
        return note.line
    before, after = (decode(data, result.path).text for data in (result.before, result.after))
    return line_after(_lines(after), _lines(before))(note.line)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
