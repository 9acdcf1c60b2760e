"""Plan + text -> new text: one pass over the LibCST tree of a file."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.blocks import Block, Comments, comments_in, has_blank, last_blank, lines_above
from accelify.codemod.edits.concrete import Concrete, Folded, fold
from accelify.codemod.edits.values import (
    AddParameter,
    Bind,
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
from accelify.codemod.files.parse import Parsed

_WHITE_SPACE = (cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.EmptyLine)


@cache
def _is_small(kind: type[cst.CSTNode]) -> bool:
    return issubclass(kind, cst.BaseSmallStatement)


@cache
def _is_white_space(kind: type[cst.CSTNode]) -> bool:
    return issubclass(kind, _WHITE_SPACE)


@dataclass(frozen=True, slots=True)
class _Part:
    """What becomes of a statement, or of some on one line, and the new statements beside it."""

    old: Sequence[cst.CSTNode]
    new: cst.BaseStatement
    before: list[Insert]
    after: list[Insert]


@dataclass(frozen=True)
class Applied:
    """A file with its changes made.

    folded: the part that was to be edited, and part: what became of it, still folded; all with `\\n` newlines.
    dropped: the comments that went with removed statements. touched: the statements in which something was replaced.
    missed: the new statements, and the headers of wrapped ones, that found no place.
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
    for change in changes:
        anchors = {e.node for e in change.edits if isinstance(e, Insert)}
        removed = (e.node for e in change.edits if isinstance(e, Remove))
        applier.succeeded.update(concrete.find(node) for node in removed if node in anchors)
    module = concrete.module.visit(applier)
    inside = {n for e in edits if isinstance(e, Remove) for n in ast.walk(e.node) if n is not e.node}
    inside |= {n for e in edits if isinstance(e, Unwrap) for part in e.gone for n in ast.walk(part)}
    gone = inside.union(e.node for e in edits if isinstance(e, Remove))
    missed = [e.code for e in edits if isinstance(e, Insert) and e not in applier.placed and e.node not in inside]
    wraps = (e for e in edits if isinstance(e, Wrap) and e not in applier.placed)
    missed += [e.header for e in wraps if not gone.issuperset(e.statements)]
    return Applied(folded, module.code, applier.dropped, applier.touched, missed)


