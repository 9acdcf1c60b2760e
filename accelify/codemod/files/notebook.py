"""A notebook's code cells as one text of Python, and back into the very cells; the rest of its JSON stays as it is."""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from accelify.codemod.files.lines import opcodes
from accelify.errors import CannotParse, CannotRead

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")
# The lines of a JSON string, as they are escaped.
_RAW_LINE = re.compile(r"(?:[^\\]|\\[^n])*?\\n|(?:[^\\]|\\[^n])+", re.DOTALL)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_INDENTATION = re.compile(r"(?:[ \t]*\r?\n)*([ \t]+)(?=[^ \t\r\n])")
# Where cells stand, and what they hold: since nbformat 4, and before.
_CELL = "cell"
_SHAPE = {"cells": [_CELL], "worksheets": [{"cells": [_CELL]}]}
_SOURCES = ("source", "input")

Spans = dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell: its number among all cells (from 1), what it holds, and where that stands in the JSON text.

    code: the same without the indentation that IPython takes off. python: that without IPython's additions.
    stand_ins: what stands there for each of them.
    """

    number: int
    source: str
    code: str
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
        """The lines before each cell. A statement: comments may go with the code they belong to."""
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
        """The source of each cell."""
        parts = []
        for between in self._between[1:]:
            part, found, python = python.partition(between.strip("\n"))
            if not found:
                raise CannotParse(self.path, reason="a cell would run into the next one")
            parts.append(part)
        pairs = zip(self.cells, [*parts, python], strict=True)
        return [_indented(cell, self._code(cell, part)) for cell, part in pairs]

    def _code(self, cell: Cell, part: str) -> str:
        for stand_in, original in cell.stand_ins.items():
            if part.count(stand_in) != 1:
                raise CannotParse(self.path, reason=f"`{original.strip()}` in cell {cell.number} would be lost")
            part = part.replace(stand_in, original)
        ends = _line_ends(cell.code) or {end for each in self.cells for end in _line_ends(each.source)}
        if len(ends) == 1:  # else lines that stay have kept their own
            part = re.sub(r"\r?\n", ends.pop(), part)
        core, first = part.strip("\r\n"), cell.code.lstrip("\r\n")
        if not core or not first:
            return core if first else cell.code
        if cell_magic(core) != cell_magic(first):
            raise CannotParse(self.path, reason=f"cell {cell.number} would no longer begin with its magic")
        return cell.code[: len(cell.code) - len(first)] + core + first[len(first.rstrip("\r\n")) :]


def _line_ends(source: str) -> set[str]:
    return set(re.findall(r"\r?\n", source))


def read(text: str, path: str) -> Notebook:
    """A notebook from its JSON. Raises: CannotRead for what is no notebook."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        reason = f"a notebook that is not valid JSON: {error.msg}"
        raise CannotRead(path, error.lineno, error.colno - 1, reason) from None
    except ValueError:  # the other one of json.loads: Python refuses to read more than 4,300 digits
        raise CannotRead(path, reason="a notebook that holds a number of thousands of digits") from None
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
        source = _joined(json.loads(text[start:end]))
        if source is None:
            raise CannotRead(path, 1, 0, "the source of this cell is neither a text nor a list of lines", number)
        if is_read(source):
            code = _dedented(source)
            cells.append(Cell(number, source, code, start, end, *masked(code, names.__next__)))
        elif ".backward(" in source:
            unread.append(number)
    return Notebook(path, text, tuple(cells), mark, tuple(unread))


def _indentation(source: str) -> str:
    """What the first line that is not blank begins with."""
    found = _INDENTATION.match(source)
    return found[1] if found is not None else ""


def _dedented(source: str) -> str:
    """A cell as IPython runs it: the first line's indentation is taken off every line that has it."""
    indentation = _indentation(source)
    return "".join(line.removeprefix(indentation) for line in _LINE.findall(source)) if indentation else source


def _indented(cell: Cell, code: str) -> str:
    """The source of a cell with this code: lines that stay are as they were, others get the first one's indentation."""
    if cell.code == cell.source:
        return code
    indentation, kept, new = _indentation(cell.source), _LINE.findall(cell.source), _LINE.findall(code)
    lines: list[str] = []
    for tag, start, end, new_start, new_end in opcodes(_LINE.findall(cell.code), new):
        added = (indentation + line if line.strip() else line for line in new[new_start:new_end])
        lines += kept[start:end] if tag == "equal" else added
    return "".join(lines)


def _joined(value: object) -> str | None:
    """The text of a cell's source, which is a string or a list of lines; None if it is neither."""
    lines: list[object] = value if isinstance(value, list) else [value]
    texts = [line for line in lines if isinstance(line, str)]
    return "".join(texts) if len(texts) == len(lines) else None


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


