"""The LibCST tree of what is edited in a file, whose nodes are found by the place of their `ast` twins."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from accelify.codemod.edits.values import AddParameter, DropParameter, Edit, Insert, Wrap
from accelify.codemod.files.nodes import walk
from accelify.codemod.files.parse import Parsed
from accelify.errors import CannotParse

_COMPOUND: dict[type[ast.AST], tuple[type[cst.CSTNode], ...]] = {
    ast.If: (cst.If,),
    ast.For: (cst.For,),
    ast.AsyncFor: (cst.For,),
    ast.While: (cst.While,),
    ast.With: (cst.With,),
    ast.AsyncWith: (cst.With,),
    ast.Try: (cst.Try,),
    ast.FunctionDef: (cst.FunctionDef,),
    ast.AsyncFunctionDef: (cst.FunctionDef,),
    ast.ClassDef: (cst.ClassDef,),
}
_EXPRESSIONS: dict[type[ast.AST], tuple[type[cst.CSTNode], ...]] = {
    ast.Call: (cst.Call,),
    ast.Name: (cst.Name,),
    ast.Attribute: (cst.Attribute,),
    ast.IfExp: (cst.IfExp,),
    ast.Subscript: (cst.Subscript,),
    ast.Lambda: (cst.Lambda,),
}
# Lines of blanks and comments at a file's end.
_END = re.compile(r"(?<=\n)(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:#[^\n]*)?\Z")


def parse_module(text: str) -> cst.Module:
    """LibCST's tree of a text, whose code is the text.

    LibCST 1.9 loses lines at a file's end when lines of blanks, or comments at odd depths, follow them; they are put
    back.
    """
    module = cst.parse_module(text)
    end = _END.search(text)
    if end is None or module.code == text:
        return module
    module = cst.parse_module(text[: end.start()])
    lines = [_empty_line(line) for line in end[0].removesuffix("\n").split("\n")]
    return module.with_changes(footer=[*module.footer, *lines], has_trailing_newline=text.endswith("\n"))


def _empty_line(line: str) -> cst.EmptyLine:
    blanks = line[: len(line) - len(line.lstrip(" \t"))]
    comment = cst.Comment(line[len(blanks) :]) if blanks != line else None
    return cst.EmptyLine(indent=False, whitespace=cst.SimpleWhitespace(blanks), comment=comment)


class Concrete:
    """A LibCST module that prints the very text it was made from: the part of a file that is edited."""

    def __init__(self, parsed: Parsed, folded: Folded) -> None:
        self._parsed = parsed
        self._folded = folded
        try:
            self.module = parse_module(folded.text)
        except cst.ParserSyntaxError as error:
            raise CannotParse(parsed.path, None, None, f"LibCST cannot read it: {error.message}") from None
        if self.module.code != folded.text or folded.unfold(folded.text) != parsed.text:
            raise CannotParse(parsed.path, None, None, "LibCST does not print this file as it read it")
        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
        self._spans: dict[Span, list[cst.CSTNode]] = defaultdict(list)
        self._starts: dict[tuple[int, int], list[cst.CSTNode]] = defaultdict(list)
        for node, place in wrapper.resolve(PositionProvider).items():
            start, end = place.start, place.end
            self._spans[(start.line, start.column, end.line, end.column)].append(node)
            self._starts[(start.line, start.column)].append(node)

    def find(self, node: ast.AST) -> cst.CSTNode:
        """The LibCST node for a statement or an expression of the file's `ast` tree, or the name of a folded one."""
        span = self._folded.anchors.get(node) if isinstance(node, ast.stmt) else None
        compound = _COMPOUND.get(type(node))
        if compound is not None and span is None:
            candidates = self._starts[self._start(node)]
            return next(c for c in candidates if isinstance(c, compound))
        span = span or (*self._start(node), *self._end(node))
        candidates = self._spans.get(span, [])
        for candidate in candidates:
            if isinstance(node, ast.stmt):
                if isinstance(candidate, cst.BaseSmallStatement):
                    return candidate
            elif isinstance(candidate, _EXPRESSIONS.get(type(node), (cst.BaseExpression,))):
                return candidate
        if isinstance(node, ast.GeneratorExp) and (within := self._within(span)):
            return within
        raise LookupError(f"no {type(node).__name__} at {span}")

    def _within(self, span: Span) -> cst.CSTNode | None:
        """The generator between some parentheses, which are not part of its place."""
        inner = {s: n for s, n in self._spans.items() if span[:2] <= s[:2] and s[2:] <= span[2:]}
        found = [(s[:2], n) for s, nodes in inner.items() for n in nodes if isinstance(n, cst.GeneratorExp)]
        return min(found, key=lambda f: f[0])[1] if found else None

    def _start(self, node: ast.AST) -> tuple[int, int]:
        line: int = node.lineno  # type: ignore[attr-defined]  # statements and expressions have places
        return self._folded.line(line), self._parsed.column(line, node.col_offset)  # type: ignore[attr-defined]  # as above

    def _end(self, node: ast.AST) -> tuple[int, int]:
        line: int = node.end_lineno  # type: ignore[attr-defined]  # as above
        return self._folded.line(line), self._parsed.column(line, node.end_col_offset)  # type: ignore[attr-defined]  # as above