class _Applier(cst.CSTTransformer):
    """Every edit sits at its LibCST node; what is done to a node gets it as its children's edits left it."""

    def __init__(self, concrete: Concrete, indent: str) -> None:
        super().__init__()
        self.concrete = concrete
        self.indent = indent
        self.replaced: dict[cst.CSTNode, list[Replace]] = defaultdict(list)
        self.bound: dict[cst.CSTNode, tuple[Bind, ast.stmt]] = {}
        self.removed: set[cst.CSTNode] = set()
        self.succeeded: set[cst.CSTNode] = set()  # removed statements for which the same change puts others
        self.inserted: dict[tuple[cst.CSTNode, str], list[Insert]] = defaultdict(list)
        self.names: dict[cst.CSTNode, set[str]] = defaultdict(set)
        self.parameters: dict[cst.CSTNode, list[AddParameter | DropParameter]] = defaultdict(list)
        self.arguments: dict[cst.CSTNode, set[cst.CSTNode]] = defaultdict(set)
        self.unwrapped: dict[cst.CSTNode, Unwrap] = {}
        self.wrapped: dict[cst.CSTNode, Wrap] = {}
        self.dropped: list[str] = []
        self.holders: set[cst.CSTNode] = set()
        self.edited: set[cst.CSTNode] = set()
        self.touched: list[cst.CSTNode] = []
        self.placed: set[Insert | Wrap] = set()

    def add(self, edit: Edit, parsed: Parsed) -> None:
        """Note an edit at its node."""
        node = self.concrete.find(edit.node)
        self.edited.add(node)
        if isinstance(edit, Replace):
            self.replaced[node].append(edit)
            self.holders.add(self.concrete.find(parsed.statement(edit.node)))
        elif isinstance(edit, Bind):
            self.bound[node] = edit, parsed.statement(edit.node)
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

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Whether something may be edited inside a node: in no white space, nor in a statement that holds no edit."""
        if _is_small(type(node)):
            return node in self.holders
        return not _is_white_space(type(node))

    # LibCST looks for a method of each name.
    def on_visit_attribute(self, node: cst.CSTNode, attribute: str) -> None:
        """Nothing is asked of attributes."""

    def on_leave_attribute(self, original_node: cst.CSTNode, attribute: str) -> None:
        """Nothing is asked of attributes."""

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]  # we remove by hand
        node = self._edited(original_node, updated_node) if original_node in self.edited else updated_node
        if type(original_node) is cst.If and self._does_only_otherwise(original_node):
            assert isinstance(node, cst.If)
            node = negated(node)
            self.touched.append(node)
        if self._loses_its_else(original_node, node):
            node = node.with_changes(orelse=None)
        if type(original_node) is cst.If and isinstance(original_node.orelse, cst.If):
            assert isinstance(node, cst.If)
            node = self._continued(original_node.orelse, node)
        if original_node in self.holders:
            self.touched.append(node)
        if type(original_node) is cst.Module or type(original_node) is cst.IndentedBlock:
            assert isinstance(node, (cst.Module, cst.IndentedBlock))
            node = self._block(original_node, node)
        elif type(original_node) is cst.SimpleStatementLine or type(original_node) is cst.SimpleStatementSuite:
            assert isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite))
            node = self._small(original_node, node)
        return node

    def _edited(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:
        """A node with what is done to it alone."""
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
        # Code around the whole node is added after the changes inside it.
        for edit in sorted(self.replaced.get(original_node, ()), key=lambda e: e.node in e.keeps):
            node = edit.make(node)
        if node is not updated_node:
            self.dropped.extend((comments_in(updated_node) - comments_in(node)).elements())
        if original_node in self.bound:
            node = self._bound(*self.bound[original_node], node)
        return node

    def _bound(self, edit: Bind, statement: ast.stmt, node: cst.CSTNode) -> cst.Name:
        """The new variable for an expression, whose line is put before the statement."""
        code = f"{edit.name} = {cst.Module([]).code_for_node(node)}"
        self.inserted[(self.concrete.find(statement), "before")].append(Insert(statement, "before", code))
        return cst.Name(edit.name)

    def _small(
        self,
        original: cst.SimpleStatementLine | cst.SimpleStatementSuite,
        updated: cst.SimpleStatementLine | cst.SimpleStatementSuite,
    ) -> cst.CSTNode:
        if isinstance(original, cst.SimpleStatementSuite) and any(
            small in self.wrapped or self._inserts(small, "before") or self._inserts(small, "after")
            for small in original.body
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
        block = Block(self.indent, is_dense=True)
        for old, new in zip(original.body, updated.body, strict=True):
            block.insert(self._inserts(old, "before"))
            if old not in self.removed:
                end = updated.trailing_whitespace if old is original.body[-1] else cst.TrailingWhitespace()
                line = new.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
                block.put(cst.SimpleStatementLine([line], trailing_whitespace=end), self.wrapped.get(old))
            block.insert(self._inserts(old, "after"))
        self._take(block)
        return cst.IndentedBlock(block.body, indent=self.indent)

    def _take(self, block: Block) -> None:
        """Remember what a block has placed."""
        self.placed.update(block.placed)
        self.touched.extend(block.wrapped)

    def _inserts(self, node: cst.CSTNode, where: str) -> list[Insert]:
        found = list(self.inserted.get((node, where), ()))
        if isinstance(node, cst.SimpleStatementLine):
            for small in node.body:
                found.extend(self.inserted.get((small, where), ()))
        return sorted(found, key=lambda insert: insert.order)

    def _block(self, original: cst.Module | cst.IndentedBlock, updated: cst.Module | cst.IndentedBlock) -> cst.CSTNode:
        is_dense = isinstance(original, cst.IndentedBlock) and not has_blank(lines_above(original.body[0]))
        block = Block(self.indent, is_dense)
        pairs = list(zip(original.body, updated.body, strict=True))
        for index, (old, new) in enumerate(pairs):
            assert isinstance(new, cst.BaseStatement)
            if old in self.removed:
                follower = next((n for o, n in pairs[index + 1 :] if o not in self.removed), None)
                inserts = [*self._inserts(old, "before"), *self._inserts(old, "after")]
                block.remove(self._kept_above(old, list(lines_above(new)), follower), inserts)
                continue
            for part in self._parts(old, new):
                lines = block.reach(list(lines_above(part.new)), part.before)
                is_unwrapped = old in self.unwrapped
                pieces = [part.new.with_changes(leading_lines=lines)]
                for piece, wrap in self._wrapped_apart(
                    part.old, self._unwrapped(old, new, lines) if is_unwrapped else pieces
                ):
                    block.put(piece, wrap)
                block.follow(part.after)
        comments = block.close()
        self._take(block)
        if not block.body and isinstance(updated, cst.IndentedBlock):
            block.put(cst.SimpleStatementLine([cst.Pass()]))
        return updated.with_changes(body=block.body, footer=[*comments, *updated.footer])

    def _parts(self, old: cst.BaseStatement, new: cst.BaseStatement) -> Iterator[_Part]:
        """A statement with what comes before and after it; `a; b` in parts where something new comes between them."""
        if not isinstance(old, cst.SimpleStatementLine) or len(old.body) == 1:
            yield _Part([old], new, self._inserts(old, "before"), self._inserts(old, "after"))
            return
        line = cst.ensure_type(new, cst.SimpleStatementLine)
        kept = [small for small in old.body if small not in self.removed]
        gaps: list[list[Insert]] = [[] for _ in range(len(kept) + 1)]
        imports: list[tuple[int, Insert]] = []
        place = 0
        for small in old.body:
            gaps[place] += self._inserts(small, "before")
            place += small not in self.removed
            for insert in self._inserts(small, "after"):
                imports += [(place, insert)] if insert.imports else []
                gaps[place] += [] if insert.imports else [insert]
        is_parted = any(gaps[1:-1])  # an import alone parts no line, and comes before what may need it
        for place, insert in imports:
            gaps[place if is_parted else -1].append(insert)
        gaps = [sorted(gap, key=lambda insert: insert.order) for gap in gaps]
        starts = [0, *(i for i in range(1, len(kept)) if gaps[i]), len(kept)]
        for start, end in pairwise(starts):
            body = list(line.body[start:end])
            is_last = end == len(kept)
            body[-1] = body[-1] if is_last else body[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
            space = line.trailing_whitespace if is_last else cst.TrailingWhitespace()
            part = line.with_changes(
                body=body, leading_lines=() if start else line.leading_lines, trailing_whitespace=space
            )
            yield _Part(kept[start:end], part, gaps[start], gaps[end] if is_last else [])

    def _wrapped_apart(
        self, old: Sequence[cst.CSTNode], pieces: list[cst.BaseStatement]
    ) -> Iterator[tuple[cst.BaseStatement, Wrap | None]]:
        """The statements that replace others, each with its wrapper: `a; b` is split where the wrappers differ."""
        (line,) = pieces if len(pieces) == 1 else (None,)
        if not isinstance(line, cst.SimpleStatementLine):
            yield from ((piece, self.wrapped.get(old[0])) for piece in pieces)
            return
        smalls = old[0].body if isinstance(old[0], cst.SimpleStatementLine) else old
        wraps = [self.wrapped.get(small) for small in smalls]
        if all(wrap is wraps[0] for wrap in wraps):
            yield line, wraps[0]
            return
        for at, (small, wrap) in enumerate(zip(line.body, wraps, strict=True)):
            end = line.trailing_whitespace if small is line.body[-1] else cst.TrailingWhitespace()
            bare = small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
            above = line.leading_lines if at == 0 else ()
            yield cst.SimpleStatementLine([bare], leading_lines=above, trailing_whitespace=end), wrap

    def _unwrapped(
        self, old: cst.BaseStatement, new: cst.BaseStatement, lines: list[cst.EmptyLine]
    ) -> list[cst.BaseStatement]:
        """The statements of one branch, with the lines above the condition."""
        assert isinstance(old, (cst.If, cst.With))
        assert isinstance(new, (cst.If, cst.With))
        branch = self._chosen(old, new)
        was_elif = isinstance(old, cst.If) and isinstance(old.orelse, cst.If) and not self.unwrapped[old].is_body
        if was_elif and isinstance(new, cst.If) and isinstance(new.orelse, cst.Else):
            lines = [*lines, *new.orelse.leading_lines]
        if isinstance(branch, cst.If):
            return [branch.with_changes(leading_lines=[*lines, *branch.leading_lines])]
        if branch is None:
            return []
        if isinstance(branch, cst.SimpleStatementSuite):
            return [cst.SimpleStatementLine(branch.body, leading_lines=lines)]
        first, *rest = branch.body
        assert isinstance(first, cst.BaseStatement)
        return [first.with_changes(leading_lines=[*lines, *lines_above(first)]), *rest]

    def _chosen(self, old: cst.If | cst.With, new: cst.If | cst.With) -> cst.BaseSuite | cst.If | None:
        """The branch that takes a condition's place; comments that go are remembered."""
        every, kept, edit = Comments(), Comments(), self.unwrapped[old]
        branch = branch_of(old, edit)
        old.with_changes(leading_lines=()).visit(every)
        for node in branch.body if isinstance(branch, cst.BaseSuite) else filter(None, [branch]):
            node.visit(kept)
        left = Counter(c for _, c in every.found) - Counter(c for _, c in kept.found)
        self.dropped.extend(left.elements())
        return branch_of(new, edit)

    def _continued(self, old: cst.If, node: cst.If) -> cst.If:
        """A condition with what is left of its `elif`: all of it, one of its branches, or nothing."""
        if old in self.removed:
            self.dropped.extend(comments_in(old).elements())
            return node.with_changes(orelse=None)
        if not isinstance(node.orelse, cst.If):
            return node
        if old not in self.unwrapped:
            return node.with_changes(orelse=self._otherwise(old, node.orelse))
        branch = self._chosen(old, node.orelse)
        orelse = cst.Else(branch) if isinstance(branch, cst.BaseSuite) else branch
        if orelse is not None:
            orelse = orelse.with_changes(leading_lines=[*node.orelse.leading_lines, *orelse.leading_lines])
        return node.with_changes(orelse=orelse)

    def _otherwise(self, old: cst.If, new: cst.If) -> cst.If | cst.Else:
        """An `elif` with what is put round it or beside it: `elif main and test:`, or a block under `else:`."""
        before, after, wrap = self._inserts(old, "before"), self._inserts(old, "after"), self.wrapped.get(old)
        if not (before or after or wrap):
            return new
        block = Block(self.indent, is_dense=True)
        block.insert(before)
        block.put(new.with_changes(leading_lines=()), wrap)
        block.insert(after)
        self._take(block)
        first, *rest = block.body
        if isinstance(first, cst.If) and not rest:
            return first.with_changes(leading_lines=new.leading_lines)
        return cst.Else(cst.IndentedBlock(block.body, indent=self.indent), leading_lines=new.leading_lines)

    def _does_only_otherwise(self, node: cst.If) -> bool:
        """Whether all that is left of a condition is its `else`, with no comment in between."""
        orelse = node.orelse
        return (
            isinstance(orelse, cst.Else)
            and node not in self.unwrapped
            and not any(line.comment for line in orelse.leading_lines)
            and isinstance(node.body, cst.IndentedBlock)
            and not any(line.comment for line in node.body.footer)
            and all(self._goes(statement) for statement in node.body.body)
            and orelse.body is not None
            and not (isinstance(orelse.body, cst.IndentedBlock) and all(map(self._goes, orelse.body.body)))
        )

    def _loses_its_else(self, original: cst.CSTNode, updated: cst.CSTNode) -> bool:
        """Whether nothing is left of what stands under `else`, not even a comment."""
        before, after = getattr(original, "orelse", None), getattr(updated, "orelse", None)
        if before is None or not isinstance(before, cst.Else) or not isinstance(after, cst.Else):
            return False
        is_chosen = any(branch_of(node, edit) is before.body for node, edit in self.unwrapped.items())  # type: ignore[arg-type]  # a condition
        return not is_chosen and all(map(self._goes, before.body.body)) and not comments_in(after)

    def _goes(self, statement: cst.CSTNode) -> bool:
        smalls = statement.body if isinstance(statement, cst.SimpleStatementLine) else [statement]
        is_removed = statement in self.removed or all(small in self.removed for small in smalls)
        return is_removed and not self._inserts(statement, "before") and not self._inserts(statement, "after")

    def _kept_above(
        self, old: cst.CSTNode, lines: list[cst.EmptyLine], follower: cst.BaseStatement | None
    ) -> list[cst.EmptyLine]:
        """The lines above a removed statement that stay; comments that go are remembered."""
        self._drop_inner_comments(old)
        cut = last_blank(lines)
        is_followed = follower is not None and not has_blank(list(lines_above(follower)))
        if old in self.succeeded or is_followed:
            return lines
        self.dropped.extend(line.comment.value for line in lines[cut:] if line.comment is not None)
        return lines[:cut]

    def _drop_inner_comments(self, node: cst.CSTNode) -> None:
        collector = Comments()
        node.visit(collector)
        own = {id(line) for line in lines_above(node)}
        self.dropped.extend(c for holder, c in collector.found if holder not in own)


