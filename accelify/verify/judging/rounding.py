"""How far may two runs be apart? As far as the original moves when its parameters are perturbed by rounding.

Training amplifies rounding, by how much nobody knows beforehand; so it is measured, tensor by tensor and step by step,
in runs of the original that are perturbed. Without such runs, nothing is allowed for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, zip_longest

from accelify.verify import compare
from accelify.verify.judging.evidence import Evidence
from accelify.verify.trace import Step, Trace

# How often the original is perturbed, and how many times further than it moved then two runs may be apart: rounding
# that comes about otherwise moves it otherwise.
RUNS = 2
MARGIN = 10


class Rounding:
    """What the perturbed runs allow for; a quantity may move as far as it did at any step up to then."""

    def __init__(self, evidence: Evidence) -> None:
        self._baseline = evidence.baseline
        self._runs = evidence.perturbed

    def of_losses(self) -> Sequence[float]:
        """By how much the loss of each backward pass may differ."""
        theirs = self._baseline.ranks[0].losses
        return _up_to_each(
            [[abs(a - b) for a, b in zip(run.ranks[0].losses, theirs, strict=False)] for run in self._runs]
        )

    def of_gradients(self) -> Sequence[Sequence[float]]:
        """By how much each gradient of each step may differ."""
        steps = self._baseline.ranks[0].steps
        columns: dict[tuple[int, int], list[list[float]]] = {}
        for run in self._runs:
            for key, distances in _distances(run.ranks[0].steps, steps).items():
                columns.setdefault(key, []).append(distances)
        allowed = {key: _up_to_each(distances) for key, distances in columns.items()}
        counts: dict[int, int] = {}
        found = []
        for step in steps:
            index = counts.setdefault(step.optimizer, 0)
            counts[step.optimizer] += 1
            keys = [(step.optimizer, number) for number in range(len(step.gradients))]
            found.append([(allowed.get(key, ()) or (0.0,))[: index + 1][-1] for key in keys])
        return found

    def of_parameters(self, optimizer: int, chosen: Sequence[int]) -> float:
        """By how much these of an optimizer's parameters may differ together after the last step."""
        last = _last(self._baseline.ranks[0], optimizer)
        found = 0.0
        for run in self._runs:
            other = _last(run.ranks[0], optimizer)
            if last is not None and other is not None and len(other.sketches) == len(last.sketches):
                apart = [compare.distance(last.sketches[index], other.sketches[index]) for index in chosen]
                found = max(found, _finite(math.sqrt(sum(each**2 for each in apart))))
        return MARGIN * found

    def of_line(self, index: int) -> Sequence[float]:
        """By how much each number of a line that the original prints may differ."""
        lines = [run.ranks[0].prints for run in (self._baseline, *self._runs)]
        texts = [prints[index].text for prints in lines if index < len(prints)]
        return of_texts(texts)


def of_texts(texts: Sequence[str]) -> Sequence[float]:
    """By how much each number of a line may differ, of which these are the original's and the perturbed runs'."""
    first, *others = ([float(number) for number in compare.values(text)] for text in texts)
    same = [other for other in others if len(other) == len(first)]
    return [
        MARGIN * max((_finite(abs(o - each)) for o in column), default=0.0)
        for each, *column in zip(first, *same, strict=True)
    ]


def _distances(steps: Sequence[Step], originals: Sequence[Step]) -> dict[tuple[int, int], list[float]]:
    """How far each gradient of an optimizer is from the original's, step by step."""
    found: dict[tuple[int, int], list[float]] = {}
    for step, original in zip(steps, originals, strict=False):
        for number, (a, b) in enumerate(zip(step.gradients, original.gradients, strict=False)):
            distance = compare.distance(a, b) if a is not None and b is not None else 0.0
            found.setdefault((original.optimizer, number), []).append(distance)
    return found


def _up_to_each(runs: Sequence[Sequence[float]]) -> list[float]:
    """The largest of all runs up to each place, with the margin."""
    largest = (MARGIN * max(map(_finite, column)) for column in zip_longest(*runs, fillvalue=0.0))
    return list(accumulate(largest, max))


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _last(trace: Trace, optimizer: int) -> Step | None:
    return next((step for step in reversed(trace.steps) if step.optimizer == optimizer), None)
