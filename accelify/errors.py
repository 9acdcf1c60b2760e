"""The errors that accelify raises on purpose; anything else is a bug and shows its traceback."""

from __future__ import annotations

from collections.abc import Iterable


class AccelifyError(Exception):
    """The base of them all: names the object, the value and the way out."""


class FileError(AccelifyError):
    """Something that stood in the way at one file: `line` counts from 1, `column` from 0, as in `ast`.

    cell: the one of a notebook (from 1) in which the line is counted.
    """

    def __init__(
        self,
        path: str,
        line: int | None = None,
        column: int | None = None,
        reason: str = "",
        cell: int | None = None,
    ) -> None:
        super().__init__(path, line, column, reason, cell)  # positional, so that a worker process can pickle it
        self.path = path
        self.line = line
        self.column = column
        self.reason = reason
        self.cell = cell

    def __str__(self) -> str:
        return f"{place(self.path, self.line, self.column, self.cell)}: {self.reason}"


class CannotRead(FileError):
    """The file's bytes could not be had, or are not text."""


class CannotParse(FileError):
    """The file's text is not Python that we can parse."""


class CannotWrite(FileError):
    """The file was left as it was, because replacing it was not safe or not allowed."""


def place(path: str, line: int | None = None, column: int | None = None, cell: int | None = None) -> str:
    """`path:line:column` as editors read it: the column counts from 1 there; what is unknown is left out.

    In a notebook: `path:cell 4, line 2`.
    """
    if line is None:
        return path
    if cell is not None:
        return f"{path}:cell {cell}, line {line}"
    return f"{path}:{line}" if column is None else f"{path}:{line}:{column + 1}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'ignore'?` for a name that is almost a known one; a full stop where none is near."""
    import difflib  # 5 ms, paid for by mistakes alone

    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else "."
