"""Plan + text -> new text: one pass over the LibCST tree of a file."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from accelify.codemod import snippets
from accelify.codemod.concrete import Concrete
from accelify.codemod.edits import (
    AddParameter,
    Change,
    DropArgument,
    DropNames,
    DropParameter,
    Edit,
    Insert,
    Remove,
    Replace,
    Unwrap,
    Wrap,
)
from accelify.codemod.folding import Folded, fold
from accelify.codemod.lines import opcodes
from accelify.codemod.parse import Parsed
from accelify.codemod.signatures import with_parameter, without_arguments, without_names, without_parameter
from accelify.codemod.spacing import (
    Comments,
    blank,
    comments_in,
    has_blank,
    last_blank,
    lines_above,
    merge,
    without_first_blanks,
)


@dataclass(frozen=True)
class Applied:
    """A file with its changes made.

    folded: the part that was to be edited, and part: what became of it, still folded; all with `\\n` newlines.
    dropped: the comments that went with removed statements. touched: the statements in which something was replaced.
    missed: the new statements that found no place.
    """

    folded: Folded
    part: str
    dropped: Sequence[str] = ()
    touched: Sequence[cst.CSTNode] = ()
    missed: Sequence[str] = ()

    @cached_property
    def text(self) -> str:
        """The whole new text."""
        return self.folded.unfold(self.part)


def apply(parsed: Parsed, changes: Sequence[Change]) -> Applied:
    """Make the changes of one file."""
    edits = [edit for change in changes for edit in change.edits]
    folded = fold(parsed, edits)
    concrete = Concrete(parsed, folded)
    applier = _Applier(concrete, folded.indent)
    for edit in edits:
        applier.add(edit, parsed)
    module = concrete.module.visit(applier)
    inside = {n for e in edits if isinstance(e, Remove) for n in ast.walk(e.node) if n is not e.node}
    missed = [e.code for e in edits if isinstance(e, Insert) and e not in applier.placed and e.node not in inside]
    return Applied(folded, module.code, applier.dropped, applier.touched, missed)


def restore(parsed: Parsed, text: str) -> str:
    """Give the lines that did not change their own ends, form feeds and all; new lines end as most of the file's do."""
    original = parsed.decoded.text
    if "\r" not in original and "\f" not in original:
        return text
    before, raw = parsed.text.split("\n"), _split(original)
    counts = {end: sum(line.endswith(end) for line in raw) for end in ("\r\n", "\n", "\r")}
    counts["\n"] -= counts["\r\n"]
    common = max(counts, key=lambda end: counts[end])
    after = text.split("\n")
    out = []
    for tag, start, end, new_start, new_end in opcodes(before, after):
        if tag == "equal":
            out.extend(raw[start:end])
        else:
            out.extend(line + common for line in after[new_start:new_end])
    joined = "".join(out)
    if not text.endswith("\n"):
        return joined.rstrip("\r\n") if joined.endswith(("\r", "\n")) else joined
    return joined


def _split(text: str) -> list[str]:
    """Lines with their ends, cut at `\\n`, `\\r\\n` and `\\r` only, so that they pair with the parsed text's lines."""
    out, start, index = [], 0, 0
    while index < len(text):
        if text[index] == "\r" and text[index + 1 : index + 2] == "\n":
            index += 2
        elif text[index] in "\r\n":
            index += 1
        else:
            index += 1
            continue
        out.append(text[start:index])
        start = index
    return [*out, text[start:]]


