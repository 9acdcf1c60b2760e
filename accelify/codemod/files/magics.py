"""What IPython adds to Python (`%magic`, `!command`, `help?`), and what stands for it while a cell is read."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

# Cell magics that run the rest of their cell as Python in the notebook's own namespace.
_OF_PYTHON = frozenset({"capture", "memit", "prun", "pyinstrument", "scalene", "snakeviz", "time", "timeit", "wandb"})
_CELL_MAGIC = re.compile(r"\s*%%(\w+)[^\r\n]*")
# No statement of Python begins so.
_ESCAPED = re.compile(r"[ \t]*(?:[%!?/;]|,\s*\w)")
# Line magics that run the rest of their line as Python, with their options.
_RUNS_PYTHON = re.compile(r"([ \t]*)(%(?:time|timeit|prun)(?:[ \t]+-\w+(?:[ \t]+\d+)?)*[ \t]+)(?=\S)")
# Commands that IPython takes without a `%` where no variable has their name.
_AUTOMAGIC = re.compile(r"(?:pip3?|conda|mamba|uv|cd|ls|ll|cat|cp|mv|rm|mkdir|rmdir|man|matplotlib|load_ext)[ \t]+\S")
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
