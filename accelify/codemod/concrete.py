"""The LibCST tree of a file, whose nodes are found by the place of their `ast` twins."""

from __future__ import annotations

import ast
from collections import defaultdict

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

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


class Concrete:
    """A LibCST module that prints the very text it was made from."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        try:
            self.module = cst.parse_module(text)
        except cst.ParserSyntaxError as error:
            raise CannotParse(path, error.raw_line, error.raw_column, error.message) from None
        if self.module.code != text:
            raise CannotParse(path, None, None, "LibCST does not print this file as it read it")
        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
        self._spans: dict[tuple[int, int, int, int], list[cst.CSTNode]] = defaultdict(list)
        self._starts: dict[tuple[int, int], list[cst.CSTNode]] = defaultdict(list)
        for node, place in wrapper.resolve(PositionProvider).items():
            start, end = place.start, place.end
            self._spans[(start.line, start.column, end.line, end.column)].append(node)
            self._starts[(start.line, start.column)].append(node)
        self._lines = text.split("\n")

    def find(self, node: ast.AST) -> cst.CSTNode:
        """The LibCST node for a statement or an expression of the `ast` tree of the same text."""
        compound = _COMPOUND.get(type(node))
        if compound is not None:
            candidates = self._starts[self._start(node)]
            return next(c for c in candidates if isinstance(c, compound))
        span = (*self._start(node), *self._end(node))
        candidates = self._spans.get(span, [])
        for candidate in candidates:
            if isinstance(node, ast.stmt):
                if isinstance(candidate, cst.BaseSmallStatement):
                    return candidate
            elif isinstance(candidate, _EXPRESSIONS.get(type(node), (cst.BaseExpression,))):
                return candidate
        raise LookupError(f"no {type(node).__name__} at {span}")

    def has(self, node: ast.AST) -> bool:
        """Whether `find` would find the node."""
        try:
            self.find(node)
        except (LookupError, StopIteration):
            return False
        return True

    def _column(self, line: int, offset: int) -> int:
        """A column in characters for one in UTF-8 bytes."""
        text = self._lines[line - 1]
        return offset if text.isascii() else len(text.encode()[:offset].decode())

    def _start(self, node: ast.AST) -> tuple[int, int]:
        line: int = node.lineno  # type: ignore[attr-defined]  # statements and expressions have places
        return line, self._column(line, node.col_offset)  # type: ignore[attr-defined]  # as above

    def _end(self, node: ast.AST) -> tuple[int, int]:
        line: int = node.end_lineno  # type: ignore[attr-defined]  # as above
        return line, self._column(line, node.end_col_offset)  # type: ignore[attr-defined]  # as above
