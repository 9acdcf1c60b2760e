"""A block's statements as they come out, with the blank lines and comments that stay between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import dropwhile

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Insert, Wrap

_LONGEST_TEST = 80  # columns


class Block:
    """Statements are put one after another; removed ones leave lines, and new ones find their place among those.

    body: the statements so far. placed: the new ones among them, and what was put round others. wrapped: the blocks
    made round them.
    """

    def __init__(self, indent: str, is_dense: bool) -> None:
        self.indent = indent
        self.is_dense = is_dense  # no blank line stands above the first statement
        self.body: list[cst.BaseStatement] = []
        self.placed: list[Insert | Wrap] = []
        self.wrapped: list[cst.BaseStatement] = []
        self._open: tuple[Wrap, cst.If | cst.With] | None = None
        self._pending: list[cst.EmptyLine] = []  # lines above removed statements, waiting for the next one that stays
        self._queue: list[Insert] = []  # what comes after the last statement, placed when it is known what follows it
        self._has_gap = False
        self._last = "", 0  # the code that was put last, and how many statements there were then

    def remove(self, lines: list[cst.EmptyLine], inserts: Sequence[Insert]) -> None:
        """A statement goes, and what was to be beside it comes in its place; `lines` above it stay."""
        self._pending = merge(self._pending, lines)
        if self._queue:
            self._pending = self.insert(self._queue, self._pending)
            self._queue = []
        if inserts:
            self.insert(inserts, self._pending)
            self._pending = []
        self._has_gap = True

    def reach(self, lines: list[cst.EmptyLine], before: Sequence[Insert]) -> list[cst.EmptyLine]:
        """A statement that stays is next: place all that comes before it. Returns the lines above it."""
        if self._queue:
            self.insert(self._queue, self._pending)
            lines = _spaced(lines, self._queue)
        elif self._pending or self._has_gap:
            lines = merge(self._pending, lines)
            if not self.body and self.is_dense:
                lines = without_first_blanks(lines)
        self._pending, self._queue, self._has_gap = [], [], False
        if before:
            cut = last_blank(lines)
            left = self.insert(before, lines[:cut])
            lines = _spaced([*left, *lines[cut:]], before)
        return lines

    def follow(self, inserts: Sequence[Insert]) -> None:
        """The lines after the last statement."""
        self._queue.extend(inserts)

    def close(self) -> list[cst.EmptyLine]:
        """Place what is left. Returns the comments that no statement follows."""
        if self._queue:
            self.insert(self._queue, self._pending)
            self._pending = []
        return [line for line in self._pending if line.comment is not None]

    def put(self, statement: cst.BaseStatement, wrap: Wrap | None = None) -> None:
        """Add a statement, or add it to the block that it is wrapped in."""
        if wrap is None:
            self.body.append(statement)
            return
        self.placed.append(wrap)
        if (joined := _joined(wrap, statement)) is not None:
            self._open = None
            self.wrapped.append(joined)
            self.body.append(joined)
            return
        if self._open is not None and self._open[0] is wrap and self.body[-1] is self._open[1]:
            block = self._open[1]
            deeper = [line.with_changes(indent=not is_blank(line)) for line in lines_above(statement)]
            inside = [*block.body.body, statement.with_changes(leading_lines=deeper)]
            self.body.pop()
        else:
            made = snippets.statements(f"{wrap.header}\n    pass", self.indent)[0]
            assert isinstance(made, (cst.If, cst.With))
            block = made.with_changes(leading_lines=lines_above(statement))
            inside = [statement.with_changes(leading_lines=())]
        block = block.with_changes(body=block.body.with_changes(body=inside))
        self._open = wrap, block
        self.wrapped.append(block)
        self.body.append(block)

    def insert(self, inserts: Sequence[Insert], lines: Sequence[cst.EmptyLine] = ()) -> list[cst.EmptyLine]:
        """Add new statements, with lines above the first, none twice in succession; returns the lines that are left."""
        self.placed.extend(inserts)
        left = list(lines)
        for insert in inserts:
            if self._last == (insert.code, len(self.body)):
                continue
            made = snippets.statements(insert.code, self.indent)
            if insert.where == "after" and insert.imports and not insert.gap:
                self.body.extend(made)
                self._last = insert.code, len(self.body)
                continue
            if insert.gap and not has_blank(left) and self.body:
                left = [*blank(insert.gap), *left]
            made[0] = made[0].with_changes(leading_lines=[*left, *lines_above(made[0])])
            self.body.extend(made)
            self._last = insert.code, len(self.body)
            left = []
        return left


def _joined(wrap: Wrap, statement: cst.BaseStatement) -> cst.If | None:
    """`if accelerator.is_main_process and best:` for an `if best:` alone under the former, where that is short."""
    if len(wrap.statements) > 1 or not isinstance(statement, cst.If) or statement.orelse is not None:
        return None
    header = cst.parse_statement(f"{wrap.header}\n    pass")
    if not isinstance(header, cst.If):
        return None
    test = snippets.expression("{outer} and {inner}", outer=header.test, inner=statement.test)
    is_short = len(cst.Module([]).code_for_node(test)) <= _LONGEST_TEST
    return statement.with_changes(test=test, whitespace_before_test=cst.SimpleWhitespace(" ")) if is_short else None


def _spaced(lines: list[cst.EmptyLine], inserts: Sequence[Insert]) -> list[cst.EmptyLine]:
    """The lines of a statement with the blank ones that what is above it asks for."""
    gap = max(i.gap for i in inserts)
    return [*blank(gap), *lines] if gap and not has_blank(lines) else lines


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
    if _has_comment(node):
        node.visit(found)
    return Counter(comment for _, comment in found.found)


def _has_comment(node: cst.CSTNode | list[cst.CSTNode] | tuple[cst.CSTNode, ...]) -> bool:
    """Whether a comment is inside a node, which is found much faster than what it says."""
    if isinstance(node, (list, tuple)):
        return any(map(_has_comment, node))
    return type(node) is cst.Comment or any(_has_comment(getattr(node, field)) for field in fields_of(type(node)))


@cache
def fields_of(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """The fields of a kind of node; none of anything else."""
    return tuple(kind.__dataclass_fields__) if issubclass(kind, cst.CSTNode) else ()
