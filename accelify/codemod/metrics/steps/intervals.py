"""Which conditions come true at some counts of steps?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from accelify.codemod.files.nodes import walk
from accelify.codemod.metrics.steps.counts import is_threshold
from accelify.codemod.metrics.steps.lengths import has_length
from accelify.codemod.metrics.steps.limits import Limits
from accelify.codemod.metrics.steps.places import goes_over_all


class Intervals:
    """Look at conditions of a script."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._counts = limits.counts
        self._metrics = limits.counts.metrics
        self._program = limits.counts.program

    def intervals(self) -> Iterator[ast.AST]:
        """The conditions in training loops that come true at some counts of steps, but for those that step."""
        for loop in self._metrics.shared_loops:
            for node in walk(loop):
                steps = isinstance(node, ast.If) and any(
                    self._program.inside(s, node) for s in self._metrics.measured.training.steps
                )
                is_asked = isinstance(node, (ast.If, ast.While)) and not steps and self._counts.is_at_counts(node.test)
                if is_asked and not goes_over_all(self._metrics, node, loop):
                    yield node

    def phases(self) -> Iterator[ast.expr]:
        """The conditions under which training begins or stops to take some of its steps: `if step > 500:`."""
        ends = {limit.test for limit in self._limits.conditions()}
        choices = (n for parsed in self._program.files for n in parsed.nodes if isinstance(n, ast.If))
        for choice in (c for c in choices if c.test not in ends):
            compared = [n for n in walk(choice.test) if isinstance(n, ast.Compare) and is_threshold(n)]
            if any(map(self._counts.is_at_counts, compared)) and self._steps(choice):
                yield choice.test

    def _steps(self, choice: ast.If) -> bool:
        """Whether a branch learns, or steps an optimizer."""
        steps = self._metrics.measured.training.steps
        return self._limits.trains(choice) or any(self._program.inside(s, choice) for s in steps)

    def checks(self) -> Iterator[ast.stmt]:
        """The assertions about the number of batches, and the conditions on it that raise an error."""
        for node in (n for parsed in self._program.files for n in parsed.parents if _is_check(n)):
            parts = [n for n in walk(node.test) if isinstance(n, ast.expr)]
            is_of_length = any(has_length(self._metrics, part) for part in parts)
            is_reached = self._program.frame(node) in self._program.reachable
            if is_reached and is_of_length and self._counts.is_at_counts(node.test):
                yield node


def _is_check(node: ast.AST) -> TypeGuard[ast.Assert | ast.If]:
    """Whether a statement is an assertion, or a condition that raises an error in a branch."""
    branches = (node.body, node.orelse) if isinstance(node, ast.If) else ()
    return isinstance(node, ast.Assert) or any(b and isinstance(b[-1], ast.Raise) for b in branches)
