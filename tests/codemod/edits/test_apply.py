"""Facts about applying edits: each kind alone, and what happens to comments and blank lines round it."""

from __future__ import annotations

import ast

import libcst as cst
import pytest

from accelify.codemod.edits import snippets
from accelify.codemod.edits.apply import Applied, apply
from accelify.codemod.edits.values import (
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
from tests.codemod.facts import Facts


def applied(facts: Facts, *edits: Edit) -> Applied:
    return apply(facts.files[0], [Change("test", "main.py", 1, "why", edits)])


def passed(node: cst.CSTNode) -> cst.CSTNode:
    return snippets.passed_to(node, "g")


def test_nothing_to_do() -> None:
    facts = Facts("a  =  1 # x\n\n\n\nb\n")
    assert applied(facts).text == facts.files[0].text


def test_an_expression_is_replaced_and_gets_what_is_replaced_inside_it() -> None:
    facts = Facts("y = f(x)\n")
    result = applied(facts, Replace(facts["x"], passed), Replace(facts["f(x)"], passed))
    assert result.text == "y = g(f(g(x)))\n"


def test_removed_statements_and_their_comments() -> None:
    facts = Facts("a()\n\n# of b\nb()  # at b\n\nc()\n")
    result = applied(facts, Remove(facts.files[0].tree.body[1]))
    assert result.text == "a()\n\nc()\n"
    assert sorted(result.dropped) == ["# at b", "# of b"]


def test_comments_above_a_statement_stay_with_what_comes_in_its_place() -> None:
    facts = Facts("a()\n\n# Part 2\nif b:\n    # with b\n    c()\n\nd()\n")
    at = facts.files[0].tree.body[1]
    result = applied(facts, Remove(at), Insert(at, "after", "e()"))
    assert result.text == "a()\n\n# Part 2\ne()\n\nd()\n"
    assert result.dropped == ["# with b"]


def test_comments_above_a_statement_go_where_another_change_comes_in_its_place() -> None:
    facts = Facts("a()\n\n# of b\nb()\n\nc()\n")
    at = facts.files[0].tree.body[1]
    changes = [Change("test", "main.py", 1, "why", (edit,)) for edit in (Remove(at), Insert(at, "after", "e()"))]
    result = apply(facts.files[0], changes)
    assert (result.text, result.dropped) == ("a()\n\ne()\n\nc()\n", ["# of b"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if x:\n    b()\nelse:\n    a()\n", "if x:\n    b()\n"),
        ("if x:\n    b()\nelif y:\n    c()\nelse: a()\n", "if x:\n    b()\nelif y:\n    c()\n"),
        ("for i in x:\n    b()\nelse:\n    a()\nc()\n", "for i in x:\n    b()\nc()\n"),
        ("if x:\n    b()\nelse:\n    a()\n    # and\n", "if x:\n    b()\nelse:\n    pass\n    # and\n"),
        ("if x:\n    b()\nelse:\n    a()\n    c()\n", "if x:\n    b()\nelse:\n    c()\n"),
        ("if x:\n    b()\nelif y:\n    a()\n", "if x:\n    b()\nelif y:\n    pass\n"),
    ],
)
def test_an_else_with_nothing_left_in_it_goes(before: str, after: str) -> None:
    facts = Facts(before)
    assert applied(facts, Remove(facts.program.statement(facts["a()"]))).text == after


def test_the_last_statement_of_a_block_leaves_a_pass() -> None:
    facts = Facts("if x:\n    a()\nb()\n")
    assert applied(facts, Remove(facts.program.statement(facts["a()"]))).text == "if x:\n    pass\nb()\n"


def test_one_of_several_statements_on_a_line() -> None:
    facts = Facts("a(); b(); c()\n")
    assert applied(facts, Remove(facts.program.statement(facts["c()"]))).text == "a(); b()\n"


def test_new_statements() -> None:
    facts = Facts("if x:\n\ta()\n")
    at = facts.program.statement(facts["a()"])
    result = applied(facts, Insert(at, "before", "b()"), Insert(at, "after", "if y:\n    c()"))
    assert result.text == "if x:\n\tb()\n\ta()\n\tif y:\n\t\tc()\n"
    assert result.missed == []


def test_new_statements_in_order_and_with_a_gap() -> None:
    facts = Facts("a()\nb()\n")
    at = facts.program.statement(facts["a()"])
    result = applied(facts, Insert(at, "after", "second()", gap=1, order=2), Insert(at, "after", "first()", order=1))
    assert result.text == "a()\nfirst()\n\nsecond()\n\nb()\n"


@pytest.mark.parametrize(
    ("between", "after"), [("", "a()\nwait()\nb()\n"), ("c()\n", "a()\nwait()\nc()\nwait()\nb()\n")]
)
def test_the_same_statement_is_not_put_twice_in_succession(between: str, after: str) -> None:
    facts = Facts(f"a()\n{between}b()\n")
    first, last = (facts.program.statement(facts[text]) for text in ("a()", "b()"))
    result = applied(facts, Insert(first, "after", "wait()"), Insert(last, "before", "wait()"))
    assert (result.text, result.missed) == (after, [])


def test_the_same_import_is_not_put_twice_in_succession() -> None:
    facts = Facts("import a, b\nb()\n")
    first = facts.statement("import a, b")
    result = applied(facts, *(Insert(first, "after", "import c", order=order) for order in (0, 1)))
    assert result.text == "import a, b\nimport c\nb()\n"


@pytest.mark.parametrize(
    ("before", "place", "code", "after"),
    [
        ("a(); b()  # c\n", "after", "d()", "a()\nd()\nb()  # c\n"),
        ("# c\na(); b()\n", "before", "d()", "# c\nd()\na(); b()\n"),
        ("b(); a(); e()\n", "before", "d()", "b()\nd()\na(); e()\n"),
        ("b(); a()\n", "after", "d()", "b(); a()\nd()\n"),
        ("def f():\n    a(); b(); e()\n", "after", "d()", "def f():\n    a()\n    d()\n    b(); e()\n"),
        ("a(); b()\n", "after", "import d", "a(); b()\nimport d\n"),
    ],
)
def test_a_new_statement_comes_between_those_of_a_line(before: str, place: str, code: str, after: str) -> None:
    facts = Facts(before)
    assert applied(facts, Insert(facts.program.statement(facts["a()"]), place, code)).text == after


def test_a_new_statement_in_the_place_of_one_on_a_line() -> None:
    facts = Facts("a(); b(); c()\n")
    gone = facts.program.statement(facts["b()"])
    assert applied(facts, Remove(gone), Insert(gone, "after", "d()")).text == "a()\nd()\nc()\n"
    assert applied(facts, Remove(gone)).text == "a(); c()\n"


def test_an_import_comes_before_what_else_parts_its_line() -> None:
    facts = Facts("import a; b()\n")
    first = facts.program.statement(facts["import a"])
    new = [Insert(first, "after", "import d"), Insert(first, "after", "d.e()", order=1)]
    assert applied(facts, *new).text == "import a\nimport d\nd.e()\nb()\n"


def test_names_of_an_import() -> None:
    facts = Facts("from a import b, c as d, e\nimport f\n")
    first, second = facts.files[0].tree.body
    assert isinstance(first, ast.ImportFrom)
    assert isinstance(second, ast.Import)
    assert applied(facts, DropNames(first, ("d", "e"))).text == "from a import b\nimport f\n"
    assert applied(facts, DropNames(first, ("b", "d", "e")), DropNames(second, ("f",))).text.strip() == ""


@pytest.mark.parametrize(
    ("before", "position", "after"),
    [
        ("def f(): pass\n", 0, "def f(new): pass\n"),
        ("def f(a, b=1): pass\n", 1, "def f(a, new, b=1): pass\n"),
        ("def f(self, *, a): pass\n", 1, "def f(self, new, *, a): pass\n"),
        ("def f(\n    a,\n    b,\n): pass\n", 0, "def f(\n    new,\n    a,\n    b,\n): pass\n"),
        ("def f(a,\n      b): pass\n", 2, "def f(a,\n      b, new): pass\n"),
        ("def f(\n    a,  # x\n    b,  # y\n    ): 1\n", 2, "def f(\n    a,  # x\n    b,  # y\n    new,\n    ): 1\n"),
        ("def f(\n    a,  # x\n    b  # y\n): 1\n", 2, "def f(\n    a,  # x\n    b,  # y\n    new\n): 1\n"),
        ("def f(\n    a=1,  # x\n): 1\n", 1, "def f(\n    a=1,  # x\n    new=None,\n): 1\n"),
        ("def f(a,\n      b,  # y\n      *, c): 1\n", 2, "def f(a,\n      b,  # y\n      new,\n      *, c): 1\n"),
    ],
)
def test_a_parameter_more(before: str, position: int, after: str) -> None:
    facts = Facts(before)
    function = facts["def f"]
    assert isinstance(function, ast.FunctionDef)
    assert applied(facts, AddParameter(function, "new", position)).text == after


def test_a_parameter_less_or_renamed() -> None:
    facts = Facts("def f(a, b, *, c=1): pass\nf(1, 2, c=3)\n")
    function = facts["def f"]
    assert isinstance(function, ast.FunctionDef)
    assert applied(facts, DropParameter(function, "b")).text.startswith("def f(a, *, c=1)")
    assert applied(facts, DropParameter(function, "c")).text.startswith("def f(a, b): pass")
    assert applied(facts, AddParameter(function, "new", 0, instead_of="a")).text.startswith("def f(new, b, *, c=1)")
    assert applied(facts, AddParameter(function, "new", 0, instead_of="c")).text.startswith("def f(a, b, *, new=None)")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(*, b): pass\n", "def f(): pass\n"),
        ("def f(a, *, b, **c): pass\n", "def f(a, **c): pass\n"),
        ("def f(a, *, b, c): pass\n", "def f(a, *, c): pass\n"),
        ("def f(a, *rest, b): pass\n", "def f(a, *rest): pass\n"),
        ("def f(\n    a,\n    *,\n    b,\n): pass\n", "def f(\n    a,\n): pass\n"),
    ],
)
def test_a_keyword_less(before: str, after: str) -> None:
    facts = Facts(before)
    function = facts["def f"]
    assert isinstance(function, ast.FunctionDef)
    assert applied(facts, DropParameter(function, "b")).text == after