def branch_of(node: cst.If | cst.With, edit: Unwrap) -> cst.BaseSuite | cst.If | None:
    """The branch that takes a condition's place: a block, or the `elif` that it goes on with. Of `with`, its block."""
    if isinstance(node, cst.With):
        return node.body
    for _ in range(edit.depth):
        assert isinstance(node.orelse, cst.If)
        node = node.orelse
    if edit.is_body:
        return node.body
    return node.orelse.body if isinstance(node.orelse, cst.Else) else node.orelse


def negated(node: cst.If) -> cst.If:
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


def with_parameter(node: cst.FunctionDef, edit: AddParameter) -> cst.FunctionDef:
    """The function with `edit.name` as a parameter."""
    params = node.params
    listed = list(params.params)
    if edit.instead_of is not None:
        kinds = {"params": params.params, "kwonly_params": params.kwonly_params}
        renamed = {
            kind: [_renamed(p, edit.name) if p.name.value == edit.instead_of else p for p in each]
            for kind, each in kinds.items()
        }
        return node.with_changes(params=params.with_changes(**renamed))
    if edit.position >= len(listed):
        new = cst.Param(cst.Name(edit.name))
        if listed and listed[-1].default is not None:
            plain = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
            new = new.with_changes(default=cst.Name("None"), equal=plain)
        if not listed:
            return node.with_changes(params=params.with_changes(params=[new]))
        before: cst.Comma | cst.MaybeSentinel = cst.MaybeSentinel.DEFAULT
        ending = listed[-1].whitespace_after_param
        if isinstance(listed[-1].comma, cst.Comma) or isinstance(ending, cst.ParenthesizedWhitespace):
            before = listed[-2].comma if len(listed) > 1 else before
        listed = snippets.listed_with(listed, new, before, node.whitespace_before_params)
    else:
        comma = snippets.comma_like(listed[max(edit.position - 1, 0)].comma)
        listed.insert(edit.position, cst.Param(cst.Name(edit.name), comma=comma))
    return node.with_changes(params=params.with_changes(params=listed))