# Cell magics that run the rest of their cell as Python in the notebook's own namespace.
_OF_PYTHON = frozenset({"capture", "memit", "prun", "pyinstrument", "scalene", "snakeviz", "time", "timeit", "wandb"})
_CELL_MAGIC = re.compile(r"\s*%%(\w+)[^\r\n]*")
# No statement of Python begins so.
_ESCAPED = re.compile(r"[ \t]*(?:[%!?/;]|,\s*\w)")
# Line magics that run the rest of their line as Python, with their options.
_RUNS_PYTHON = re.compile(r"([ \t]*)(%(?:time|timeit|prun)(?:[ \t]+-\w+(?:[ \t]+\d+)?)*[ \t]+)(?=\S)")
# Commands that IPython takes without a `%` where no variable has their name, or gets one: `run = start(`.
_AUTOMAGIC = re.compile(
    r"(?:(?:pip3?|conda|mamba|uv|cat|cp|mv|rm|mkdir|rmdir|man|matplotlib|load_ext|reload_ext|autoreload|env|run)[ \t]+"
    r"|(?:cd|ls|ll|pwd)(?:[ \t]+|[/~]))(?![-+*/%@&|^<>]*=)\S"
)
_PREFIX = "[rbuftRBUFT]{0,2}"
_TOKEN = re.compile(
    rf"""{_PREFIX}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?''')"""
    rf"""|{_PREFIX}(?:"(?:\\.|[^"\\\r\n])*"|'(?:\\.|[^'\\\r\n])*')"""
    r"|#[^\r\n]*|\\\r?\n|[()\[\]{}]|\r?\n|(?<![=!<>])=[ \t]*(?=[!%])",
    re.DOTALL,
)
_TO_LINE_END = re.compile(r"(?:[^\r\n]*\\\r?\n)*[^\r\n]*")
_READ = re.compile(r"[{$]([A-Za-z_]\w*)")


def is_read(source: str) -> bool:
    """Whether a cell is Python, apart from its magics."""
    magic = _CELL_MAGIC.match(source)
    return magic is None or magic[1] in _OF_PYTHON


def cell_magic(source: str) -> str:
    """The magic that rules a whole cell, as it is written; nothing for a cell without one."""
    magic = _CELL_MAGIC.match(source)
    return magic[0].strip() if magic else ""


def masked(source: str, name: Callable[[], str]) -> tuple[str, dict[str, str]]:
    """A cell as Python, line for line, and what stands there for what; `name` gives a new name for each."""
    out: list[str] = []
    found: dict[str, str] = {}
    done = 0
    for start, end, stand_in in _stand_ins(source, name):
        out += [source[done:start], stand_in]
        found[stand_in] = source[start:end]
        done = end
    return "".join([*out, source[done:]]), found


def _stand_ins(source: str, name: Callable[[], str]) -> Iterator[tuple[int, int, str]]:
    """Where there is no Python, from and to, and what is to stand there."""

    def text(start: int, end: int) -> str:
        line_ends = "".join(re.findall(r"[\r\n]", source[start:end]))
        return f'"""{name()}{line_ends}"""'

    at = 0
    magic = _CELL_MAGIC.match(source)
    if magic is not None:
        start, at = magic.start(1) - 2, magic.end()
        yield start, at, text(start, at)
    while at < len(source):
        blank = re.compile(r"\s*").match(source, at)
        assert blank is not None
        line = source.rfind("\n", at, blank.end()) + 1 or at
        runs, begin = _RUNS_PYTHON.match(source, line), blank.end()
        if runs is not None and _is_simple(_to_line_end(source, runs.end())):
            yield runs.start(2), runs.end(), f"{text(runs.start(2), runs.end())};"
            at = _logical_end(source, runs.end())[0]
        elif _ESCAPED.match(source, line) or _is_automagic(source, begin):
            at = begin + len(_to_line_end(source, begin))
            reads = "".join(f", {read}" for read in dict.fromkeys(_READ.findall(source[begin:at])))
            yield begin, at, f"({text(begin, at)}{reads})" if reads else text(begin, at)
        else:
            at, value = _logical_end(source, begin)
            if value is not None:
                at = value + len(_to_line_end(source, value))
                yield value, at, f"get_ipython().getoutput({text(value, at)})"
            elif _asks_for_help(source[begin:at]):
                yield begin, at, text(begin, at)


def _logical_end(source: str, at: int) -> tuple[int, int | None]:
    """Where the statement's last line ends, and where a `!command` or a `%magic` that it assigns begins."""
    depth = 0
    for token in _TOKEN.finditer(source, at):
        kind = token[0]
        if kind in ("\n", "\r\n") and depth <= 0:
            return token.start(), None
        if kind[0] == "=" and depth <= 0:
            return token.end(), token.end()
        depth += (kind in "([{") - (kind in ")]}")
    return len(source), None


def _to_line_end(source: str, at: int) -> str:
    """The rest of a line, and of those that it goes on in."""
    found = _TO_LINE_END.match(source, at)
    assert found is not None
    return found[0]


def _is_simple(code: str) -> bool:
    """Whether a text is a statement that can follow another on its line."""
    try:
        ast.parse(f"0;{code}")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _is_automagic(source: str, at: int) -> bool:
    return _AUTOMAGIC.match(source, at) is not None and not _is_simple(_to_line_end(source, at))


def _asks_for_help(line: str) -> bool:
    return line.rstrip().endswith("?") and "#" not in line
