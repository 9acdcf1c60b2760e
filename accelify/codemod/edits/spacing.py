"""The blank lines and comments round statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import dropwhile

import libcst as cst

Lines = Sequence[cst.EmptyLine]


def lines_above(node: cst.CSTNode) -> Lines:
    """The blank lines and comments above a statement."""
    lines: Lines = getattr(node, "leading_lines", ())
    return lines


def is_blank(line: cst.EmptyLine) -> bool:
    """Whether a line holds no comment."""
    return line.comment is None


def has_blank(lines: Lines) -> bool:
    """Whether one of some lines is blank."""
    return any(is_blank(line) for line in lines)


def last_blank(lines: Lines) -> int:
    """How many lines there are up to and with the last blank one."""
    return max((i + 1 for i, line in enumerate(lines) if is_blank(line)), default=0)


def without_first_blanks(lines: Lines) -> list[cst.EmptyLine]:
    """Lines from the first comment on."""
    return list(dropwhile(is_blank, lines))


def blank(count: int) -> list[cst.EmptyLine]:
    """So many blank lines."""
    return [cst.EmptyLine(indent=False) for _ in range(count)]


def merge(above: list[cst.EmptyLine], below: list[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """The lines above a removed statement and above the next, with the blank lines of one of them only."""
    if not above:
        return below
    if any(line.comment for line in above):
        return [*above, *below]
    return below if sum(map(is_blank, below)) >= len(above) else [*above, *[b for b in below if not is_blank(b)]]


class Comments(cst.CSTVisitor):
    """The comments inside a node, each with the id of the line that holds it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, str]] = []

    def visit_EmptyLine(self, node: cst.EmptyLine) -> None:
        if node.comment is not None:
            self.found.append((id(node), node.comment.value))

    def visit_TrailingWhitespace(self, node: cst.TrailingWhitespace) -> None:
        if node.comment is not None:
            self.found.append((id(node), node.comment.value))


def comments_in(node: cst.CSTNode) -> Counter[str]:
    """The comments inside a node."""
    found = Comments()
    node.visit(found)
    return Counter(comment for _, comment in found.found)
