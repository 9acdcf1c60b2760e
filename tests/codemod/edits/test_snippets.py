"""Facts about new code: parts keep their meaning, and it takes the shape of the file."""

from __future__ import annotations

import libcst as cst
import pytest

from accelify.codemod.edits.snippets import (
    bare,
    call_statement,
    chosen,
    coded,
    comma_like,
    expression,
    passed_to,
    quoted_as,
    statements,
    with_last,
)


def code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


def parsed(text: str) -> cst.BaseExpression:
    return cst.parse_expression(text)


def test_a_template_is_filled() -> None:
    made = expression("accelerator.backward({loss})", loss=parsed("f(x)"))
    assert code(made) == "accelerator.backward(f(x))"


@pytest.mark.parametrize(
    ("template", "part", "whole"),
    [
        ("{part} * 2 + 1", "a + b", "(a + b) * 2 + 1"),
        ("{part} * 2 + 1", "a * b", "a * b * 2 + 1"),
        ("1 - {part}", "a - b", "1 - (a - b)"),
        ("{part} - 1", "a - b", "a - b - 1"),
        ("1 - {part}", "lambda: a", "1 - (lambda: a)"),
        ("{part} if ready else 1", "a if b else c", "(a if b else c) if ready else 1"),
        ("f({part})", "a if b else c", "f(a if b else c)"),
        ("{part} * 2", "(a + b)", "(a + b) * 2"),
    ],
)
def test_a_part_does_not_fall_apart(template: str, part: str, whole: str) -> None:
    assert code(expression(template, part=parsed(part))) == whole


def test_several_parts_and_names_that_look_like_holes() -> None:
    made = expression("f({a}, a, {b})", a=parsed("b"), b=parsed("a"))
    assert code(made) == "f(b, a, a)"


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        ("(a)", "g(a)"),
        ("a", "g(a)"),
        *((part, f"g({part})") for part in ("(a, b)", "(x for x in y)", "(yield)", "(a := 1)", "(  # why\n  a)")),
    ],
)
def test_an_argument_loses_parentheses_that_it_does_not_need(part: str, whole: str) -> None:
    assert code(passed_to(parsed(part), "g")) == whole
    assert code(bare(parsed(part))) == whole[2:-1]


def test_code_for_another_expression_keeps_its_parentheses() -> None:
    assert code(coded(parsed("(a)"), "b + c")) == "(b + c)"
    assert code(coded(parsed("a"), "b")) == "b"


def test_a_branch_of_a_conditional_expression() -> None:
    assert code(chosen(parsed("a if b else c"), is_body=True)) == "a"
    assert code(chosen(parsed("a if b else c"), is_body=False)) == "c"


def test_statements_get_the_indentation_of_the_file() -> None:
    made = statements("if a:\n    if b:\n        c", "\t")
    assert code(cst.Module(made)) == "if a:\n\tif b:\n\t\tc\n"
    assert statements("", "    ") == []


def test_comments_and_blank_lines_above_the_first_statement_stay() -> None:
    assert code(cst.Module(statements("\n# why\na = 1", "    "))) == "\n# why\na = 1\n"


def test_a_long_call_is_broken() -> None:
    assert call_statement("a", "f", "b, c") == "a = f(b, c)"
    assert call_statement("", "f", "b") == "f(b)"
    assert call_statement("a", "f", "b" * 90) == f"a = f(\n    {'b' * 90}\n)"
    assert call_statement("a", "f", ["b", "c" * 80]) == f"a = f(\n    b, {'c' * 80}\n)"
    assert call_statement("a", "f", ["b", "c" * 90]) == f"a = f(\n    b,\n    {'c' * 90},\n)"
    assert "\n" in call_statement("a", "f", "b" * 60, indent=30)


def test_quotes_are_those_of_the_file() -> None:
    assert quoted_as('a = "x"', "b = 'y'") == 'b = "y"'
    assert quoted_as("a = 'x'", "b = 'y'") == "b = 'y'"
    assert quoted_as('a = "x"', "b = '\"'") == "b = '\"'"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()", "f(new)"),
        ("f(\n    a,\n    b,\n)", "f(\n    a,\n    b,\n    new,\n)"),
        ("f(\n    a,\n    b,  # why\n)", "f(\n    a,\n    b,  # why\n    new,\n)"),
        ("f(\n    a,  # why\n    b  # what\n)", "f(\n    a,  # why\n    b,  # what\n    new\n)"),
        ("f(\n    a,\n    b,  # why\n    # c,\n)", "f(\n    a,\n    b,  # why\n    # c,\n    new,\n)"),
        ("f(\n    a,  # why\n)", "f(\n    a,  # why\n    new,\n)"),
        ("f(\n    a, b,  # why\n)", "f(\n    a, b,  # why\n    new,\n)"),
        ("f(a, b,  # why\n)", "f(a, b, new,  # why\n)"),
        ("f(a,  # why\n  b)", "f(a,  # why\n  b,\n  new)"),
    ],
)
def test_an_argument_at_the_end(before: str, after: str) -> None:
    call = parsed(before)
    assert isinstance(call, cst.Call)
    assert code(with_last(call, cst.Arg(parsed("new")))) == after


def test_a_comma_that_ends_its_line() -> None:
    call = parsed("f(\n    a,  # why\n    b)")
    assert isinstance(call, cst.Call)
    assert code(comma_like(call.args[0].comma)) == ",\n    "
    assert code(comma_like(cst.MaybeSentinel.DEFAULT)) == ", "
