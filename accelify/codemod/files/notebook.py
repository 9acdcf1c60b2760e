"""A notebook's code cells as one text of Python, and back into the very cells; the rest of its JSON stays as it is."""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from accelify.codemod.files.lines import opcodes
from accelify.codemod.files.magics import cell_magic, is_read, masked
from accelify.errors import CannotParse, CannotRead

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")
# The lines of a JSON string, as they are escaped.
_RAW_LINE = re.compile(r"(?:[^\\]|\\[^n])*?\\n|(?:[^\\]|\\[^n])+", re.DOTALL)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# Where cells stand, and what they hold: since nbformat 4, and before.
_CELL = "cell"
_SHAPE = {"cells": [_CELL], "worksheets": [{"cells": [_CELL]}]}
_SOURCES = ("source", "input")

Spans = dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell: its number among all cells (from 1), what it holds, and where that stands in the JSON text.

    python: the same without IPython's additions. stand_ins: what stands there for each of them.
    """

    number: int
    source: str
    start: int
    end: int
    python: str
    stand_ins: dict[str, str]

    @property
    def lines(self) -> int:
        """How many lines it has."""
        return self.source.count("\n") + 1


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook as JSON, and its cells of Python; `mark` is what the lines between them begin with.

    unread: the numbers of code cells that are not Python of this notebook, but hold a backward pass.
    """

    path: str
    text: str
    cells: tuple[Cell, ...]
    mark: str
    unread: tuple[int, ...]

    @property
    def python(self) -> str:
        """All cells as one text."""
        return "".join(between + cell.python for between, cell in zip(self._between, self.cells, strict=True)) + "\n"

    @property
    def _between(self) -> list[str]:
        """What comes before each cell. A statement: comments may go with what they belong to."""
        return [f'\n\n"{self.mark} cell {cell.number}"\n\n' if index else "" for index, cell in enumerate(self.cells)]

    @property
    def _starts(self) -> list[int]:
        """The first line of each cell in the Python text."""
        starts, line = [], 1
        for between, cell in zip(self._between, self.cells, strict=True):
            starts.append(line + between.count("\n"))
            line = starts[-1] + cell.python.count("\n")
        return starts

    def place(self, line: int) -> tuple[int, int]:
        """The cell, and the line in it, of a line of the Python text."""
        if not self.cells:
            return 1, line
        starts = self._starts
        index = max(bisect_right(starts, line) - 1, 0)
        cell = self.cells[index]
        return cell.number, min(line - starts[index] + 1, cell.lines)

    def check(self, tree: ast.Module) -> None:
        """See that every cell is Python by itself. Raises: CannotParse for one that leaves a string open."""
        statements = {statement.lineno: statement for statement in tree.body}
        for cell, start in zip(self.cells, self._starts[1:], strict=False):
            if not isinstance(statements.get(start - 2), ast.Expr):
                raise CannotParse(self.path, cell.lines, None, "a string is left open here", cell.number)

    def line(self, number: int, line: int) -> int | None:
        """The line of the Python text for one of a cell; None if there is no such line."""
        for cell, start in zip(self.cells, self._starts, strict=True):
            if cell.number == number and 1 <= line <= cell.lines:
                return start + line - 1
        return None

    def with_python(self, python: str) -> str:
        """The JSON text after an edit of the Python text; of a changed cell, the lines that stay keep their escapes.

        Raises: CannotParse where a cell or something of IPython's was lost.
        """
        out, done = [], 0
        for cell, source in zip(self.cells, self._sources(python), strict=True):
            if source != cell.source:
                out += [self.text[done : cell.start], _written(self.text[cell.start : cell.end], cell.source, source)]
                done = cell.end
        return "".join([*out, self.text[done:]])

    def _sources(self, python: str) -> list[str]:
        """What each cell holds."""
        parts = []
        for between in self._between[1:]:
            part, found, python = python.partition(between.strip("\n"))
            if not found:
                raise CannotParse(self.path, reason="a cell would run into the next one")
            parts.append(part)
        return [self._source(cell, part) for cell, part in zip(self.cells, [*parts, python], strict=True)]

    def _source(self, cell: Cell, part: str) -> str:
        for stand_in, original in cell.stand_ins.items():
            if part.count(stand_in) != 1:
                raise CannotParse(self.path, reason=f"`{original.strip()}` in cell {cell.number} would be lost")
            part = part.replace(stand_in, original)
        ends = _line_ends(cell.source) or {end for each in self.cells for end in _line_ends(each.source)}
        if len(ends) == 1:  # else lines that stay have kept their own
            part = re.sub(r"\r?\n", ends.pop(), part)
        core, first = part.strip("\r\n"), cell.source.lstrip("\r\n")
        if not core or not first:
            return core if first else cell.source
        if cell_magic(core) != cell_magic(first):
            raise CannotParse(self.path, reason=f"cell {cell.number} would no longer begin with its magic")
        return cell.source[: len(cell.source) - len(first)] + core + first[len(first.rstrip("\r\n")) :]