def test_an_argument_less() -> None:
    facts = Facts("f(1, 2, c=3)\n")
    call = facts.call("f(1")
    assert applied(facts, DropArgument(call, call.args[1])).text == "f(1, c=3)\n"
    assert applied(facts, DropArgument(call, call.keywords[0].value)).text == "f(1, 2)\n"


def test_a_branch_takes_the_place_of_its_condition() -> None:
    facts = Facts("if x:\n    a()  # first\n    b()\nelse:\n    c()  # other\nd()\n")
    choice = facts["if x"]
    assert isinstance(choice, ast.If)
    kept = applied(facts, Unwrap(choice, is_body=True))
    assert kept.text == "a()  # first\nb()\nd()\n"
    assert kept.dropped == ["# other"]
    assert applied(facts, Unwrap(choice, is_body=False)).text == "c()  # other\nd()\n"


def test_a_block_takes_the_place_of_its_with() -> None:
    facts = Facts("# above\nwith x():  # gone\n    # first\n    a()\n\n    b()\nc()\n")
    block = facts["with x()"]
    assert isinstance(block, ast.With)
    kept = applied(facts, Unwrap(block, is_body=True))
    assert kept.text == "# above\n# first\na()\n\nb()\nc()\n"
    assert kept.dropped == ["# gone"]


