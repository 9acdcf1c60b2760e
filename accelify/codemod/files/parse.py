"""Bytes -> Parsed, and new text -> bytes in the same encoding, with the same line ends.

The LibCST tree is made only of what will be edited. Questions are asked of the `ast` tree: it costs a tenth of
LibCST's, and has to be built first anyway, because deep nesting kills LibCST's parser and not CPython's. Edits are
made in the LibCST tree; `Concrete` finds its nodes by place.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from accelify.codemod.files.lines import opcodes
from accelify.codemod.files.source import Decoded, decode, encode
from accelify.codemod.files.suppressions import Suppressions, suppressions
from accelify.codemod.libraries import vocabulary
from accelify.errors import CannotParse, FileError

# `print x`, `exec x`, `except E, e`, `raise E, x`, `0777`, `<>`, backquotes: what CPython says of each.
_PYTHON_2 = (
    "Missing parentheses in call to",
    "multiple exception types must be parenthesized",
    "leading zeros in decimal",
)
# Limits of one file, so that its analysis ends within a minute; a script of 10,000 lines has some 100,000 nodes.
MOST_NODES = 300_000
MOST_LEVELS = 4_000
MOST_BACKWARD_PASSES = 300

_CELL = re.compile(r"# ?%%|# In\[")
# Python counts the indentation of a line from its last form feed.
_FEED_IN_INDENTATION = re.compile(r"^[ \t\f]*\f", re.MULTILINE)


@dataclass(frozen=True)
class Parsed:
    """One file of the user's: `text` has `\\n` newlines and no form feeds, as LibCST and `ast` both read it alike.

    nodes: all of the tree, the module first, from the outside in; parents: the node that holds each of them.
    """

    path: str
    data: bytes
    decoded: Decoded
    text: str
    tree: ast.Module
    nodes: list[ast.AST]
    parents: dict[ast.AST, ast.AST]

    def spelled_out(self, node: ast.expr) -> str | None:
        """The text that an expression always is: `"lib." + kind` and `f"lib.{kind}"` with `kind = "models"`."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Name):
            known = self._assigned_once.get(node.id)
            return self.spelled_out(known) if known is not None and known.lineno < node.lineno else None
        parts: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts = [node.left, node.right]
        elif isinstance(node, ast.JoinedStr):
            is_plain = all(v.format_spec is None for v in node.values if isinstance(v, ast.FormattedValue))
            parts = [v.value if isinstance(v, ast.FormattedValue) else v for v in node.values]
            parts = parts if is_plain else []
        texts = [self.spelled_out(part) for part in parts]
        return "".join(t for t in texts if t is not None) if texts and None not in texts else None

    def pattern(self, node: ast.expr) -> str:
        """How a module's name reads that is made at run time: `lib.*_net` of `"lib." + kind + "_net"`.

        That of its own package is left out, as in a relative import: `.*` of `f"{__package__}.{kind}"`.
        """
        if (text := self.spelled_out(node)) is not None:
            return text
        if isinstance(node, ast.Name):
            known = self._assigned_once.get(node.id)
            is_package = node.id == "__package__" or (node.id == "__name__" and self.path.endswith("__init__.py"))
            return self.pattern(known) if known is not None and known.lineno < node.lineno else "*" * (not is_package)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.pattern(node.left) + self.pattern(node.right)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return re.sub(r"%[-+ #0]*\d*(\.\d+)?\w", "*", self.pattern(node.left))
        if isinstance(node, ast.JoinedStr):
            return "".join(self.pattern(v.value if isinstance(v, ast.FormattedValue) else v) for v in node.values)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return self._pattern_of_method(node, node.func)
        return "*"

    def _pattern_of_method(self, call: ast.Call, method: ast.Attribute) -> str:
        """`"lib.{}".format(kind)`, `".".join(["lib", kind])`"""
        text = self.pattern(method.value)
        if method.attr == "format":
            return re.sub(r"\{[^{}]*\}", "*", text)
        listed = call.args[0] if method.attr == "join" and call.args else None
        return text.join(map(self.pattern, listed.elts)) if isinstance(listed, (ast.List, ast.Tuple)) else "*"

    @cached_property
    def _assigned_once(self) -> dict[str, ast.expr]:
        """What the variables hold whose name gets a value in one place of the file."""
        stored: dict[str, list[ast.AST]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                stored.setdefault(node.id, []).append(node)
            elif isinstance(node, ast.arg):
                stored.setdefault(node.arg, []).append(node)
            elif isinstance(node, ast.alias):
                stored.setdefault(node.asname or node.name, []).append(node)
        once = {name: self.parents.get(places[0]) for name, places in stored.items() if len(places) == 1}
        return {name: holder.value for name, holder in once.items() if isinstance(holder, ast.Assign)}

    @cached_property
    def imports(self) -> list[ast.AST]:
        """The nodes that may import something: statements, and calls such as `import_module("lib")`."""
        return [n for n in self.nodes if isinstance(n, (ast.Import, ast.ImportFrom, ast.Call))]

    @cached_property
    def lines(self) -> list[str]:
        """The text's lines, without their ends; line 1 is `lines[0]`."""
        return self.text.split("\n")

    @cached_property
    def suppressions(self) -> Suppressions:
        """The rules and places that the user's comments exclude."""
        return suppressions(self.text, self.tree, self.decoded.notebook)

    @property
    def is_migrated(self) -> bool:
        """Whether something that runs training loops is used already: `Accelerator`, `pl.Trainer`."""
        return self.run_by is not None

    @cached_property
    def run_by(self) -> str | None:
        """The library that runs its training loops, or helps to."""
        return self._run_by(besides_loops=True)

    @property
    def next_step(self) -> str:
        """The next step for a file whose training a library runs; empty for any other."""
        library = self._run_by(besides_loops=".backward" in self.text)
        return vocabulary.next_step(library, self.path) if library is not None else ""

    def _run_by(self, *, besides_loops: bool) -> str | None:
        """The library that runs the training."""
        modules: dict[str, str] = {}
        for node in (n for n in self.nodes if isinstance(n, (ast.Import, ast.ImportFrom))):
            source = node.module if isinstance(node, ast.ImportFrom) and not node.level else None
            for alias in node.names:
                library = vocabulary.training_library(source or alias.name)
                if library is None:
                    continue
                if source is not None and vocabulary.runs_training(library, alias.name, besides_loops=besides_loops):
                    return library
                modules[(alias.asname or alias.name).partition(".")[0]] = library
        for attribute in (n for n in self.nodes if modules and isinstance(n, ast.Attribute)):
            found = modules.get(_root(attribute))
            if found and vocabulary.runs_training(found, attribute.attr, besides_loops=besides_loops):
                return found
        return None

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that holds a node, or is it."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def column(self, line: int, offset: int) -> int:
        """A column in characters for one in UTF-8 bytes."""
        text = self.lines[line - 1]
        return offset if text.isascii() else len(text.encode()[:offset].decode())

    def begins_line(self, statement: ast.stmt) -> bool:
        """Whether nothing stands before a statement on its line."""
        return not self.lines[statement.lineno - 1].encode()[: statement.col_offset].strip()

    def begins_cell(self, statement: ast.stmt) -> bool:
        """Whether a line above a statement marks a new cell, as editors that show a script as cells know it: `# %%`."""
        above = reversed(self.lines[: statement.lineno - 1])
        return any(_CELL.match(line) for line in takewhile(lambda line: line.strip()[:1] in ("", "#"), above))

    @staticmethod
    def share_a_line(one: ast.stmt, other: ast.stmt) -> bool:
        """Whether two statements stand, in part, on one line."""
        return one.lineno <= (other.end_lineno or 0) and (one.end_lineno or 0) >= other.lineno

    def source(self, node: ast.AST) -> str:
        """The text of a node as the user wrote it."""
        return ast.get_source_segment(self.text, node) or ast.unparse(node)


def _root(node: ast.expr) -> str:
    """`a` of `a.b.c`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def parse(path: str, data: bytes) -> Parsed:
    """Parse a file.

    Raises: CannotRead for bytes that are not text, CannotParse with line and column for text that is not Python 3, and
    for a file that is too large.
    """
    decoded = decode(data, path)
    text = decoded.text.replace("\r\n", "\n").replace("\r", "\n")
    text = _FEED_IN_INDENTATION.sub("", text).replace("\f", " ")
    try:
        tree = parse_text(text, path)
    except CannotParse as error:
        if decoded.notebook is None or error.line is None:
            raise
        cell, line = decoded.notebook.place(error.line)
        raise CannotParse(path, line, error.column, error.reason, cell) from None
    if decoded.notebook is not None:
        decoded.notebook.check(tree)
    if text.count(".backward(") > MOST_BACKWARD_PASSES:
        raise CannotParse(path, reason=f"too large to be analysed: more than {MOST_BACKWARD_PASSES} backward passes")
    nodes, parents, levels = nodes_of(tree)
    if ".backward(" in text and levels > MOST_LEVELS:  # to analyse one costs the square of them
        raise CannotParse(path, reason=f"nested too deeply to be analysed: more than {MOST_LEVELS:,} levels")
    if len(nodes) > MOST_NODES:
        raise CannotParse(path, reason=f"too large to be analysed: more than {MOST_NODES:,} nodes in its syntax tree")
    return Parsed(path, data, decoded, text, tree, nodes, parents)


def nodes_of(tree: ast.Module) -> tuple[list[ast.AST], dict[ast.AST, ast.AST], int]:
    """All nodes but `Load` and `Store` in the order of `ast.walk`; what holds each node; how many levels there are."""
    nodes: list[ast.AST] = []
    parents: dict[ast.AST, ast.AST] = {}
    level: list[ast.AST] = [tree]
    levels = 0
    while level:
        nodes += level
        levels += 1
        below: list[ast.AST] = []
        for node in level:
            for name in node._fields:
                value = getattr(node, name, None)
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        parents[child] = node  # of a `Store` too: who walks a part of the tree meets it
                        if name != "ctx":
                            below.append(child)
        level = below
    return nodes, parents, levels


@contextmanager
def without_warnings() -> Iterator[None]:
    """Without Python's warnings about the user's code (`x is 1`, `"\\d"`): they are not ours to show."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def parse_text(text: str, path: str) -> ast.Module:
    """The `ast` tree of a text; raises CannotParse."""
    try:
        with without_warnings():
            tree = ast.parse(text, path)
        return _Lengths().visit(tree) if ".__len__()" in text and not _binds_len(tree) else tree
    except SyntaxError as error:
        column = None if error.offset is None else max(error.offset - 1, 0)
        raise CannotParse(path, error.lineno, column, reason(error, text)) from None
    except (RecursionError, MemoryError):
        raise CannotParse(path, None, None, "an expression is nested too deeply to be parsed") from None
    except ValueError as error:
        raise CannotParse(path, None, None, str(error)) from None


class _Lengths(ast.NodeTransformer):
    """`len(x)` for `x.__len__()`, in its place, so that one spelling is all that others have to know."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        asked = node.func
        if not isinstance(asked, ast.Attribute) or asked.attr != "__len__" or node.args or node.keywords:
            return node
        if ast.unparse(asked.value) != "super()":
            node.func, node.args = ast.copy_location(ast.Name("len", ast.Load()), asked), [asked.value]
        return node


def _binds_len(tree: ast.Module) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "len" and isinstance(n.ctx, ast.Store) for n in ast.walk(tree))


def reason(error: SyntaxError, text: str) -> str:
    """The reason of a syntax error, in words that say how to mend it."""
    message = error.msg or "invalid syntax"
    line = text.split("\n")[error.lineno - 1] if error.lineno and error.lineno <= text.count("\n") + 1 else ""
    if "async=" in line.replace(" ", ""):
        return "`async` is a keyword since Python 3.7: write `.cuda(non_blocking=...)`"
    stripped = line.strip()
    if message.startswith(_PYTHON_2) or stripped.startswith(("print ", "exec ")) or "<>" in stripped:
        return f"this is Python 2 ({message}): convert the file to Python 3 first"
    return message


def remedy(error: FileError) -> str:
    """What to do about an imported file that could not be read; that a later Python could is not known here."""
    if error.line is None:
        return "fix it, and migrate again"
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"fix it or, if it is for a newer Python than {own}, run accelify under that Python, and migrate again"


def encoded(parsed: Parsed, text: str) -> bytes:
    """A file's new text as bytes. Raises: CannotParse where its encoding, or a notebook's cells, cannot hold it."""
    try:
        return encode(_restored(parsed, text), parsed.decoded)
    except UnicodeError:
        raise CannotParse(parsed.path, reason=f"the new text cannot be written as {parsed.decoded.encoding}") from None


def _restored(parsed: Parsed, text: str) -> str:
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


def beginning(node: ast.expr) -> str:
    """The text with which an expression begins: of `"a." + b`, `f"a.{b}"`, `"a.%s" % b` and `"a.{}".format(b)`."""
    while True:
        if isinstance(node, ast.BinOp):
            node = node.left
        elif isinstance(node, ast.JoinedStr) and node.values:
            node = node.values[0]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr != "join":
            node = node.func.value
        else:
            break
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return re.split(r"[%{]", text)[0]