def _renamed(parameter: cst.Param, name: str) -> cst.Param:
    """A parameter that means something else now; its default, which no call uses, means nothing."""
    default = parameter.default and cst.Name("None")
    return parameter.with_changes(name=cst.Name(name), annotation=None, default=default)


def without_parameter(node: cst.FunctionDef, edit: DropParameter) -> cst.FunctionDef:
    """The function without the parameter `edit.name`."""
    params = node.params
    kept = [p for p in params.params if p.name.value != edit.name]
    named = [p for p in params.kwonly_params if p.name.value != edit.name]
    if kept and len(kept) < len(params.params) and params.params[-1].name.value == edit.name and not named:
        kept[-1] = kept[-1].with_changes(comma=params.params[-1].comma)
    star = params.star_arg
    if params.kwonly_params and not named:
        ending = params.kwonly_params[-1].comma
        if isinstance(star, cst.Param):
            star = star.with_changes(comma=ending)
        elif isinstance(star, cst.ParamStar):  # of `(a, *, gone)` the bare `*` goes, too
            star = cst.MaybeSentinel.DEFAULT
            kept[-1:] = [p.with_changes(comma=p.comma if params.star_kwarg else ending) for p in kept[-1:]]
    return node.with_changes(params=params.with_changes(params=kept, kwonly_params=named, star_arg=star))


