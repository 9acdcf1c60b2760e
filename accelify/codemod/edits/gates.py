"""Conditions that hold before a result may be written; each gate returns its complaint, or nothing."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from functools import cache

import libcst as cst

from accelify.codemod.edits.apply import Applied
from accelify.codemod.edits.blocks import fields_of
from accelify.codemod.files.nodes import walk
from accelify.codemod.files.notebook import without_sources
from accelify.codemod.files.parse import Parsed, nodes_of, parse, parse_text, without_warnings
from accelify.codemod.semantics.control_flow import ControlFlow
from accelify.codemod.semantics.scopes import Scope, bindings
from accelify.errors import CannotParse


def compiles(parsed: Parsed, text: str) -> str | None:
    """The result compiles if the original did."""
    return None if _compiles(text) or not _compiles(parsed.text) else "the result does not compile"


def _compiles(text: str) -> bool:
    try:
        with without_warnings():
            compile(text, "<script>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def means_the_plan(applied: Applied) -> str | None:
    """The text parses back to what was planned: a statement in which something was replaced has its planned shape."""
    try:
        parse_text(applied.text, "<result>")
        lost = [node for node in map(_alone, applied.touched) if _shape(node) != _shape(_again(node))]
    except (CannotParse, cst.ParserSyntaxError):
        return "the result does not parse"
    return "the result means something else than was planned" if lost else None


_BLOCKS = (cst.If, cst.For, cst.While, cst.With, cst.FunctionDef, cst.ClassDef)


def _alone(node: cst.CSTNode) -> cst.CSTNode:
    """A statement without the blocks under it."""
    if not isinstance(node, _BLOCKS):
        return node
    body = cst.SimpleStatementSuite([cst.Pass()])
    if isinstance(node, (cst.If, cst.For, cst.While)):
        return node.with_changes(body=body, orelse=None, leading_lines=())
    return node.with_changes(body=body, leading_lines=())


def _again(node: cst.CSTNode) -> cst.CSTNode:
    """A statement as its own text parses."""
    parsed = cst.parse_statement(cst.Module([]).code_for_node(node))
    return parsed.body[0] if isinstance(parsed, cst.SimpleStatementLine) else parsed


def _shape(value: cst.CSTNode | str | list[cst.CSTNode] | tuple[cst.CSTNode, ...]) -> object:
    """The meaning of a node: its kind and its parts, without blanks, parentheses and commas."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(map(_shape, value))
    parts = _meant(type(value))
    return None if parts is None else (type(value).__name__, *[_shape(getattr(value, part)) for part in parts])


@cache
def _meant(kind: type[cst.CSTNode]) -> tuple[str, ...] | None:
    """The fields of a kind of node that its meaning is made of; None for what means nothing."""
    if issubclass(kind, _PUNCTUATION):
        return None
    return tuple(f for f in fields_of(kind) if f not in _PLACES) if issubclass(kind, cst.CSTNode) else None


_PLACES = frozenset({"lpar", "rpar", "leading_lines", "lines_after_decorators"})
_PUNCTUATION = (
    cst.BaseParenthesizableWhitespace,
    cst.TrailingWhitespace,
    cst.Comma,
    cst.Semicolon,
    cst.AssignEqual,
    cst.Colon,
    cst.LeftParen,
    cst.RightParen,
)


def makes_every_edit(applied: Applied) -> str | None:
    """No new statement was left out."""
    return f"no place was found for `{applied.missed[0]}`" if applied.missed else None


def keeps_the_rest(applied: Applied) -> str | None:
    """Every statement that no edit touches is in the result, once."""
    lost = applied.folded.lost(applied.part)
    return f"a statement would be lost: {lost[0]}" if lost else None


def keeps_comments(applied: Applied) -> str | None:
    """Every comment is in the result, or listed as gone."""
    lost = _comments(applied.folded.text) - _comments(applied.part) - Counter(applied.dropped)
    return f"a comment would be lost: {next(iter(lost))}" if lost else None


def _comments(text: str) -> Counter[str]:
    found: Counter[str] = Counter()
    if "#" not in text:
        return found
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                found[token.string] += 1
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return Counter()
    return found


def binds_its_names(parsed: Parsed, text: str, kept: Iterable[tuple[str, str]] = ()) -> str | None:
    """No name is undefined, and none is left unused, that was not so before, but for those `kept`."""
    return next(iter(name_troubles(parsed, text, kept)), None)


def name_troubles(parsed: Parsed, text: str, kept: Iterable[tuple[str, str]] = ()) -> Counter[str]:
    """The names that are undefined or unused in a text, and were not so in a file, but for those `kept`."""
    tree = parse_text(text, parsed.path)
    nodes, parents, _ = nodes_of(tree)
    root, known = _root(tree), _root(parsed.tree)
    flow = ControlFlow(tree, parents)
    after = _name_troubles(root, nodes, flow)
    after.update(_missing_at_times(root, flow, {n for s in known.walk() for n in (*s.writes, *s.reads)}))
    if not after:
        return after
    before = _name_troubles(known, parsed.nodes, ControlFlow(parsed.tree, parsed.parents))
    new = after - before - Counter(f"`{name}` is read before it is there" for name in _given_by_stars(parsed))
    unread = [(f"parameter `{function}:{name}`", f"import `{name}`", f"variable `{name}`") for function, name in kept]
    allowed = {f"unused {what}" for kinds in unread for what in kinds}
    return Counter({trouble: times for trouble, times in new.items() if trouble not in allowed})


