"""Folding: what LibCST gets to see of a file, and that all the rest comes back."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import partial

import libcst as cst
import pytest

from accelify.codemod import batch
from accelify.codemod.edits import snippets
from accelify.codemod.edits.apply import apply
from accelify.codemod.edits.concrete import fold
from accelify.codemod.edits.values import AddParameter, Change, Edit, Insert, Remove, Replace
from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.project import Project
from accelify.codemod.result import Status
from accelify.codemod.rewrite import Options
from tests.codemod.pairs import script


def parsed(text: str) -> Parsed:
    return Project({"train.py": text.encode()}).load("train.py")


def edit_here(file: Parsed, kind: Callable[[ast.stmt], Edit]) -> Edit:
    """An edit at the only statement that names `here`."""
    [name] = [n for n in file.parents if isinstance(n, ast.Name) and n.id == "here"]
    return kind(file.statement(name))


def replaced(statement: ast.stmt) -> Edit:
    [name] = [n for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id == "here"]
    return Replace(name, lambda node: cst.Name("there"))


def inserted(statement: ast.stmt) -> Edit:
    return Insert(statement, "before", "there")


TEXTS = {
    "what stands before, and behind": (
        "import a\n\n# c\nx = f(\n    1\n)  # d\ny = here\nz = 1\n",
        "folded_0_  # d\ny = here\nfolded_1_\n",
    ),
    "a block round it": (
        "class A:\n  a = 1\n  def f(self):\n    b = 1\n    here\n    c = 1\n\n  def g(self): pass\nd()",
        "class A:\n  folded_0_\n  def f(self):\n    folded_1_\n    here\n    folded_2_\n\n  folded_3_\nfolded_4_",
    ),
    "every branch": (
        "if a:\n    b\nelif c:\n    d\nelif e:\n    here\n# c\nelse:\n    g\nh\n",
        "if a:\n    folded_0_\nelif c:\n    folded_1_\nelif e:\n    here\n# c\nelse:\n    folded_2_\nfolded_3_\n",
    ),
    "a branch in an else": (
        "if a:\n    b\nelse:\n    if c:\n        here\n",
        "if a:\n    folded_0_\nelse:\n    if c:\n        here\n",
    ),
    "handlers and cases": (
        "try:\n    a\nexcept B:\n    c\nelse:\n    d\nfinally:\n    match e:\n        case 1:\n            f\n"
        "        case _:\n            here\n",
        "try:\n    folded_0_\nexcept B:\n    folded_1_\nelse:\n    folded_2_\nfinally:\n    match e:\n        case 1:\n"
        "            folded_3_\n        case _:\n            here\n",
    ),
    "a head": ("for i in here:\n    a\n    b\nelse:\n    c\n", "for i in here:\n    folded_0_\nelse:\n    folded_1_\n"),
    "decorators": (
        "@a\n@b(\n    c\n)\ndef f():\n    pass\nhere\n# d\n@(\n    e\n)\nclass G:\n    pass\n",
        "folded_0_\nhere\n# d\nfolded_1_\n",
    ),
    "comments that end a block": (
        "def f():\n    a\n    # of f\n\n    # of f too\n  # outside\n# c\nhere\nif b:\n    c\n    # of if\n# d\n",
        "folded_0_\n  # outside\n# c\nhere\nfolded_1_\n# d\n",
    ),
    "statements on one line": (
        "a; b\nc; here; d;\nif e: f; g\nif h: i; j\n",
        "folded_0_\nc; here; d;\nfolded_1_\n",
    ),
    "a one-line block": ("if here: a; b\nc\n", "if here: folded_0_\nfolded_1_\n"),
    "lines that go on": ("a; \\\nb; here\nc = \\\n    d\n", "a; \\\nb; here\nfolded_0_\n"),
    "a name that is taken": ("folded_0_ = 1\nhere\n", "_folded_0_\nhere\n"),
    "letters of several bytes": ("é = 'ü'; here\nœ = 'ß'  # ä\nif é: ö = 'ñ'\n", "é = 'ü'; here\nfolded_0_\n"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_folds_what_an_edit_leaves_as_it_is(name: str) -> None:
    text, expected = TEXTS[name]
    file = parsed(text)
    edit = edit_here(file, replaced)
    folded = fold(file, [edit])
    assert folded.text == expected
    assert folded.unfold(folded.text) == text
    result = apply(file, [Change("planted", "train.py", 1, "x", (edit,))])
    assert result.text == text.replace("here", "there")


def test_a_statement_that_something_is_put_beside_is_folded_by_itself() -> None:
    file = parsed("a\nb\nhere = (\n    c\n)\nd\n")
    edit = edit_here(file, inserted)
    assert fold(file, [edit]).text == "folded_0_\nfolded_1_\nfolded_2_\n"
    assert apply(file, [Change("planted", "train.py", 1, "x", (edit,))]).text == "a\nb\nthere\nhere = (\n    c\n)\nd\n"


def test_a_removed_block_is_not_folded_so_that_its_comments_are_known() -> None:
    file = parsed("a\nif here:\n    b  # why\nc\n")
    edit = edit_here(file, lambda statement: Remove(statement))
    result = apply(file, [Change("planted", "train.py", 1, "x", (edit,))])
    assert (result.text, list(result.dropped)) == ("a\nc\n", ["# why"])


def test_the_body_of_a_function_that_gets_a_parameter_is_folded() -> None:
    file = parsed("def f(a):\n  return here\n")
    edit = AddParameter(file.tree.body[0], "b", 1)  # type: ignore[arg-type]
    assert fold(file, [edit]).text == "def f(a):\n  folded_0_\n"
    assert fold(file, [edit]).indent == "  "
    assert apply(file, [Change("planted", "train.py", 1, "x", (edit,))]).text == "def f(a, b):\n  return here\n"


def test_new_blocks_are_indented_like_the_files_even_where_those_are_folded() -> None:
    file = parsed("if a:\n\tb\nhere\n")
    edit = edit_here(file, lambda statement: Insert(statement, "before", "if c:\n    d"))
    assert apply(file, [Change("planted", "train.py", 1, "x", (edit,))]).text == "if a:\n\tb\nif c:\n\td\nhere\n"


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="Python 3.12 cannot compile such a sum itself")
@pytest.mark.slow
def test_a_sum_that_would_take_libcst_a_minute_is_none_of_its_business() -> None:
    total = " + ".join(["1"] * 3000)
    source = script(before=f"total = {total}").encode()
    [result] = batch.rewrite_stdin("train.py", source, Options()).results()  # which has the stack that `ast` needs
    assert result.status is Status.MIGRATED
    assert f"total = {total}\n".encode() in result.after


def test_what_goes_round_a_call_comes_after_what_changes_it() -> None:
    file = parsed("loader = load(data)\n")
    [call] = [n for n in file.parents if isinstance(n, ast.Call)]
    edits = (
        Replace(call, partial(snippets.passed_to, function="prepare"), keeps=(call,)),
        Replace(call, lambda node: node.with_changes(func=cst.Name("read")), keeps=tuple(call.args)),
    )
    assert apply(file, [Change("prepare", "train.py", 1, "", edits)]).text == "loader = prepare(read(data))\n"
