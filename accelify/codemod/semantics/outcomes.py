"""What may an expression come to: a few known values, a range of whole numbers, some object, or anything at all?

Every operation returns an outcome that includes all that Python could give; where Python would raise, nothing is added.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Generic, TypeVar

Question = TypeVar("Question", bound=Hashable)
_MOST_VALUES = 8
_NOTHING = 1 << 60  # unfinished: an outcome that rests on no open question
_COMPARISONS: dict[type[ast.cmpop], Callable[[object, object], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,  # type: ignore[dict-item]  # values that cannot be compared raise
    ast.LtE: operator.le,  # type: ignore[dict-item]
    ast.Gt: operator.gt,  # type: ignore[dict-item]
    ast.GtE: operator.ge,  # type: ignore[dict-item]
    ast.Is: lambda a, b: a is b or (type(a) is type(b) and a == b),
    ast.IsNot: lambda a, b: not (a is b or (type(a) is type(b) and a == b)),
    ast.In: lambda a, b: a in b,  # type: ignore[operator]
    ast.NotIn: lambda a, b: a not in b,  # type: ignore[operator]
}
_ARITHMETIC: dict[type[ast.operator], Callable[[object, object], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.NotEq: ast.Eq,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.IsNot: ast.Is,
    ast.NotIn: ast.In,
}
_FAILURES = (TypeError, ValueError, ArithmeticError, AttributeError, LookupError)


@dataclass(frozen=True, slots=True)
class Known:
    """One of a few values; of none where the expression cannot be evaluated at all."""

    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """A whole number from `low` to `high` (None: however large), or the text of one."""

    low: int
    high: int | None = None
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Something:
    """An object that is not None; `is_true` where it also counts as true."""

    is_true: bool = True


@dataclass(frozen=True, slots=True)
class Anything:
    """Nothing is known, but perhaps whether it counts as true."""

    is_true: bool | None = None


Outcome = Known | Range | Something | Anything
ANYTHING = Anything()
NEVER = Known(())
TRUE, FALSE, NONE = Known((True,)), Known((False,)), Known((None,))


def known(*values: object) -> Outcome:
    """One of some values, each kept once; `1` and `True` are two."""
    kept: dict[tuple[type, str], object] = {}
    for value in values:
        kept.setdefault((type(value), repr(value)), value)
    return Known(tuple(kept.values())) if len(kept) <= _MOST_VALUES else ANYTHING


def of_truth(truth: bool | None) -> Outcome:
    """True, false, or either."""
    return Known((True, False)) if truth is None else Known((truth,))


def truth(outcome: Outcome) -> bool | None:
    """Whether what an expression comes to counts as true; None where that is not known."""
    if isinstance(outcome, Known):
        truths = {bool(v) for v in outcome.values}
        return truths.pop() if len(truths) == 1 else None
    if isinstance(outcome, Range):
        never_zero = outcome.is_text or outcome.low > 0 or (outcome.high is not None and outcome.high < 0)
        return True if never_zero else None
    if isinstance(outcome, Anything):
        return outcome.is_true
    return True if outcome.is_true else None


def either(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcomes of one of several expressions."""
    found: Outcome = NEVER
    for outcome in outcomes:
        found = _joined(found, outcome)
    return found


def _joined(one: Outcome, other: Outcome) -> Outcome:
    if one == other or other == NEVER:
        return one
    if one == NEVER:
        return other
    if isinstance(one, Known) and isinstance(other, Known):
        return known(*one.values, *other.values)
    if isinstance(one, Something) and isinstance(other, Something):
        return Something(one.is_true and other.is_true)
    a, b = _as_range(one), _as_range(other)
    if a is None or b is None or a.is_text != b.is_text:
        said = truth(one)
        return Anything(said) if said is truth(other) else ANYTHING
    high = None if a.high is None or b.high is None else max(a.high, b.high)
    return Range(min(a.low, b.low), high, a.is_text)


