"""Only `libraries/` holds lists of names of libraries: elsewhere, the table is asked.

What counts: two or more texts side by side in a set, list or tuple, in the keys of a dict, or in a text that is split
into words, of which at least two are names that the table knows: a qualified name or the beginning of one
(`torch.cuda.`), a builtin function, or a method or an attribute of a kind of object (`append`, `detach`, `shape`). It
counts where such a collection is bound at module level or in a class, where something is looked up in it
(`x in (...)`), and where it is given to `startswith` or `endswith`. Tuples of the program's own words, such as the keys
("item", node), are not looked up, so they do not count.

What does not count: Python's own words. Fields of its syntax tree (`SYNTAX`), methods between two pairs of underscores,
and the options of a call, which are looked up by `keyword.arg in (...)`. What is found and is none of these is asked of
the table; where the table has no answer, it lacks a column or a trait. Builtins alone are Python's own words, too, in
`semantics/`, the layer that knows Python.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from accelify.codemod.libraries import table
from tests.test_architecture import modules, within

CODEMOD = "accelify.codemod"
SYNTAX = {name for cls in vars(ast).values() if isinstance(cls, type) for name in getattr(cls, "_fields", ())}


@cache
def beginnings() -> frozenset[str]:
    """Every beginning of a qualified name in the table: `torch`, `torch.nn`, `torch.nn.Linear`."""
    names = {name.partition("*")[0].rstrip(".") for name, _facts, _source in table.entries() if name[0] != "<"}
    return frozenset(".".join(name.split(".")[: i + 1]) for name in names for i in range(name.count(".") + 1))


def is_name_of_a_library(text: str) -> bool:
    """Whether a text is a qualified name, the beginning of one, a builtin, a method or an attribute of a kind."""
    bare = text.strip(".")
    if bare in ("", "*") or bare in SYNTAX or bare.startswith("__"):
        return False
    return ("." in text and bare in beginnings()) or table.function(bare) is not None or bool(table.members(bare))


def texts_in(node: ast.expr) -> list[str]:
    """The texts side by side in a collection, a dict's keys, or a text that is split into words."""
    if isinstance(node, (ast.Set, ast.List, ast.Tuple)):
        found = []
        for each in node.elts:
            found += texts_in(each.value) if isinstance(each, ast.Starred) else texts_of(each)
        return found
    if isinstance(node, ast.Dict):
        return [text for key in node.keys if key is not None for text in texts_of(key)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        return [word for text in texts_of(node.func.value) for word in text.split()]
    if isinstance(node, ast.Call) and node.args:  # frozenset((...))
        return texts_in(node.args[0])
    return []


def texts_of(node: ast.expr) -> list[str]:
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def looked_up(tree: ast.Module) -> Iterator[ast.expr]:
    """The collections that are bound at module level or in a class, or in which something is looked up."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef)):
            for statement in node.body:
                if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
                    yield statement.value
        elif isinstance(node, ast.Compare):
            is_option = isinstance(node.left, ast.Attribute) and node.left.attr == "arg"
            for operator, right in zip(node.ops, node.comparators, strict=True) if not is_option else ():
                if isinstance(operator, (ast.In, ast.NotIn)):
                    yield right
                elif isinstance(operator, (ast.LtE, ast.Lt, ast.GtE, ast.Gt)):
                    yield from (node.left, right)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.Sub)):
            yield from (node.left, node.right)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("startswith", "endswith", "isdisjoint", "issubset", "intersection"):
                yield from node.args
        elif isinstance(node, ast.Subscript):
            yield node.value
        elif isinstance(node, (ast.For, ast.comprehension)):
            yield node.iter


def tables_in(source: str, knows_python: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Line and names of each list of names of libraries."""
    seen = set()
    for node in looked_up(ast.parse(source)):
        known = [text for text in texts_in(node) if is_name_of_a_library(text)]
        is_python = knows_python and all(hasattr(builtins, text) for text in known)
        if len(set(known)) > 1 and node not in seen and not is_python:
            seen.add(node)
            yield node.lineno, known


def test_what_is_such_a_list() -> None:
    for source in (
        "NAMES = {'torch.zeros', 'torch.ones'}",
        "NAMES = frozenset('detach cpu numpy'.split())",
        "NAMES = ('numpy.', 'scipy.')",
        "NAMES = {'append': 1, 'extend': 2}",
        "def f(x): return x in ('append', 'extend')",
        "def f(x): return x.startswith(('torch.cuda.', 'torch.nn.'))",
        "def f(x): return x <= {'len', 'isinstance'}",
        "class C:\n    names = ['print', 'input']",
    ):
        assert list(tables_in(source)), source
    for source in (
        "NAMES = {'torch.zeros'}",
        "KEYS = ('body', 'orelse')",
        "def f(x): return ('append', 'extend')",
        "def f(x): return x in ('yes', 'no', 'append')",
        "def f(x): return x.startswith('torch.')",
        "WORDS = 'append and extend'",
        "def f(x): return x.arg in ('sampler', 'shuffle')",
    ):
        assert not list(tables_in(source)), source


@pytest.mark.slow
def test_no_other_module_holds_a_list_of_names() -> None:
    found = {
        name: list(tables_in(Path(path).read_text(encoding="utf-8"), within(name, f"{CODEMOD}.semantics")))
        for name, path in modules().items()
        if within(name, CODEMOD) and not within(name, f"{CODEMOD}.libraries")
    }
    more = {name: tables for name, tables in found.items() if tables}
    assert more == {}, f"ask the table in `libraries/` instead: {more}"
