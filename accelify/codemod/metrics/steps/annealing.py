"""What of a loss follows a count of steps?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.steps.counts import StepCounts, is_threshold
from accelify.codemod.semantics.definitions import Kind
from accelify.codemod.semantics.program import LOOPS
from accelify.codemod.training.losses import all_losses


class Annealing:
    """Look at what losses are made of."""

    def __init__(self, counts: StepCounts) -> None:
        self._counts = counts
        self._metrics = counts.metrics
        self._program = counts.program
        self._chains = counts.chains

    def in_losses(self) -> Iterator[ast.expr]:
        """The parts of losses that follow a count of steps: a weight, a temperature, a number for the model.

        And the conditions under which a part is added from some step on: `if step > 500: loss += penalty`.
        """
        waiting = all_losses(self._program, self._metrics.measured.training.backwards)
        seen: set[ast.expr] = set()
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if self._counts.is_mean_so_far(node):
                waiting.append(node.left)
            elif not self._is_of_steps(node):
                yield from self._begun_late(node)
                waiting.extend(self._counts.made_of(node))
            elif self._counts.counts(node):
                yield node

    def _begun_late(self, node: ast.expr) -> Iterator[ast.expr]:
        """The conditions under which a variable gets its value before some count of steps, or after it."""
        found = self._chains.definitions(node) if isinstance(node, (ast.Name, ast.Attribute)) else ()
        for place in (d.node for d in found if d.kind in (Kind.ASSIGNMENT, Kind.AUGMENTED)):
            for branching, _ in self._program.branches_round(place):
                compared = [n for n in ast.walk(branching.test) if isinstance(n, ast.Compare) and is_threshold(n)]
                if not any(map(self._is_place, compared)) and any(map(self._counts.is_at_counts, compared)):
                    yield branching.test

    def _is_place(self, test: ast.expr) -> bool:
        """Whether a condition asks for a place in the data, of which each process has its own: `if i + 4 > len(x):`."""
        found = (d for n in ast.walk(test) if isinstance(n, ast.Name) for d in self._chains.definitions(n))
        loops = (a for d in found if d.kind is Kind.LOOP for a in self._program.ancestors(d.node))
        return any(map(self._metrics.measured.prepared.is_sharded_sequence, loops))

    def _is_of_steps(self, node: ast.expr) -> bool:
        """Whether a value is worked out from a counter of steps alone, or a choice from one."""
        rank, parent = self._metrics.ranks.of(node), self._program.parent(node)
        is_chosen = isinstance(parent, ast.IfExp) and parent.test is node
        is_whole = self._counts.is_passed_whole(node)  # its function reads the parts
        counted = [o for o in rank.of(Mark.STEPS) if o.at is None or not is_whole]
        return (is_chosen or rank.steps) and any(isinstance(o.node, LOOPS) for o in counted)