def _line_ends(source: str) -> set[str]:
    return set(re.findall(r"\r?\n", source))


def read(text: str, path: str) -> Notebook:
    """A notebook from its JSON. Raises: CannotRead for what is no notebook."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        reason = f"a notebook that is not valid JSON: {error.msg}"
        raise CannotRead(path, error.lineno, error.colno - 1, reason) from None
    except RecursionError:
        raise CannotRead(path, reason="a notebook whose JSON is nested too deeply") from None
    found: list[Spans] = []
    _spans(text, _blanks(text, 0), _SHAPE, found)
    if not all("cell_type" in spans for spans in found) or not (found or _is_empty(content)):
        raise CannotRead(path, reason="JSON, but no notebook: it has no cells as nbformat 3 and 4 have them")
    if not _is_python(content.get("metadata")):
        found = []
    mark = "accelify"
    while f"{mark} cell" in text or f"{mark} magic" in text:
        mark = f"_{mark}"
    return _notebook(text, path, mark, found)


def without_sources(text: str) -> str:
    """The JSON of a notebook, and nothing of what its code cells hold."""
    content = json.loads(text)
    sheets = [content, *content.get("worksheets", ())]
    for cell in (cell for sheet in sheets for cell in sheet.get("cells", ())):
        if cell.get("cell_type") == "code":
            cell.update({key: None for key in _SOURCES if key in cell})
    return json.dumps(content)


def _notebook(text: str, path: str, mark: str, found: Sequence[Spans]) -> Notebook:
    names = (f"{mark} magic {number}" for number in count())
    cells, unread = [], []
    for number, spans in enumerate(found, start=1):
        kind, (start, end) = spans.get("cell_type"), next((spans[key] for key in _SOURCES if key in spans), (0, 0))
        if kind is None or json.loads(text[slice(*kind)]) != "code" or start == end:
            continue
        value = json.loads(text[start:end])
        source = value if isinstance(value, str) else "".join(map(str, value))
        if is_read(source):
            cells.append(Cell(number, source, start, end, *masked(source, names.__next__)))
        elif ".backward(" in source:
            unread.append(number)
    return Notebook(path, text, tuple(cells), mark, tuple(unread))


def _is_empty(content: object) -> bool:
    return isinstance(content, dict) and any(content.get(key) == [] for key in _SHAPE)


def _is_python(metadata: object) -> bool:
    """Whether a notebook's language is Python, as it is where none is named."""
    for name, key in (("language_info", "name"), ("kernelspec", "language")):
        about = metadata.get(name) if isinstance(metadata, dict) else None
        language = about.get(key) if isinstance(about, dict) else None
        if isinstance(language, str):
            return "python" in language.lower()
    return True


def _spans(text: str, at: int, shape: object, found: list[Spans]) -> int:
    """Where a JSON value ends that begins at `at`; with the cells in it, which `shape` says the way to."""
    if shape == _CELL:
        spans: Spans = {}
        found.append(spans)
        if text[at] != "{":
            return _end(text, at)

        def note(key: str, begin: int) -> int:
            spans[key] = (begin, _end(text, begin))
            return spans[key][1]

        return _each(text, at, note)
    if isinstance(shape, dict) and text[at] == "{":
        return _each(text, at, lambda key, begin: _spans(text, begin, shape.get(key), found))
    if isinstance(shape, list) and text[at] == "[":
        return _each(text, at, lambda key, begin: _spans(text, begin, shape[0], found))
    return _end(text, at)


def _each(text: str, at: int, visit: Callable[[str, int], int]) -> int:
    """Visit the members of a JSON object, or the elements of an array; `visit` says where each ends."""
    is_object = text[at] == "{"
    at = _blanks(text, at + 1)
    while text[at] not in "]}":
        key = ""
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _blanks(text, _blanks(text, at) + 1)
        at = _blanks(text, visit(key, at))
        if text[at] == ",":
            at = _blanks(text, at + 1)
    return at + 1


def _end(text: str, at: int) -> int:
    return _DECODER.raw_decode(text, at)[1]


def _blanks(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()


def _written(raw: str, before: str, after: str) -> str:
    """The JSON of a cell's new source, one string or an array of lines as it was."""
    strings = list(_STRING.finditer(raw))
    known = _RAW_LINE.findall("".join(string[1] for string in strings))
    old, new = _LINE.findall(before), _LINE.findall(after)
    lines: list[str] = []
    for tag, start, end, new_start, new_end in opcodes(old, new):
        if tag == "equal" and len(known) == len(old):
            lines += known[start:end]
        else:
            lines += [json.dumps(line, ensure_ascii=raw.isascii())[1:-1] for line in new[new_start:new_end]]
    if not raw.startswith("["):
        return f'"{"".join(lines)}"'
    if not lines:
        return "[]"
    first, last = raw[1 : strings[0].start()], raw[strings[-1].end() : -1]
    between = raw[strings[0].end() : strings[1].start()] if len(strings) > 1 else f",{first}"
    return f"[{first}" + between.join(f'"{line}"' for line in lines) + f"{last}]"