Span = tuple[int, int, int, int]  # line and column of the first character, and of the one behind the last


@dataclass(frozen=True)
class Folded:
    """A text with names for what is folded.

    folds: what each name stands for. anchors: where a statement that is folded by itself has its name. ends: the last
    lines of the folds in the original, and gone: how many lines the text is shorter there.
    """

    text: str
    indent: str
    folds: dict[str, str] = field(default_factory=dict)
    anchors: dict[ast.stmt, Span] = field(default_factory=dict)
    ends: tuple[int, ...] = ()
    gone: tuple[int, ...] = (0,)

    def line(self, original: int) -> int:
        """The line of the text for one of the original that is not folded."""
        return original - self.gone[bisect_left(self.ends, original)]

    def unfold(self, text: str) -> str:
        """A text with what its names stand for."""
        return self._names().sub(lambda match: self.folds[match[0]], text) if self.folds else text

    def lost(self, text: str) -> list[str]:
        """The parts that are folded and do not occur exactly once in a text."""
        found = Counter(self._names().findall(text) if self.folds else ())
        return [source for name, source in self.folds.items() if found[name] != 1]

    def _names(self) -> re.Pattern[str]:
        return re.compile(next(iter(self.folds)).removesuffix("0_") + r"\d+_")


def fold(parsed: Parsed, edits: Iterable[Edit]) -> Folded:
    """Fold what some edits leave as it is."""
    return _Folder(parsed, edits).folded()


