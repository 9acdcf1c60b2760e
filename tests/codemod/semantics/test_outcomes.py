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
    Answers,
    Anything,
    Known,
    Outcome,
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


# Questions that lead to one another.

LEADS_TO = {"a": "b", "b": "ac", "c": "", "d": "a", "e": "ff", "f": "e"}


class Asker:
    """Ask what a question leads to; an open one may lead anywhere."""

    def __init__(self, most: int = 9) -> None:
        self.answers: Answers[str] = Answers(most)
        self.worked_out: list[str] = []

    def of(self, question: str) -> str:
        found = self.answers.of(question, lambda: self._work_out(question))
        return str(found.values[0]) if isinstance(found, Known) else "?"

    def _work_out(self, question: str) -> Outcome:
        self.worked_out.append(question)
        return known(question + "".join(map(self.of, LEADS_TO[question])))


def test_an_answer_is_worked_out_once() -> None:
    asker = Asker()
    assert [asker.of("c"), asker.of("c")] == ["c", "c"]
    assert asker.worked_out == ["c"]


def test_what_rests_on_an_unfinished_question_is_not_kept() -> None:
    asker = Asker()
    assert asker.of("a") == "ab?c"
    assert asker.of("b") == "bab?cc"  # what it was told of `a` before is no longer unfinished
    assert asker.worked_out == ["a", "b", "c", "b"]  # `c` rests on nothing


def test_it_serves_while_that_question_is_worked_on() -> None:
    asker = Asker()
    assert asker.of("e") == "ef?f?"
    assert asker.worked_out == ["e", "f"]


def test_too_many_open_questions() -> None:
    asker = Asker(most=1)
    assert asker.of("d") == "da?"
    assert asker.of("a") == "ab??"


def test_apart() -> None:
    asker = Asker()

    def work_out() -> Outcome:
        with asker.answers.apart():
            return known(asker.of("b"))

    assert asker.answers.of("a", work_out) == known("ba?c")
    assert asker.worked_out == ["b", "a", "c"]
