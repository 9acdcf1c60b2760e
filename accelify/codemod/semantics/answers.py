"""Which answers are final, where a question may lead back to one that is still being worked out?

A question that leads back to itself gets `unknown` for an answer. What was worked out from this may be worse than what
the same question gets when it is asked alone, so it serves for as long as the unfinished question is worked on, and is
then forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Question = TypeVar("Question", bound=Hashable)
Answer = TypeVar("Answer")
_NOTHING = 1 << 60  # unfinished: an answer that rests on no open question


class Answers(Generic[Question, Answer]):
    """Answers to questions, each worked out once where it can be.

    unknown: what an open question is answered. most: how many questions may be open at a time.
    """

    def __init__(self, unknown: Answer, most: int) -> None:
        self.unknown = unknown
        self.most = most
        self._final: dict[Question, Answer] = {}
        self._begun = 0
        self._begin_apart()

    def _begin_apart(self) -> None:
        self._open: dict[Question, int] = {}  # each with its number; the outermost has the least
        self._passing: dict[Question, tuple[Answer, int]] = {}  # with the outermost open question that it rests on
        self._passed_on: dict[int, int] = {}  # from an open question that was left unfinished to what it rests on
        self._rests_on = _NOTHING  # what the question that is worked on rests on so far

    def of(self, question: Question, work_out: Callable[[], Answer]) -> Answer:
        """The answer to a question; `work_out` may ask others."""
        if question in self._final:
            return self._final[question]
        if question in self._open:
            self._rests_on = min(self._rests_on, self._open[question])
            return self.unknown
        if len(self._open) > self.most:
            self._rests_on = min(self._rests_on, *self._open.values())
            return self.unknown
        answer, rests_on = self._passing.get(question, (self.unknown, _NOTHING))
        while rests_on in self._passed_on:
            rests_on = self._passed_on[rests_on]
        if rests_on == 0 or rests_on in self._open.values():
            self._rests_on = min(self._rests_on, rests_on)
            return answer
        return self._worked_out(question, work_out)

    def _worked_out(self, question: Question, work_out: Callable[[], Answer]) -> Answer:
        outer, self._rests_on = self._rests_on, _NOTHING
        self._begun += 1
        number = self._open[question] = self._begun
        try:
            answer = work_out()
        finally:
            del self._open[question]
            rests_on, self._rests_on = self._rests_on, outer
        if rests_on >= number:
            self._final[question] = answer
        else:
            self._passing[question] = (answer, rests_on)
            self._passed_on[number] = rests_on
            self._rests_on = min(outer, rests_on)
        return answer

    def rest_on_unfinished(self) -> None:
        """Say that the question that is worked on rests on what is not done, of that which is worked out `apart`."""
        self._rests_on = 0

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Work something out for which the questions that are open count as not asked."""
        before = (self._open, self._passing, self._passed_on, self._rests_on)
        self._begin_apart()
        try:
            yield
        finally:
            self._open, self._passing, self._passed_on, self._rests_on = before