class _Folder:
    """Goes through the blocks that hold edits, and folds the runs of statements between them."""

    def __init__(self, parsed: Parsed, edits: Iterable[Edit]) -> None:
        self.parsed = parsed
        self.lines = parsed.lines
        self.kept: set[ast.stmt] = set()
        self.opened: set[ast.AST] = set()
        self.anchored: set[ast.stmt] = set()
        self.spans: list[tuple[Span, ast.stmt | None]] = []
        for edit in edits:
            self._note(edit)

    def _note(self, edit: Edit) -> None:
        statement = self.parsed.statement(edit.node)
        in_head = isinstance(edit, (AddParameter, DropParameter)) or statement is not edit.node
        if isinstance(edit, Insert):
            self.anchored.add(statement)
        elif isinstance(edit, Wrap):
            self.kept.update(edit.statements)
        elif in_head and any(_blocks(statement)):
            self.opened.add(statement)
        else:
            self.kept.add(statement)
        holder = self.parsed.parents.get(statement)
        while holder is not None:
            self.opened.add(holder)
            holder = self.parsed.parents.get(holder)

    def folded(self) -> Folded:
        self._block(self.parsed.tree.body)
        stem = "folded_"
        while stem in self.parsed.text:
            stem = f"_{stem}"
        out: list[str] = []
        folds, anchors, ends, gone = {}, {}, [], [0]
        line, column = 1, 0
        for number, (span, anchor) in enumerate(self.spans):
            name = f"{stem}{number}_"
            out.append(self._between(line, column, *span[:2]))
            folds[name] = self._between(*span)
            if anchor is not None:
                at = span[0] - gone[-1]
                anchors[anchor] = (at, span[1], at, span[1] + len(name))
            out.append(name)
            line, column = span[2:]
            ends.append(line)
            gone.append(gone[-1] + line - span[0])
        last = len(self.lines)
        out.append(self._between(line, column, last, len(self.lines[last - 1])))
        return Folded("".join(out), self._indent(), folds, anchors, tuple(ends), tuple(gone))

    def _between(self, line: int, column: int, end_line: int, end_column: int) -> str:
        if line == end_line:
            return self.lines[line - 1][column:end_column]
        first, last = self.lines[line - 1][column:], self.lines[end_line - 1][:end_column]
        return "\n".join((first, *self.lines[line : end_line - 1], last))

    def _block(self, block: Sequence[ast.stmt]) -> None:
        run: list[ast.stmt] = []
        for row in self._rows(block):
            if not any(s in self.kept or s in self.opened or s in self.anchored for s in row):
                run.extend(row)
                continue
            self._fold(run)
            run = []
            if len(row) == 1 and row[0] in self.anchored and row[0] not in self.kept and row[0] not in self.opened:
                self._fold(row, row[0])
            for statement in row:
                if statement in self.opened and statement not in self.kept:
                    for inner in _blocks(statement, self.kept):
                        self._block(inner)
        self._fold(run)

    def _rows(self, block: Sequence[ast.stmt]) -> Iterator[list[ast.stmt]]:
        """The statements of a block, those together that share a line."""
        row: list[ast.stmt] = []
        for statement in block:
            if row and self._starts_a_line(statement):
                yield row
                row = []
            row.append(statement)
        if row:
            yield row

    def _starts_a_line(self, statement: ast.stmt) -> bool:
        above = self.lines[statement.lineno - 2] if statement.lineno > 1 else ""
        return not self.lines[statement.lineno - 1][: self._start(statement)[1]].strip() and not above.endswith("\\")

    def _fold(self, run: Sequence[ast.stmt], anchor: ast.stmt | None = None) -> None:
        if run:
            self.spans.append(((*self._start(run[0]), *self._end(run[-1])), anchor))

    def _start(self, statement: ast.stmt) -> tuple[int, int]:
        line = statement.lineno
        decorators = getattr(statement, "decorator_list", None)
        if decorators:
            line = decorators[0].lineno
            while not self.lines[line - 1].lstrip().startswith("@"):
                line -= 1
            return line, len(self.lines[line - 1]) - len(self.lines[line - 1].lstrip())
        return line, self.parsed.column(line, statement.col_offset)

    def _end(self, statement: ast.stmt) -> tuple[int, int]:
        """Behind a statement, and behind the comments under it that stand as deep as its last block."""
        assert statement.end_lineno is not None
        assert statement.end_col_offset is not None
        end = statement.end_lineno
        blocks = list(_blocks(statement))
        indent = self._indent_of(blocks[-1][0]) if blocks else ""
        if indent:
            for number in range(statement.end_lineno + 1, len(self.lines) + 1):
                line = self.lines[number - 1]
                if line.strip() and not line.lstrip().startswith("#"):
                    break
                if line.startswith(indent):
                    end = number
        if end > statement.end_lineno:
            return end, len(self.lines[end - 1])
        return end, self.parsed.column(end, statement.end_col_offset)

    def _indent(self) -> str:
        """The first indentation of the file, which its new blocks get too."""
        for node in walk(self.parsed.tree):
            found = self._indent_of(node) if isinstance(node, ast.stmt) else ""
            if found:
                return found
        return "    "

    def _indent_of(self, statement: ast.stmt) -> str:
        """The blanks before a statement; nothing if it is not the first on its line."""
        before = self.lines[statement.lineno - 1][: self.parsed.column(statement.lineno, statement.col_offset)]
        return "" if before.strip() else before


def _blocks(statement: ast.AST, without: Collection[ast.stmt] = ()) -> Iterator[list[ast.stmt]]:
    """The blocks of a compound statement, in order; an `elif` is part of its `if`, unless it is to be left out."""
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        parts = getattr(statement, name, ())
        if parts and isinstance(parts[0], (ast.ExceptHandler, ast.match_case)):
            yield from (part.body for part in parts)
        elif name == "orelse" and parts and _is_elif(parts[0], statement):
            if parts[0] not in without:
                yield from _blocks(parts[0], without)
        elif parts:
            yield parts


def _is_elif(inner: ast.stmt, outer: ast.AST) -> bool:
    return isinstance(inner, ast.If) and isinstance(outer, ast.If) and inner.col_offset == outer.col_offset