ELIF = "if x:\n    a()  # first\n# why\nelif y:\n    b()  # other\nelse:\n    c()\nd()\n"


@pytest.mark.parametrize(
    ("choice", "after", "dropped"),
    [
        ({"x": False}, "# why\nif y:\n    b()  # other\nelse:\n    c()\nd()\n", ["# first"]),
        ({"y": True}, "if x:\n    a()  # first\n# why\nelse:\n    b()  # other\nd()\n", []),
        ({"y": False}, "if x:\n    a()  # first\n# why\nelse:\n    c()\nd()\n", ["# other"]),
        ({"x": False, "y": False}, "# why\nc()\nd()\n", ["# first", "# other"]),
        ({"x": False, "y": True}, "# why\nb()  # other\nd()\n", ["# first"]),
        ({"y": None}, "if x:\n    a()  # first\nd()\n", ["# other", "# why"]),
        ({"x": False, "y": None}, "d()\n", ["# first", "# other", "# why"]),
    ],
)
def test_an_elif_is_the_condition_or_otherwise(choice: dict[str, bool | None], after: str, dropped: list[str]) -> None:
    facts = Facts(ELIF)
    nodes = {ast.unparse(n.test): n for n in facts.program.files[0].nodes if isinstance(n, ast.If)}
    edits = [Remove(nodes[name]) if taken is None else Unwrap(nodes[name], taken) for name, taken in choice.items()]
    found = applied(facts, *edits)
    assert found.text == after
    assert sorted(found.dropped) == dropped


def test_an_if_whose_body_goes_is_negated() -> None:
    facts = Facts("if x:\n    a()\nelse:\n    b()\n")
    assert applied(facts, Remove(facts.program.statement(facts["a()"]))).text == "if not x:\n    b()\n"


def test_statements_under_a_header() -> None:
    facts = Facts("a()\nb()\n# of c\nc()\nd()\n")
    _, second, third, _ = facts.files[0].tree.body
    assert (
        applied(facts, Wrap((second, third), "if main:")).text == "a()\nif main:\n    b()\n    # of c\n    c()\nd()\n"
    )


