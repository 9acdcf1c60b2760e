"""The LibCST tree of what is edited in a file, whose nodes are found by the place of their `ast` twins."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from accelify.codemod.edits.folding import Folded, Span
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
        raise LookupError(f"no {type(node).__name__} at {span}")

    def _start(self, node: ast.AST) -> tuple[int, int]:
        line: int = node.lineno  # type: ignore[attr-defined]  # statements and expressions have places
        return self._folded.line(line), self._parsed.column(line, node.col_offset)  # type: ignore[attr-defined]  # as above

    def _end(self, node: ast.AST) -> tuple[int, int]:
        line: int = node.end_lineno  # type: ignore[attr-defined]  # as above
        return self._folded.line(line), self._parsed.column(line, node.end_col_offset)  # type: ignore[attr-defined]  # as above
