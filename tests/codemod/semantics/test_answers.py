"""Facts about answers of questions that lead to one another."""

from __future__ import annotations

from accelify.codemod.semantics.answers import Answers

LEADS_TO = {"a": "b", "b": "ac", "c": "", "d": "a", "e": "ff", "f": "e"}


class Asker:
    """Ask what a question leads to; an open one may lead anywhere."""

    def __init__(self, most: int = 9) -> None:
        self.answers: Answers[str, str] = Answers("?", most)
        self.worked_out: list[str] = []

    def of(self, question: str) -> str:
        return self.answers.of(question, lambda: self._work_out(question))

    def _work_out(self, question: str) -> str:
        self.worked_out.append(question)
        return question + "".join(map(self.of, LEADS_TO[question]))


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

    def work_out() -> str:
        with asker.answers.apart():
            return asker.of("b")

    assert asker.answers.of("a", work_out) == "ba?c"
    assert asker.worked_out == ["b", "a", "c"]