def without_arguments(original: cst.CSTNode, node: cst.CSTNode, gone: set[cst.CSTNode]) -> cst.CSTNode:
    """The call without some of its arguments."""
    assert isinstance(original, cst.Call)
    assert isinstance(node, cst.Call)
    kept = [new for old, new in zip(original.args, node.args, strict=True) if old.value not in gone]
    last = node.args[-1]
    if kept and kept[-1] is not last:
        kept[-1] = kept[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return node.with_changes(args=kept)


def without_names(node: cst.CSTNode, gone: set[str]) -> cst.CSTNode:
    """The import without some of the names that it binds."""
    assert isinstance(node, (cst.Import, cst.ImportFrom))
    assert not isinstance(node.names, cst.ImportStar)
    kept = [alias for alias in node.names if _bound_name(alias) not in gone]
    last = kept[-1]
    multiline = isinstance(node, cst.ImportFrom) and node.lpar is not None
    if not multiline:
        last = last.with_changes(comma=cst.MaybeSentinel.DEFAULT)
    elif isinstance(node.names[-1].comma, cst.Comma):
        last = last.with_changes(comma=node.names[-1].comma)
    else:
        last = last.with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return node.with_changes(names=[*kept[:-1], last])


def _bound_name(alias: cst.ImportAlias) -> str:
    """The name that a part of an import binds."""
    return alias.evaluated_alias or alias.evaluated_name