class _Applier(cst.CSTTransformer):
    """Every edit sits at its LibCST node; what is done to a node gets it as its children's edits left it."""

    def __init__(self, concrete: Concrete, indent: str) -> None:
        super().__init__()
        self.concrete = concrete
        self.indent = indent
        self.replaced: dict[cst.CSTNode, list[Replace]] = defaultdict(list)
        self.removed: set[cst.CSTNode] = set()
        self.inserted: dict[tuple[cst.CSTNode, str], list[Insert]] = defaultdict(list)
        self.names: dict[cst.CSTNode, set[str]] = defaultdict(set)
        self.parameters: dict[cst.CSTNode, list[AddParameter | DropParameter]] = defaultdict(list)
        self.arguments: dict[cst.CSTNode, set[cst.CSTNode]] = defaultdict(set)
        self.unwrapped: dict[cst.CSTNode, Unwrap] = {}
        self.wrapped: dict[cst.CSTNode, Wrap] = {}
        self.blocks: dict[Wrap, cst.If | cst.With] = {}
        self.dropped: list[str] = []
        self.holders: set[cst.CSTNode] = set()
        self.touched: list[cst.CSTNode] = []
        self.placed: set[Insert] = set()

    def add(self, edit: Edit, parsed: Parsed) -> None:
        """Note an edit at its node."""
        node = self.concrete.find(edit.node)
        if isinstance(edit, Replace):
            self.replaced[node].append(edit)
            self.holders.add(self.concrete.find(parsed.statement(edit.node)))
        elif isinstance(edit, Remove):
            self.removed.add(node)
        elif isinstance(edit, DropNames):
            self.names[node].update(edit.names)
            if len(self.names[node]) == len(edit.node.names):
                self.removed.add(node)
        elif isinstance(edit, (AddParameter, DropParameter)):
            self.parameters[node].append(edit)
        elif isinstance(edit, DropArgument):
            self.arguments[node].add(self.concrete.find(edit.argument))
            self.holders.add(self.concrete.find(parsed.statement(edit.node)))
        elif isinstance(edit, Unwrap):
            self.unwrapped[node] = edit
        elif isinstance(edit, Wrap):
            self.wrapped.update((self.concrete.find(s), edit) for s in edit.statements)
        else:
            self.inserted[(node, edit.where)].append(edit)

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]  # we remove by hand
        node = updated_node
        if original_node in self.names and original_node not in self.removed:
            node = without_names(node, self.names[original_node])
        for parameter in self.parameters.get(original_node, ()):
            assert isinstance(node, cst.FunctionDef)
            if isinstance(parameter, AddParameter):
                node = with_parameter(node, parameter)
            else:
                node = without_parameter(node, parameter)
        if original_node in self.arguments:
            node = without_arguments(original_node, node, self.arguments[original_node])
        for edit in self.replaced.get(original_node, ()):
            node = edit.make(node)
        if node is not updated_node:
            self.dropped.extend((comments_in(updated_node) - comments_in(node)).elements())
        if isinstance(original_node, cst.If) and self._does_only_otherwise(original_node):
            assert isinstance(node, cst.If)
            node = _otherwise(node)
            self.touched.append(node)
        if original_node in self.holders:
            self.touched.append(node)
        if isinstance(original_node, (cst.Module, cst.IndentedBlock)):
            assert isinstance(node, (cst.Module, cst.IndentedBlock))
            node = self._block(original_node, node)
        elif isinstance(original_node, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            assert isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite))
            node = self._small(original_node, node)
        return node

    def _small(
        self,
        original: cst.SimpleStatementLine | cst.SimpleStatementSuite,
        updated: cst.SimpleStatementLine | cst.SimpleStatementSuite,
    ) -> cst.CSTNode:
        if isinstance(original, cst.SimpleStatementSuite) and any(
            self._inserts(small, where) for small in original.body for where in ("before", "after")
        ):
            return self._split(original, updated)
        pairs = zip(original.body, updated.body, strict=True)
        kept = [new for old, new in pairs if old not in self.removed]
        if len(kept) == len(original.body):
            return updated
        if not kept:
            if isinstance(original, cst.SimpleStatementSuite):
                return updated.with_changes(body=[cst.Pass()])
            self.removed.add(original)
            return updated
        kept[-1] = kept[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        return updated.with_changes(body=kept)

    def _split(self, original: cst.SimpleStatementSuite, updated: cst.CSTNode) -> cst.IndentedBlock:
        """`if x: a; b` over several lines, because something new comes between them."""
        assert isinstance(updated, cst.SimpleStatementSuite)
        out: list[cst.BaseStatement] = []
        for old, new in zip(original.body, updated.body, strict=True):
            self._emit(out, self._inserts(old, "before"), [])
            if old not in self.removed:
                end = updated.trailing_whitespace if old is original.body[-1] else cst.TrailingWhitespace()
                line = new.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
                out.append(cst.SimpleStatementLine([line], trailing_whitespace=end))
            self._emit(out, self._inserts(old, "after"), [])
        return cst.IndentedBlock(out, indent=self.indent)

    def _inserts(self, node: cst.CSTNode, where: str) -> list[Insert]:
        found = list(self.inserted.get((node, where), ()))
        if isinstance(node, cst.SimpleStatementLine):
            for small in node.body:
                found.extend(self.inserted.get((small, where), ()))
        return sorted(found, key=lambda insert: insert.order)

    def _block(self, original: cst.Module | cst.IndentedBlock, updated: cst.Module | cst.IndentedBlock) -> cst.CSTNode:
        out: list[cst.BaseStatement] = []
        pending: list[cst.EmptyLine] = []  # lines above removed statements, waiting for the next one that stays
        queue: list[Insert] = []  # what comes after the last statement, placed when it is known what follows it
        last_was_removed = False
        pairs = list(zip(original.body, updated.body, strict=True))
        for index, (old, new) in enumerate(pairs):
            assert isinstance(new, cst.BaseStatement)
            lines = list(lines_above(new))
            if old in self.removed:
                follower = next((n for o, n in pairs[index + 1 :] if o not in self.removed), None)
                comments = self._comments_of(old, new, lines, follower)
                if queue:
                    pending = self._emit(out, queue, merge(pending, comments))
                    queue = []
                else:
                    pending = merge(pending, comments)
                queue.extend(self._inserts(old, "before"))
                queue.extend(self._inserts(old, "after"))
                if queue:
                    self._emit(out, queue, pending)
                    pending, queue = [], []
                last_was_removed = True
                continue
            if queue:
                gap = max(i.gap for i in queue)
                self._emit(out, queue, pending)
                pending, queue = [], []
                if gap and not has_blank(lines):
                    lines = [*blank(gap), *lines]
            elif pending or last_was_removed:
                lines = merge(pending, lines)
                if not out and isinstance(original, cst.IndentedBlock) and not has_blank(lines_above(original.body[0])):
                    lines = without_first_blanks(lines)
                pending = []
            before = self._inserts(old, "before")
            if before:
                cut = last_blank(lines)
                self._emit(out, before, lines[:cut])
                lines = lines[cut:]
                gap = max(i.gap for i in before)
                if gap and not has_blank(lines):
                    lines = [*blank(gap), *lines]
            pieces = [new.with_changes(leading_lines=lines)]
            if old in self.unwrapped:
                pieces = self._unwrapped(old, new, lines)
            for piece in pieces:
                self._put(out, old, piece)
            queue.extend(self._inserts(old, "after"))
            last_was_removed = False
        if queue:
            self._emit(out, queue, pending)
            pending = []
        if pending and isinstance(updated, (cst.IndentedBlock, cst.Module)):
            updated = updated.with_changes(footer=[*[p for p in pending if p.comment], *updated.footer])
        if not out and isinstance(updated, cst.IndentedBlock):
            out.append(cst.SimpleStatementLine([cst.Pass()]))
        return updated.with_changes(body=out)

    def _unwrapped(
        self, old: cst.BaseStatement, new: cst.BaseStatement, lines: list[cst.EmptyLine]
    ) -> list[cst.BaseStatement]:
        """The statements of one branch, with the lines above the condition; comments that go are remembered."""
        assert isinstance(old, cst.If)
        assert isinstance(new, cst.If)
        every, kept = Comments(), Comments()
        original, branch = _branch(old, self.unwrapped[old]), _branch(new, self.unwrapped[old])
        old.with_changes(leading_lines=()).visit(every)
        for statement in original.body:
            statement.visit(kept)
        left = Counter(c for _, c in every.found) - Counter(c for _, c in kept.found)
        self.dropped.extend(left.elements())
        if isinstance(branch, cst.SimpleStatementSuite):
            return [cst.SimpleStatementLine(branch.body, leading_lines=lines)]
        first, *rest = branch.body
        assert isinstance(first, cst.BaseStatement)
        return [first.with_changes(leading_lines=[*lines, *lines_above(first)]), *rest]

    def _does_only_otherwise(self, node: cst.If) -> bool:
        """Whether all that is left of a condition is its `else`, with no comment in between."""
        orelse = node.orelse
        return (
            isinstance(orelse, cst.Else)
            and not any(line.comment for line in orelse.leading_lines)
            and isinstance(node.body, cst.IndentedBlock)
            and not any(line.comment for line in node.body.footer)
            and all(self._goes(statement) for statement in node.body.body)
            and orelse.body is not None
            and not (isinstance(orelse.body, cst.IndentedBlock) and all(map(self._goes, orelse.body.body)))
        )

    def _goes(self, statement: cst.CSTNode) -> bool:
        smalls = statement.body if isinstance(statement, cst.SimpleStatementLine) else [statement]
        is_removed = statement in self.removed or all(small in self.removed for small in smalls)
        return is_removed and not self._inserts(statement, "before") and not self._inserts(statement, "after")

    def _put(self, out: list[cst.BaseStatement], old: cst.CSTNode, new: cst.BaseStatement) -> None:
        """Add a statement to its block, or to the block that it is wrapped in."""
        small = old.body[0] if isinstance(old, cst.SimpleStatementLine) else old
        wrap = self.wrapped.get(small)
        if wrap is None:
            out.append(new)
            return
        block = self.blocks.get(wrap)
        if block is not None and out and out[-1] is block:
            assert isinstance(block.body, cst.IndentedBlock)
            body = [*block.body.body, new]
            out.pop()
        else:
            made = snippets.statements(f"{wrap.header}\n    pass", self.indent)[0]
            assert isinstance(made, (cst.If, cst.With))
            block = made.with_changes(leading_lines=lines_above(new))
            body = [new.with_changes(leading_lines=())]
        block = block.with_changes(body=block.body.with_changes(body=body))
        self.blocks[wrap] = block
        self.touched.append(block)
        out.append(block)

    def _emit(
        self, out: list[cst.BaseStatement], inserts: list[Insert], lines: list[cst.EmptyLine]
    ) -> list[cst.EmptyLine]:
        """Put new statements, with lines above the first; what lines are left, because an import follows an import."""
        self.placed.update(inserts)
        for insert in inserts:
            made = snippets.statements(insert.code, self.indent)
            if insert.where == "after" and insert.code.startswith(("from ", "import ")) and not insert.gap:
                out.extend(made)
                continue
            leading = list(lines)
            if insert.gap and not has_blank(leading) and out:
                leading = [*blank(insert.gap), *leading]
            made[0] = made[0].with_changes(leading_lines=[*leading, *lines_above(made[0])])
            out.extend(made)
            lines = []
        return lines

    def _comments_of(
        self, old: cst.CSTNode, new: cst.BaseStatement, lines: list[cst.EmptyLine], follower: cst.BaseStatement | None
    ) -> list[cst.EmptyLine]:
        """The lines above a removed statement that stay; comments that go are remembered."""
        self._drop_inner_comments(old)
        cut = last_blank(lines)
        if follower is not None and not has_blank(list(lines_above(follower))):
            return lines
        self.dropped.extend(line.comment.value for line in lines[cut:] if line.comment is not None)
        return lines[:cut]

    def _drop_inner_comments(self, node: cst.CSTNode) -> None:
        collector = Comments()
        node.visit(collector)
        own = {id(line) for line in lines_above(node)}
        self.dropped.extend(c for holder, c in collector.found if holder not in own)


def _branch(node: cst.If, edit: Unwrap) -> cst.BaseSuite:
    """The branch that takes a condition's place."""
    for _ in range(edit.depth):
        assert isinstance(node.orelse, cst.If)
        node = node.orelse
    if edit.is_body:
        return node.body
    assert isinstance(node.orelse, cst.Else)
    return node.orelse.body


def _otherwise(node: cst.If) -> cst.If:
    """`if not test:` with what was done otherwise."""
    assert isinstance(node.orelse, cst.Else)
    test = node.test
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test = test.expression
    else:
        if isinstance(test, (cst.BooleanOperation, cst.IfExp, cst.Lambda, cst.NamedExpr)) and not test.lpar:
            test = test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        test = cst.UnaryOperation(cst.Not(), test)
    whitespace = cst.SimpleWhitespace(" ")
    return node.with_changes(test=test, whitespace_before_test=whitespace, body=node.orelse.body, orelse=None)
