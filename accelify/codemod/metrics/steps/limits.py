"""Where does a number of steps end the training, and which loops take as many steps as in one process?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cached_property

from accelify.codemod.files.nodes import walk
from accelify.codemod.metrics.facts import Loop
from accelify.codemod.metrics.rounds import stops
from accelify.codemod.metrics.steps.counts import StepCounts
from accelify.codemod.metrics.steps.ranges import heads, is_overlong, is_range, rounds_of
from accelify.codemod.semantics.scopes import parts
from accelify.codemod.training.loops.training import Data


class Limits:
    """Find what ends the training after some number of steps."""

    def __init__(self, counts: StepCounts) -> None:
        self.counts = counts
        self._metrics = counts.metrics
        self._program = counts.program
        self._chains = counts.chains

    def conditions(self) -> Iterator[ast.If | ast.While]:
        """The conditions that end a training loop, or one round it, after some count of steps, and such loops."""
        around = (loop for loops in self._metrics.measured.training.loops.values() for loop in loops)
        shared = filter(self.trains, self._metrics.shared_loops)
        within: list[ast.AST] = list(dict.fromkeys([*shared, *around]))
        for node in dict.fromkeys(n for loop in within for n in walk(loop)):
            ends = self._ends(node, within) if isinstance(node, ast.If) else node in within
            if isinstance(node, (ast.If, ast.While)) and ends and self.counts.is_at_counts(node.test):
                yield node

    def _ends(self, node: ast.If, loops: Collection[ast.AST]) -> bool:
        """Whether a branch of a condition leaves one of some loops."""
        leaving = [n for branch in (node.body, node.orelse) for s in branch for n in walk(s)]
        frame = self._program.frame(node)
        return any(
            isinstance(n, (ast.Break, ast.Return))
            and self._program.frame(n) is frame
            and next((a for a in self._program.loops_round(n)), None) in loops
            for n in leaving
        )

    def caps(self) -> Iterator[ast.expr]:
        """The numbers of batches, alike in all processes, after which the head of a training loop ends it."""
        for loop in filter(self.trains, self._metrics.shared_loops):
            if not self._metrics.measured.prepared.is_sharded_sequence(loop):
                calls = (n for n in walk(loop.iter) if isinstance(n, ast.Call))
                found = (n for call in calls for n in stops(self._chains, call))
                yield from (n for n in found if not self.counts.is_count(n) and not _is_none(n))

    def trains(self, loop: ast.AST) -> bool:
        """Whether a round of a loop learns, and does not just look at a batch."""
        program, backwards = self._program, self._metrics.measured.training.backwards
        run = program.run_through([n for n in walk(loop) if isinstance(n, ast.Call)])
        return any(program.inside(b, loop) or program.frame(b) in run for b in backwards)

    def multiplied_epochs(self) -> Iterator[tuple[ast.expr, ast.BinOp]]:
        """What says how many epochs there are by a quotient that grows with the processes: `steps / len(loader)`.

        The number of steps that is divided, and the quotient. Not where a limit ends the training at that number.
        """
        yield from ((n, q) for q, n in self.counts.quotients.items() if not self.ends_training(n))

    def ends_training(self, number: ast.expr) -> bool:
        """Whether the training ends at the very number of steps that a schedule is made for."""
        return not self._last_steps.isdisjoint(self._origins(number))

    @cached_property
    def _last_steps(self) -> frozenset[tuple[ast.AST, str]]:
        """Where the numbers of steps at which the training ends come from."""
        stops = (*(limit.test for limit in self.conditions()), *self.caps())
        return frozenset(origin for stop in stops for origin in self._origins(stop))

    def _origins(self, node: ast.expr) -> Iterator[tuple[ast.AST, str]]:
        """Where the numbers in an expression come from, but for counts of steps: an option, or what was assigned."""
        if not isinstance(node, (ast.Name, ast.Attribute)):
            yield from (origin for part in parts(node) for origin in self._origins(part))
        elif not self.counts.is_count(node):
            held, name = (node.value, node.attr) if isinstance(node, ast.Attribute) else (node, "")
            yield from ((chain[-1].node, name) for chain in self._metrics.measured.tracer.chains(held))

    def rounds(self) -> list[ast.stmt]:
        """The training loops with as many steps as in one process, where all are: each finds or draws its batch."""
        loops = dict.fromkeys(d.loop for d in self._metrics.measured.training.data if d.loop is not None)
        if not self.fixed_rounds.issuperset(loops) or any(map(self._is_overlong, loops)):
            return []
        return [*loops]

    def _is_overlong(self, loop: Loop | ast.While) -> bool:
        count = rounds_of(self._metrics, loop)
        return count is not None and is_overlong(self._metrics, loop, count)

    @cached_property
    def fixed_rounds(self) -> set[ast.AST]:
        """The training loops that ask a loader for as many batches in each process as in one, or draw as many."""
        found = {d.loop: self._sets_its_steps(d) for d in self._metrics.measured.training.data if d.loop is not None}
        return {loop for loop, is_fixed in found.items() if is_fixed}

    def _sets_its_steps(self, data: Data) -> bool:
        """Whether a number that is the same in all processes says how many batches a loop asks for, or draws."""
        loop = data.loop
        if data.kind == "random":
            return loop is not None
        if data.kind != "loaders" or loop is None or _ends_with_its_data(loop):
            return False
        if isinstance(loop, ast.While):
            return self.counts.is_at_counts(loop.test)
        whole = [*heads(self._metrics, loop.iter)]
        parts = [n for head in (loop.iter, *whole) for n in walk(head) if isinstance(n, ast.expr)]
        counts = any(map(self._counts, walk(loop.iter))) or (whole and all(map(self._counts, whole)))
        return bool(counts) and loop.iter not in data.sources and not any(map(self.counts.is_count, parts))

    def _counts(self, node: ast.AST) -> bool:
        """`range(n)`"""
        return isinstance(node, ast.Call) and bool(node.args) and is_range(self._metrics, node)


def _ends_with_its_data(loop: ast.AST) -> bool:
    """Whether what catches the end of an iterator leaves the loop."""
    handlers = (n for n in walk(loop) if isinstance(n, ast.ExceptHandler))
    return any(isinstance(n, (ast.Break, ast.Return)) for handler in handlers for n in walk(handler))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
