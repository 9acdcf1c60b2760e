"""Comparing numbers of two runs: what rounding alone may do to one, distances of tensors from their sketches."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from accelify.verify.trace import Sketch

# The distance from 1 to the next number of each dtype.
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
# The deviation that any gradient may have however small it is, as a fraction of the gradients of all parameters.
FLOOR = 1e-3
# A gradient that is smaller than this share of all parameters' is zero but for rounding. Units: epsilons.
NOISE = 256

_TIME = re.compile(
    r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?"
    r"|(?:\d+(?:\.\d+)?\s?(?:[Ddhms]|ms)){2,}(?!\w)"
    r"|\d+(?:\.\d+)?\s*(?:ms|s|sec|secs|seconds?|min|minutes?|h|hours?|it/s|s/it)\b(?!\w)"
    r"|(?i:time|took|elapsed|duration|speed|throughput)\W{0,3}\d+(?:\.\d+)?"
)
_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?|\bnan\b|\binf\b")


def tolerance(dtype: str) -> float:
    """How far two numbers may be apart by rounding, relatively: the root of the dtype's epsilon.

    What training makes of it in several steps is measured: see `judging/rounding.py`.
    """
    return math.sqrt(EPSILON.get(dtype, EPSILON["float32"]))


def is_noise(gradient: Sketch, whole: float, dtype: str) -> bool:
    """Whether a gradient is zero but for rounding, next to the norm of all of a step's."""
    return gradient[0] <= NOISE * EPSILON.get(dtype, EPSILON["float32"]) * whole


def same_bits(one: float, other: float) -> bool:
    """Whether two numbers are the same; NaN is the same as NaN."""
    return one == other or (math.isnan(one) and math.isnan(other))


def is_close(one: float, other: float, allowed: float) -> bool:
    """Whether two numbers are at most so far apart, or both no numbers."""
    if not math.isfinite(one) or not math.isfinite(other):
        return same_bits(one, other)
    return abs(one - other) <= allowed


def distance(one: Sketch, other: Sketch) -> float:
    """The distance of two tensors, to within about a third; exactly 0 for equal ones."""
    products = [(a - b) ** 2 for a, b in zip(one[1:], other[1:], strict=True)]
    return math.sqrt(sum(products) / len(products)) if products else abs(one[0] - other[0])


def ratio(one: Sketch, other: Sketch) -> float | None:
    """The factor that turns `one` into `other`, if there is one."""
    down = sum(b * b for b in other[1:])
    if not down or not math.isfinite(down):
        return None
    factor = sum(a * b for a, b in zip(one[1:], other[1:], strict=True)) / down
    rest = math.sqrt(sum((a - factor * b) ** 2 for a, b in zip(one[1:], other[1:], strict=True)) / down)
    return factor if rest < 0.02 * max(abs(factor), 1e-9) else None


def in_words(factor: float) -> str:
    """`half`, `twice`, `0.31 of`."""
    known = {0.5: "half", 2.0: "twice", 0.25: "a quarter of", 4.0: "four times", 3.0: "three times", 0.0: "zero, not"}
    for value, words in known.items():
        if abs(factor - value) < 0.01 * max(value, 0.01):
            return words
    return f"{factor:.3g} of"


def norm(sketches: Sequence[Sketch | None]) -> float:
    """The norm of all tensors together."""
    return math.sqrt(sum(sketch[0] ** 2 for sketch in sketches if sketch is not None))


def mask_times(line: str) -> str:
    """The line without what depends on the clock."""
    return _TIME.sub("#", line)


def numbers_differ(
    one: str,
    other: str,
    relative: float,
    unstable: frozenset[int] | None = frozenset(),
    moved: Sequence[float] = (),
) -> tuple[str, str] | None:
    """The first numbers of two printed lines that are not the same, or None; the words around them must be equal.

    A number with a fraction may be off by the tolerance and by one in its last digit; a whole one not at all.
    unstable: which numbers differ from run to run; None where the words do. moved: by how much each may be off beside.
    """
    if unstable is None:
        return None
    one, other = mask_times(one), mask_times(other)
    if _NUMBER.sub("#", one).split() != _NUMBER.sub("#", other).split():
        return one.strip(), other.strip()
    for index, (ours, theirs) in enumerate(zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)):
        if ours == theirs or index in unstable:
            continue
        a, b = float(ours), float(theirs)
        allowed = moved[index] if index < len(moved) else 0.0
        if "." in ours or "." in theirs:
            allowed += 1.01 * last_digit(theirs) + relative * abs(b)
        if not is_close(a, b, allowed):
            return ours, theirs
    return None


def numbers(line: str, like: str, value: float) -> list[float]:
    """The numbers in a line at the places where another line of the same words has a value."""
    line, like = mask_times(line), mask_times(like)
    if _NUMBER.sub("#", line).split() != _NUMBER.sub("#", like).split():
        return []
    pairs = zip(_NUMBER.findall(line), _NUMBER.findall(like), strict=True)
    return [float(number) for number, other in pairs if float(other) == value]


def values(line: str) -> list[str]:
    """The numbers of a line as they were printed, after times were masked."""
    return _NUMBER.findall(mask_times(line))


def are_apart(one: str, other: str) -> bool:
    """Whether two numbers, as they were printed, differ by more than rounding."""
    a, b = float(one), float(other)
    return one != other and not is_close(a, b, 1.01 * last_digit(other) + 1e-6 * abs(b))


def are_multiples(printed: Sequence[tuple[str, float]]) -> bool:
    """Whether numbers, as they were printed, are all the same multiple of others."""
    known = [(float(text), last_digit(text), other) for text, other in printed]
    value, digit, other = max(known, key=lambda each: abs(each[0]))
    if not value or not other or not all(math.isfinite(each[0]) and math.isfinite(each[2]) for each in known):
        return False
    factor, slack = value / other, digit / abs(other)
    return all(abs(text - factor * by) <= 1.01 * last + slack * abs(by) for text, last, by in known)


def unstable_numbers(one: str, other: str) -> frozenset[int] | None:
    """Which numbers of a line differ between two runs of one script, after times were masked; None: the words do."""
    one, other = mask_times(one), mask_times(other)
    if _NUMBER.sub("#", one).split() != _NUMBER.sub("#", other).split():
        return None
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return frozenset(index for index, (ours, theirs) in enumerate(pairs) if ours != theirs)


def in_numbers(words: tuple[str, str]) -> str:
    """` (half the original's)`, of two numbers as they were printed; nothing where a factor says nothing."""
    try:
        ours, theirs = float(words[0]), float(words[1])
    except ValueError:
        return ""
    if not theirs or not math.isfinite(ours / theirs):
        return ""
    known = in_words(ours / theirs)
    return f" ({known} the original's)" if " of" not in known else ""


def last_digit(number: str) -> float:
    """One in the last digit of a number as it was printed."""
    mantissa, _, exponent = number.lower().partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