def _as_range(outcome: Outcome) -> Range | None:
    """The range that holds what an expression comes to, if that is always a whole number or the text of one."""
    if isinstance(outcome, Range):
        return outcome
    if not isinstance(outcome, Known) or not outcome.values:
        return None
    values = outcome.values
    if all(isinstance(v, str) and v.lstrip("-").isdigit() for v in values):
        numbers = [int(str(v)) for v in values]
        return Range(min(numbers), max(numbers), is_text=True)
    numbers = [v for v in values if isinstance(v, int)]
    return Range(min(numbers), max(numbers)) if len(numbers) == len(values) else None


def compared(compare: ast.cmpop, one: Outcome, other: Outcome) -> Outcome:
    """The outcomes of `one == other`, `one in other` and their like."""
    kind = type(compare)
    if kind in _OPPOSITE:
        answer = truth(compared(_OPPOSITE[kind](), one, other))
        return of_truth(None if answer is None else not answer)
    if isinstance(one, Known) and isinstance(other, Known):
        return _pairwise(lambda a, b: bool(_COMPARISONS[kind](a, b)), one, other)
    if kind in (ast.Is, ast.Eq) and (_is_none_and_not(one, other) or _is_none_and_not(other, one)):
        return FALSE
    if kind is ast.In and isinstance(other, Known):
        return of_truth(_is_among(one, other))
    a, b = _as_range(one), _as_range(other)
    if a is None or b is None or a.is_text != b.is_text:
        return of_truth(None)
    return of_truth(_ranges_compared(kind, a, b))


def _is_none_and_not(one: Outcome, other: Outcome) -> bool:
    return one == NONE and isinstance(other, (Something, Range))


def _is_among(one: Outcome, others: Known) -> bool | None:
    """Whether a number of a range is in one of some containers."""
    found = set()
    for container in others.values:
        members = list(container) if isinstance(container, (tuple, list, set, frozenset)) else None
        if members is None:
            return None
        equal = [truth(compared(ast.Eq(), one, known(m))) for m in members]
        found.add(True if True in equal else None if None in equal else False)
    return found.pop() if len(found) == 1 else None


def _ranges_compared(kind: type[ast.cmpop], a: Range, b: Range) -> bool | None:
    apart_below = a.high is not None and a.high < b.low
    apart_above = b.high is not None and b.high < a.low
    if kind in (ast.Eq, ast.Is):
        is_one = a.low == a.high == b.low == b.high
        return True if is_one else False if apart_below or apart_above else None
    if a.is_text:
        return None
    if kind is ast.Lt:
        return True if apart_below else False if b.high is not None and b.high <= a.low else None
    if kind is ast.LtE:
        return True if a.high is not None and a.high <= b.low else False if apart_above else None
    return None


def _pairwise(function: Callable[[object, object], object], one: Known, other: Known) -> Outcome:
    pairs = (partial(function, a, b) for a, b in product(one.values, other.values))
    return known(*(v for pair in pairs for v in _unless_it_fails(pair)))


def _unless_it_fails(function: Callable[[], object]) -> tuple[object, ...]:
    try:
        return (function(),)
    except _FAILURES:
        return ()


def calculated(operation: ast.operator, one: Outcome, other: Outcome) -> Outcome:
    """The outcomes of `one + other` and its like."""
    function = _ARITHMETIC.get(type(operation))
    if isinstance(one, Known) and isinstance(other, Known) and function is not None and _are_small(one, other):
        return _pairwise(function, one, other)
    a, b = _as_range(one), _as_range(other)
    if a is None or b is None or a.is_text or b.is_text:
        return ANYTHING
    return _ranges_calculated(operation, a, b)


def _are_small(*outcomes: Known) -> bool:
    """Whether no text or container is so long, and no number so large, that calculating with it costs."""
    return all(
        abs(v) < 1 << 40 if isinstance(v, (int, float)) else isinstance(v, str) and len(v) < 200
        for o in outcomes
        for v in o.values
    )