def _root(tree: ast.Module) -> Scope:
    return bindings("<module>", tree).root


def _missing_at_times(root: Scope, flow: ControlFlow, known: Set[str]) -> Iterator[str]:
    """The new names that are read where a way leads that has not bound them."""
    for scope in root.walk():
        for name in scope.reads.keys() & scope.writes.keys() - known if scope.kind in ("module", "function") else ():
            writes = scope.writes[name]
            is_given = any(isinstance(w, ast.arg) for w in writes) or scope.owner(name) is not scope
            reads = [] if is_given else [r for r in scope.reads[name] if flow.is_reachable(r)]
            if not all(flow.is_covered(writes, r) for r in reads):
                yield f"`{name}` may be read before it is there"


def _given_by_stars(parsed: Parsed) -> set[str]:
    """The names that a file reads and never binds, where `from models import *` may be what binds them."""
    stars = (n for n in parsed.nodes if isinstance(n, ast.ImportFrom) and any(a.name == "*" for a in n.names))
    root = _root(parsed.tree) if any(stars) else None
    return {n for s in root.walk() for n in s.reads if s.owner(n) is None} if root is not None else set()


def edits_cells_only(parsed: Parsed, applied: Applied, data: bytes) -> str | None:
    """A notebook's cells hold the planned text, but for blank lines round it, and nothing else is different."""
    before = parsed.decoded.notebook
    if before is None:
        return None
    written = parse(parsed.path, data)
    after = written.decoded.notebook
    if after is None or without_sources(before.text) != without_sources(after.text):
        return "more than the notebook's cells would change"
    for old, new in zip(before.cells, after.cells, strict=True):
        if _compiles(old.python) and not _compiles(new.python):
            return f"cell {new.number} would not compile"
    return None if _filled(written.text) == _filled(applied.text) else "the cells would not hold what was planned"


def _filled(text: str) -> list[str]:
    """The lines of a text that are not blank."""
    return [line for line in text.split("\n") if line.strip()]


def _name_troubles(root: Scope, nodes: list[ast.AST], flow: ControlFlow) -> Counter[str]:
    """Names that are not defined, or not yet, and imports, plain local variables and parameters that nothing reads."""
    found: Counter[str] = Counter()
    unpacked = _unpacked(nodes)
    has_star = any(isinstance(n, ast.ImportFrom) and any(a.name == "*" for a in n.names) for n in nodes)
    read: set[tuple[Scope | None, str]] = set()
    for scope in root.walk():
        for name, reads in scope.reads.items():
            owner = scope.owner(name)
            read.add((owner, name))
            if owner is None and not has_star and name not in _BUILTINS:
                found[f"undefined name `{name}`"] += len(reads)
            elif owner is scope and _is_read_too_early(scope, name, reads, flow):
                found[f"`{name}` is read before it is there"] = 1
    for scope in root.walk():
        if scope.kind == "function" or scope is root:
            _unused(scope, found, unpacked, read)
    return found


def _is_read_too_early(scope: Scope, name: str, reads: list[ast.Name], flow: ControlFlow) -> bool:
    """Whether a module's or a function's own name is read where nothing can have given it a value yet."""
    writes = scope.writes[name]
    if scope.kind == "module":
        return not any(flow.reaches(w, reads[0]) for w in writes)
    if scope.kind != "function" or any(isinstance(w, ast.arg) for w in writes):
        return False
    return any(flow.is_reachable(r) and not any(flow.reaches(w, r) for w in writes) for r in reads)


_BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__) | {
    "__file__",
    "__name__",
    "WindowsError",
}


def _unpacked(nodes: list[ast.AST]) -> set[ast.AST]:
    """Names that a tuple is unpacked into, or that a loop counts by: a script may well want only some of them."""
    targets: list[ast.expr] = [n.target for n in nodes if isinstance(n, (ast.For, ast.AsyncFor))]
    targets += [n for n in nodes if isinstance(n, (ast.Tuple, ast.List)) and isinstance(n.ctx, ast.Store)]
    return {n for t in targets for n in walk(t)}


def _unused(scope: Scope, found: Counter[str], unpacked: set[ast.AST], read: set[tuple[Scope | None, str]]) -> None:
    for name, writes in scope.writes.items():
        if not scope.binds(name) or (scope, name) in read:
            continue
        for write in writes:
            if isinstance(write, ast.alias):
                found[f"unused import `{name}`"] += 1
            elif isinstance(write, ast.arg) and scope.kind == "function" and name not in ("self", "cls"):
                found[f"unused parameter `{scope.name}:{name}`"] += 1
            elif isinstance(write, ast.Name) and scope.kind == "function" and write not in unpacked:
                found[f"unused variable `{name}`"] += 1
