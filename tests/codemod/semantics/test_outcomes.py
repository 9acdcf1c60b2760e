"""Facts about what expressions may come to: every operation includes all that Python could give."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.outcomes import (
    ANYTHING,
    FALSE,
    NEVER,
    NONE,
    TRUE,
    Anything,
    Known,
    Range,
    calculated,
    compared,
    converted,
    either,
    known,
    negated,
    of_truth,
    truth,
)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (TRUE, True),
        (FALSE, False),
        (NONE, False),
        (known(1, 2), True),
        (known(0, 1), None),
        (ANYTHING, None),
        (NEVER, None),
    ],
)
def test_what_counts_as_true(outcome: Known | Anything, expected: bool | None) -> None:
    assert truth(outcome) is expected


def test_values_are_kept_once_and_only_a_few() -> None:
    assert known(1, 1, True) == Known((1, True))
    assert known(*range(100)) is ANYTHING
    assert of_truth(None) == Known((True, False))
    assert either([known(1), known(2)]) == known(1, 2)
    assert either([known(1), ANYTHING]) == ANYTHING
    assert either([]) == NEVER


@pytest.mark.parametrize(
    ("operator", "one", "other", "expected"),
    [
        (ast.Eq, known(1), known(1), True),
        (ast.Eq, known(1), known(2), False),
        (ast.Eq, known(1, 2), known(1), None),
        (ast.Lt, known(1), known(2, 3), True),
        (ast.In, known("a"), known(("a", "b")), True),
        (ast.Is, NONE, known(3), False),
        (ast.Lt, Range(1, 8), known(9), True),
        (ast.Gt, Range(1, 8), known(0), True),
        (ast.Eq, Range(1, None), known(0), False),
        (ast.Eq, Range(1, 8), known(3), None),
        (ast.Eq, ANYTHING, known(1), None),
    ],
)
def test_comparisons(
    operator: type[ast.cmpop], one: Known | Range, other: Known | Range, expected: bool | None
) -> None:
    assert truth(compared(operator(), one, other)) is expected


def test_arithmetic() -> None:
    assert calculated(ast.Add(), known(1), known(2)) == known(3)
    assert calculated(ast.Mult(), known(1, 2), known(3)) == known(3, 6)
    assert calculated(ast.Div(), known(1), known(0)) == NEVER  # Python would raise
    assert calculated(ast.Add(), ANYTHING, known(1)) == ANYTHING
    assert truth(compared(ast.Gt(), calculated(ast.Add(), Range(0, 7), known(1)), known(0))) is True


def test_minus_and_conversions() -> None:
    assert negated(known(1, 2)) == known(-1, -2)
    assert negated(ANYTHING) == ANYTHING
    assert converted("int", known("3")) == known(3)
    assert converted("int", known("x")) == NEVER
    assert truth(converted("bool", known(""))) is False