def _ranges_calculated(operation: ast.operator, a: Range, b: Range) -> Outcome:
    if isinstance(operation, ast.Add):
        return Range(a.low + b.low, None if a.high is None or b.high is None else a.high + b.high)
    if isinstance(operation, ast.Sub) and b.high is not None:
        return Range(a.low - b.high, None if a.high is None else a.high - b.low)
    if isinstance(operation, ast.Mult) and a.low >= 0 and b.low >= 0:
        return Range(a.low * b.low, None if a.high is None or b.high is None else a.high * b.high)
    if isinstance(operation, ast.Mod) and b.low > 0:
        return Range(0, None if b.high is None else b.high - 1)
    if isinstance(operation, ast.FloorDiv) and a.low >= 0 and b.low > 0:
        return Range(0 if b.high is None else a.low // b.high, None if a.high is None else a.high // b.low)
    return ANYTHING


def negated(outcome: Outcome) -> Outcome:
    """The outcomes of `-x`."""
    if isinstance(outcome, Known) and all(isinstance(v, (int, float)) for v in outcome.values):
        return known(*(-v for v in outcome.values if isinstance(v, (int, float))))
    if isinstance(outcome, Range) and outcome.high is not None and not outcome.is_text:
        return Range(-outcome.high, -outcome.low)
    return ANYTHING


def converted(to: str, outcome: Outcome) -> Outcome:
    """The outcomes of `int(x)`, `bool(x)`, `float(x)`, `str(x)`, `abs(x)` and `len(x)`."""
    if to == "bool":
        return of_truth(truth(outcome))
    if isinstance(outcome, Range):
        if to == "str":
            return Range(outcome.low, outcome.high, is_text=True)
        is_kept = to in ("int", "float") or (to == "abs" and outcome.low >= 0)
        return Range(outcome.low, outcome.high) if is_kept else ANYTHING
    functions: dict[str, Callable[[Any], object]] = {"int": int, "float": float, "str": str, "abs": abs, "len": len}
    if isinstance(outcome, Known):
        return known(*(v for value in outcome.values for v in _unless_it_fails(partial(functions[to], value))))
    return Range(0) if to == "len" else Something(is_true=False) if to == "str" else ANYTHING


class Answers(Generic[Question]):
    """The outcomes that were worked out, each once where it can be, though a question may lead back to itself.

    A question that is still open gets `ANYTHING` for an answer. What was worked out from this may say less than what
    the same question gets when it is asked alone, so it serves for as long as the open question is worked on, and is
    then forgotten. most: how many questions may be open at a time.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._final: dict[Question, Outcome] = {}
        self._begun = 0
        self._begin_apart()

    def _begin_apart(self) -> None:
        self._open: dict[Question, int] = {}  # each with its number; the outermost has the least
        self._passing: dict[Question, tuple[Outcome, int]] = {}  # with the outermost open question that it rests on
        self._passed_on: dict[int, int] = {}  # from an open question that was left unfinished to what it rests on
        self._rests_on = _NOTHING  # what the question that is worked on rests on so far

    def of(self, question: Question, work_out: Callable[[], Outcome]) -> Outcome:
        """The answer to a question; `work_out` may ask others."""
        if question in self._final:
            return self._final[question]
        if question in self._open:
            self._rests_on = min(self._rests_on, self._open[question])
            return ANYTHING
        if len(self._open) > self.most:
            self._rests_on = min(self._rests_on, *self._open.values())
            return ANYTHING
        answer, rests_on = self._passing.get(question, (ANYTHING, _NOTHING))
        while rests_on in self._passed_on:
            rests_on = self._passed_on[rests_on]
        if rests_on == 0 or rests_on in self._open.values():
            self._rests_on = min(self._rests_on, rests_on)
            return answer
        return self._worked_out(question, work_out)

    def _worked_out(self, question: Question, work_out: Callable[[], Outcome]) -> Outcome:
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
