"""Which changes and notes has the user ruled out in comments, and on which lines?

model.to(device)  # accelify: ignore[device_moves]    on a line, or on one of its own above it
def plot(losses):  # accelify: skip                   on a function or a class, or in a notebook cell's first line
# accelify: skip-file                                 anywhere in a file
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from accelify.codemod.files.notebook import Notebook
from accelify.errors import did_you_mean

_MARK = "accelify:"
_COMMENT = re.compile(r"#\s*accelify:\s*(?P<what>.*)")
_WHAT = re.compile(r"(?:(?P<file>skip-file)|(?P<skip>skip)|ignore(?:\[(?P<rules>[\w\s,]+)\])?)(?=$|[\s#.,;:])")
_NAME = re.compile(r"\w+")
Compound = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment: the line that it stands in, as it is written, what it rules out (all rules, if None), and where."""

    line: int
    text: str
    rules: frozenset[str] | None
    lines: range
    is_file: bool = False

    def rules_out(self, rule: str, line: int) -> bool:
        """Whether a rule may neither change a line nor speak of it."""
        return line in self.lines and (self.rules is None or rule in self.rules)


@dataclass(frozen=True, slots=True)
class Suppressions:
    """Those of a file, and the comments that look like some but cannot be read: each with its line, and the reason."""

    all: tuple[Suppression, ...] = ()
    faults: tuple[tuple[int, str], ...] = ()

    @property
    def of_file(self) -> Suppression | None:
        """The comment that leaves the whole file alone."""
        return next((each for each in self.all if each.is_file), None)

    def of(self, rule: str, line: int) -> Suppression | None:
        """The comment that rules out a rule on a line."""
        return next((each for each in self.all if each.rules_out(rule, line)), None)


def unknown_rule(comment: Suppression, rule: str, known: Iterable[str]) -> str:
    """The message about a comment that names an unknown rule."""
    return f"`{comment.text}`: there is no rule {rule!r}{did_you_mean(rule, known)}"


def suppressions(text: str, tree: ast.Module, notebook: Notebook | None = None) -> Suppressions:
    """The suppressions in a text that parses to a tree."""
    if _MARK not in text:
        return Suppressions()
    found: list[Suppression] = []
    faults: list[tuple[int, str]] = []
    for line, comment, is_alone in _comments(text):
        read = _WHAT.match(comment)
        lines = _covered(tree, line, is_alone, read, text, notebook) if read is not None else None
        written = f"# accelify: {comment}"
        if read is None:
            faults.append((line, f"`{written}` is none of `ignore[rule]`, `skip` and `skip-file`"))
        elif lines is None:
            message = f"`{written}` belongs to a function, a class or a notebook cell's first line; for a line, write "
            faults.append((line, message + "`ignore[rule]`"))
        else:
            rules = frozenset(_NAME.findall(read["rules"])) if read["rules"] else None
            found.append(Suppression(line, f"# accelify: {read[0]}", rules, lines, bool(read["file"])))
    return Suppressions(tuple(found), tuple(faults))


def _comments(text: str) -> Iterator[tuple[int, str, bool]]:
    """The text behind `# accelify:` in each such comment; its line, and whether it is alone there."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        if token.type == tokenize.COMMENT and (found := _COMMENT.search(token.string)):
            yield token.start[0], found["what"].strip(), not token.line[: token.start[1]].strip()


def _covered(
    tree: ast.Module, line: int, is_alone: bool, read: re.Match[str], text: str, notebook: Notebook | None
) -> range | None:
    """The lines that a comment rules over; None where it rules over none."""
    if read["file"]:
        return range(1, text.count("\n") + 2)
    if read["skip"]:
        return (
            _cell(notebook, line)
            if notebook is not None and is_alone and _begins(notebook, line)
            else _block(tree, line, is_alone)
        )
    statement = _next(tree, line) if is_alone else _at(tree, line)
    return range(line, line + 1) if statement is None else _header(statement)


def _cell(notebook: Notebook, line: int) -> range:
    """The lines of a notebook cell."""
    number, inside = notebook.place(line)
    cell = next(c for c in notebook.cells if c.number == number)
    return range(line - inside + 1, line - inside + 1 + cell.lines)


def _begins(notebook: Notebook, line: int) -> bool:
    """Whether nothing but blank lines stands before a line in its cell."""
    number, inside = notebook.place(line)
    cell = next(c for c in notebook.cells if c.number == number)
    return not "".join(cell.source.split("\n")[: inside - 1]).strip()


def _block(tree: ast.Module, line: int, is_alone: bool) -> range | None:
    """The lines of the function or class that a comment stands above or in the head of."""
    statement = _next(tree, line) if is_alone else _at(tree, line)
    if not isinstance(statement, Compound):
        return None
    return range(_first(statement), (statement.end_lineno or statement.lineno) + 1)


def _next(tree: ast.Module, line: int) -> ast.stmt | None:
    """The first statement below a line."""
    below = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _first(node) > line]
    return min(below, key=_first, default=None)


def _at(tree: ast.Module, line: int) -> ast.stmt | None:
    """The innermost statement whose head a line is part of."""
    around = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and line in _header(node)]
    return max(around, key=_first, default=None)


def _header(statement: ast.stmt) -> range:
    """The lines of a statement, of a compound one those before its body."""
    last = statement.end_lineno or statement.lineno
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
        last = max(statement.lineno, min(last, _first(body[0]) - 1))
    return range(_first(statement), last + 1)


def _first(statement: ast.stmt) -> int:
    """The line that a statement begins in, with its decorators."""
    decorators = statement.decorator_list if isinstance(statement, Compound) else []
    return min([statement.lineno, *(d.lineno for d in decorators)])
