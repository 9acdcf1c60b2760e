"""Each gate catches the fault that it is there for: planted here, since no rule makes one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from typing import Any

import libcst as cst
import pytest

from accelify.codemod import rewrite
from accelify.codemod.edits import gates
from accelify.codemod.edits.apply import Applied, apply
from accelify.codemod.edits.concrete import Folded, fold
from accelify.codemod.edits.values import Change, Insert, Remove, Replace
from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.project import Project
from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import Options, rewrite_source
from accelify.codemod.script import Script
from tests.codemod.pairs import migrated, script


def parsed(text: str) -> Parsed:
    return Project({"train.py": text.encode()}).load("train.py")


def applied(before: str, after: str, **found: Any) -> Applied:
    """A file of which nothing is folded, as it was and as it is."""
    return Applied(Folded(before, "    "), after, **found)


def test_a_result_that_does_not_compile_is_caught() -> None:
    assert gates.compiles(parsed("x = 1\n"), "x = 1\nreturn x\n") == "the result does not compile"
    assert gates.compiles(parsed("x = 1\n"), "x = 2\n") is None


def test_a_file_that_never_compiled_is_no_fault_of_ours() -> None:
    assert gates.compiles(parsed("x = 1\nreturn x\n"), "x = 2\nreturn x\n") is None


def test_a_text_that_parses_to_something_else_is_caught() -> None:
    product = cst.BinaryOperation(
        cst.Name("x"), cst.Multiply(), cst.BinaryOperation(cst.Name("a"), cst.Add(), cst.Name("b"))
    )
    meant = cst.Assign([cst.AssignTarget(cst.Name("y"))], product)
    assert cst.Module([]).code_for_node(meant) == "y = x * a + b"
    assert gates.means_the_plan(applied("y = 1\n", "y = x * a + b\n", touched=[meant])) is not None


@pytest.mark.parametrize(
    "text",
    [
        "y = x * (a + b)",
        "f(a, *b, c=d, **e)",
        "for i in g(x)[1:2]: pass",
        "if (a, b) == (c or d): pass",
        "with f(x) as y, g() as z: pass",
        "@d\ndef f(a, /, b: int = 1, *c, e=2, **g) -> int: pass",
        "x, y = [lambda a, b=1: (yield), f'{a!r:>{b}}', {1: 2, **c}, {k: v for k, v in z if v}]",
        "x: int = (yield y)",
        "assert (a := 1), 'no'",
        "class A(B, metaclass=C): pass",
        "return",
        "print(a if b else c, not d, -e ** f, await_(g), a < b <= c)",
    ],
)
def test_a_text_that_parses_to_itself_passes(text: str) -> None:
    module = cst.parse_module(text + "\n")
    node = module.body[0].body[0] if isinstance(module.body[0], cst.SimpleStatementLine) else module.body[0]
    assert gates.means_the_plan(applied("pass\n", "pass\n", touched=[node])) is None


def test_a_text_that_does_not_parse_is_caught() -> None:
    assert "does not parse" in (gates.means_the_plan(applied("y = 1\n", "y = = 1\n")) or "")


def test_a_lost_comment_is_caught_unless_it_is_listed() -> None:
    assert "# why" in (gates.keeps_comments(applied("x = 1  # why\n", "x = 1\n")) or "")
    assert gates.keeps_comments(applied("x = 1  # why\n", "x = 1\n", dropped=["# why"])) is None


def test_one_of_two_equal_comments_is_missed() -> None:
    assert gates.keeps_comments(applied("x = 1  # a\ny = 2  # a\n", "x = 1  # a\ny = 2\n")) is not None


@pytest.mark.parametrize("part", ["x = 2\n", "x = 2\nfolded_0_\nfolded_0_\n"])
def test_a_statement_that_no_edit_touches_and_that_is_gone_or_there_twice_is_caught(part: str) -> None:
    file = parsed("x = 1\nfor y in z:\n    print(y)\n")
    assign = file.tree.body[0]
    assert isinstance(assign, ast.Assign)
    folded = fold(file, [Replace(assign.value, lambda node: node)])
    assert folded.text == "x = 1\nfolded_0_\n"
    assert gates.keeps_the_rest(Applied(folded, folded.text)) is None
    assert "print(y)" in (gates.keeps_the_rest(Applied(folded, part)) or "")


@pytest.mark.parametrize(
    ("before", "after", "trouble"),
    [
        ("import torch\ntorch.x()\n", "import torch\naccelerator.x(torch)\n", "undefined name `accelerator`"),
        ("import torch\ntorch.x()\n", "import torch\nprint(1)\n", "unused import `torch`"),
        ("def f(device):\n    return device\n", "def f(device):\n    return 1\n", "unused parameter"),
        ("def f():\n    a = 1\n    return a\n", "def f():\n    a = 1\n    return 1\n", "unused variable `a`"),
        ("print(1)\nif 1:\n    a = 1\n", "print(a)\nif 1:\n    a = 1\n", "`a` is read before it is there"),
        ("def f():\n    a = 1\n    g(a)\n", "def f():\n    g(a)\n    a = 1\n", "`a` is read before it is there"),
        ("c = 1\nprint(c)\n", "c = 1\nif c:\n    a = 1\nprint(a, c)\n", "`a` may be read before it is there"),
        ("f(c)\n", "def f(c):\n    if c:\n        a = 1\n    print(a)\n", "`a` may be read before it is there"),
    ],
)
def test_a_name_that_dangles_is_caught(before: str, after: str, trouble: str) -> None:
    assert trouble in (gates.binds_its_names(parsed(before), after) or "")


def test_a_name_that_a_star_import_gives_is_there_before_it_is_bound_anew() -> None:
    after = "from nets import *\nprint(net)\nnet = prepare(net)\n"
    assert gates.binds_its_names(parsed("from nets import *\nprint(net)\n"), after) is None
    assert gates.binds_its_names(parsed("from nets import *\nprint(1)\n"), after) == "`net` is read before it is there"


def test_a_name_that_an_earlier_round_gave_a_value_is_there() -> None:
    after = "def f():\n    for i in range(2):\n        print(a) if i else 0\n        a = 1\n"
    assert gates.binds_its_names(parsed("def f():\n    a = 1\n    print(a)\n"), after) is None


def test_a_new_name_that_each_way_binds_is_there() -> None:
    for after in ("if c:\n    a = 1\nelse:\n    raise c\nprint(a)\n", "if c:\n    a = 1\n    print([a for b in c])\n"):
        assert gates.binds_its_names(parsed("c = 1\nprint(c)\n"), f"c = 1\n{after}") is None


def test_what_dangled_before_may_dangle_still() -> None:
    text = "import os\ndef f(a):\n    b = 1\n    return c\n"
    assert gates.binds_its_names(parsed(text), text + "x = 1\n") is None


def planted(monkeypatch: pytest.MonkeyPatch, change: object) -> FileResult:
    """The result for a script when a rule also yields `change(script)`."""
    from accelify.codemod.planning import plan as planning

    def find(found: Script) -> Iterator[Change]:
        yield change(found)  # type: ignore[operator]

    monkeypatch.setattr(planning, "RULES", (*planning.RULES, ("planted", find)))
    return rewrite_source("train.py", script(before="limit = 5  # of steps").encode(), Options())


def statement(found: Script, text: str) -> ast.stmt:
    [node] = [n for p in found.program.files for n in p.parents if isinstance(n, ast.stmt) and ast.unparse(n) == text]
    return node


def insert(code: str, found: Script) -> Change:
    return Change("planted", "train.py", 1, "a fault", (Insert(statement(found, "limit = 5"), "after", code),))


@pytest.mark.parametrize("code", ["return 1", "print(nowhere)", "import os", "from __future__ import annotations"])
def test_no_fault_gets_through_the_pipeline(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = planted(monkeypatch, partial(insert, code))
    assert result.status is Status.DECLINED
    assert result.after == result.before
    assert any("fault of accelify" in note.message for note in result.notes)


def test_the_planted_rule_alone_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    result = planted(monkeypatch, partial(insert, "print(limit)"))
    assert result.status is Status.MIGRATED
    assert b"print(limit)" in result.after


def test_a_comment_that_goes_with_its_statement_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    result = planted(
        monkeypatch, lambda found: Change("planted", "train.py", 1, "x", (Remove(statement(found, "limit = 5")),))
    )
    assert result.status is Status.MIGRATED
    assert any("# of steps" in change.reason for change in result.changes)


def test_an_edit_without_parentheses_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(node: cst.CSTNode) -> cst.BaseExpression:
        return cst.BinaryOperation(
            cst.Integer("2"), cst.Multiply(), cst.BinaryOperation(cst.Integer("1"), cst.Add(), cst.Integer("4"))
        )

    def change(found: Script) -> Change:
        node = statement(found, "limit = 5")
        assert isinstance(node, ast.Assign)
        return Change("planted", "train.py", 1, "x", (Replace(node.value, make),))

    result = planted(monkeypatch, change)
    assert result.status is Status.DECLINED
    assert result.after == result.before


def test_a_second_run_is_part_of_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be changed again is not written."""
    source = script()
    once = rewrite_source("train.py", source.encode(), Options())
    assert once.status is Status.MIGRATED
    assert rewrite_source("train.py", once.after, Options()).status is Status.UNCHANGED
    assert rewrite.rewrite_source is rewrite_source


def test_an_edit_inside_a_replaced_node_is_not_lost() -> None:
    file = parsed("f(g(x))\n")
    outer = next(n for n in file.parents if isinstance(n, ast.Call) and ast.unparse(n) == "f(g(x))")
    inner = next(n for n in file.parents if isinstance(n, ast.Call) and ast.unparse(n) == "g(x)")

    def renamed(name: str, node: cst.CSTNode) -> cst.CSTNode:
        return node.with_changes(func=cst.Name(name))

    edits = (Replace(outer, partial(renamed, "F")), Replace(inner, partial(renamed, "G")))
    assert apply(file, [Change("planted", "train.py", 1, "x", edits)]).text == "F(G(x))\n"


def test_a_new_statement_that_found_no_place_is_caught() -> None:
    assert gates.makes_every_edit(applied("x = 1\n", "x = 1\n", missed=["y = 2"])) == "no place was found for `y = 2`"
    assert gates.makes_every_edit(applied("x = 1\n", "x = 1\n")) is None


def test_what_python_thinks_of_the_users_code_is_not_told(recwarn: pytest.WarningsRecorder) -> None:
    migrated(script(end='if "\\d" is 1: pass'))
    assert not [str(w.message) for w in recwarn]