def test_a_statement_with_no_place_is_missed() -> None:
    facts = Facts("def f(): pass\n")
    inner = facts["pass"]
    assert isinstance(inner, ast.stmt)
    result = applied(facts, Insert(inner, "before", "a()"))
    assert "a()" in result.text or result.missed == ["a()"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a(); b(); c(); d()  # e\n", "a()\nif main:\n    b()\n    c()\nd()  # e\n"),
        ("b(); c(); d()\n", "if main:\n    b()\n    c()\nd()\n"),
        ("# f\na(); b(); c()  # e\n", "# f\na()\nif main:\n    b()\n    c()  # e\n"),
        ("if x: a(); b(); c()\n", "if x:\n    a()\n    if main:\n        b()\n        c()\n"),
        ("if x:\n    b(); c()\n    d()\n", "if x:\n    if main:\n        b(); c()\n    d()\n"),
    ],
)
def test_some_statements_of_a_line_get_a_header(before: str, after: str) -> None:
    facts = Facts(before)
    run = tuple(facts.program.statement(facts[text]) for text in ("b()", "c()"))
    assert applied(facts, Wrap(run, "if main:")).text == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# why\nif a or b:  # then\n    c()\n", "# why\nif main and (a or b):  # then\n    c()\n"),
        ("if(a): c()\n", "if main and (a): c()\n"),
        ("if (n := f()) > 2:\n    c(n)\n", "if main and (n := f()) > 2:\n    c(n)\n"),
        ("if a:\n    c()\nelse:\n    d()\n", "if main:\n    if a:\n        c()\n    else:\n        d()\n"),
        (f"if {'a' * 80}:\n    c()\n", f"if main:\n    if {'a' * 80}:\n        c()\n"),
        ("while a:\n    c()\n", "if main:\n    while a:\n        c()\n"),
    ],
)
def test_a_condition_that_is_wrapped_alone(before: str, after: str) -> None:
    facts = Facts(before)
    assert applied(facts, Wrap((facts.files[0].tree.body[0],), "if main:")).text == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "if a:\n    c()\n# why\nelif b:  # then\n    d()\n",
            "if a:\n    c()\n# why\nelif main and b:  # then\n    d()\n",
        ),
        (
            "if a:\n    c()\nelif b:\n    d()\nelse:\n    e()\n",
            "if a:\n    c()\nelif main:\n    if b:\n        d()\n    else:\n        e()\n",
        ),
        (
            "if a:\n    c()\nelif x:\n    e()\nelif b or c:\n    d()\n",
            "if a:\n    c()\nelif x:\n    e()\nelif main and (b or c):\n    d()\n",
        ),
        ("if a:\n    c()\nelse:\n    if b:\n        d()\n", "if a:\n    c()\nelse:\n    if main and b:\n        d()\n"),
    ],
)
def test_an_elif_gets_a_header(before: str, after: str) -> None:
    facts = Facts(before)
    branch = next(n for n in ast.walk(facts.files[0].tree) if isinstance(n, ast.If) and "b" in ast.unparse(n.test))
    assert applied(facts, Wrap((branch,), "if main:")).text == after


def test_an_elif_in_a_context_is_a_block() -> None:
    facts = Facts("if a:\n    c()\nelif b:\n    d()\n")
    wrap = Wrap((facts.files[0].tree.body[0].orelse[0],), "with main():")
    assert applied(facts, wrap).text == "if a:\n    c()\nelse:\n    with main():\n        if b:\n            d()\n"


def test_statements_beside_an_elif() -> None:
    facts = Facts("if a:\n    c()\nelif b:\n    d()\n")
    branch = facts.files[0].tree.body[0].orelse[0]
    edits = [Insert(branch, "before", "wait()"), Insert(branch, "after", "meet()")]
    after = "if a:\n    c()\nelse:\n    wait()\n    if b:\n        d()\n    meet()\n"
    assert applied(facts, *edits).text == after


def test_a_condition_in_a_context() -> None:
    facts = Facts("if a:\n    c()\n")
    assert (
        applied(facts, Wrap((facts.files[0].tree.body[0],), "with main():")).text
        == "with main():\n    if a:\n        c()\n"
    )


def test_a_header_without_a_place_is_missed() -> None:
    facts = Facts("if a:\n    c()\nelif b:\n    d()\n")
    branch = facts.files[0].tree.body[0].orelse[0]
    assert applied(facts, Unwrap(branch, is_body=True), Wrap((branch,), "if main:")).missed == ["if main:"]


def test_a_header_of_removed_statements_is_not_missed() -> None:
    facts = Facts("a()\nb()\n")
    statement = facts.program.statement(facts["b()"])
    assert applied(facts, Remove(statement), Wrap((statement,), "if main:")).missed == []
