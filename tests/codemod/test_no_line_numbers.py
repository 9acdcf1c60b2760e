"""What runs first is asked of the control flow: line numbers are compared nowhere else, nor sorted by."""

from __future__ import annotations

import ast

import pytest

from tests.test_architecture import modules, within

CODEMOD = "accelify.codemod"
# The positions themselves, how the text is laid out, and what a user asks or is told about a line.
MAY_COMPARE = ("semantics.control_flow", "files", "edits.concrete", "planning.records", "why")
_FIELDS = {"lineno", "end_lineno"}
_FUNCTIONS = {"line", "line_of", "_line"}


def mentions(node: ast.AST) -> bool:
    """Whether an expression has to do with the number of a line."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and inner.attr in _FIELDS:
            return True
        if isinstance(inner, ast.Constant) and inner.value in _FIELDS:
            return True
        called = inner.func if isinstance(inner, ast.Call) else None
        is_called = isinstance(called, ast.Attribute) and called.attr in _FUNCTIONS
        if is_called or (isinstance(inner, ast.Name) and inner.id in _FUNCTIONS and inner.id != "line"):
            return True
        if isinstance(inner, ast.keyword) and inner.arg == "key" and names_a_line(inner.value):
            return True
    return False


def names_a_line(key: ast.expr) -> bool:
    """`key=program.line`."""
    return isinstance(key, (ast.Attribute, ast.Name)) and ast.unparse(key).rpartition(".")[2] in _FUNCTIONS


def compared(tree: ast.AST) -> list[int]:
    """The lines of a module of ours that compare line numbers, or sort by them."""
    found = []
    for node in ast.walk(tree):
        is_sorted = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
            "sorted",
            "sort",
            "min",
            "max",
        )
        asked: list[ast.AST] = [node] if isinstance(node, ast.Compare) else []
        if is_sorted:
            assert isinstance(node, ast.Call)
            by_key = [k for k in node.keywords if k.arg == "key"]
            asked = list(by_key or node.args)
        if any(map(mentions, asked)):
            found.append(node.lineno)
    return found


def counted() -> dict[str, list[int]]:
    found = {}
    for name, path in modules().items():
        short = name.removeprefix(f"{CODEMOD}.")
        if within(name, CODEMOD) and not any(within(short, part) for part in MAY_COMPARE):
            lines = compared(ast.parse(path.read_bytes()))
            if lines:
                found[short] = lines
    return found


def test_no_module_compares_line_numbers() -> None:
    found = counted()
    assert not found, f"ask `Program.before`, `is_after` or `reaching`; sort by `Program.position`: {found}"


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("a.lineno < b.lineno", 1),
        ("(a.end_lineno or 0) + 8 >= x", 1),
        ("program.line(a) <= end", 1),
        ("sorted(x, key=lambda n: (n.path, n.lineno))", 1),
        ("min(x, key=program.line)", 1),
        ("max(getattr(n, 'lineno', 0) for n in x)", 1),
        ("min(map(_line, reads)) < 3", 1),
        ("Change(path, a.lineno)", 0),
        ("sorted(x, key=program.position)", 0),
    ],
)
def test_what_counts(code: str, number: int) -> None:
    assert sorted(set(compared(ast.parse(code)))) == [1] * number


def test_the_exceptions_exist() -> None:
    assert {f"{CODEMOD}.{part}" for part in MAY_COMPARE} <= set(modules())
