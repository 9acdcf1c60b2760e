"""Which numbers of a prepared loader's batches weigh a loss? `loss + kl / len(loader)`"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from accelify.codemod.files.nodes import walk
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.steps.counts import StepCounts
from accelify.codemod.metrics.steps.lengths import has_length
from accelify.codemod.metrics.steps.samples import Samples
from accelify.codemod.metrics.updates import assigned_to
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.program import LOOPS
from accelify.codemod.semantics.scopes import parts, returned
from accelify.codemod.training.losses import all_losses


class LossWeights:
    """Look at what losses are made of."""

    def __init__(self, counts: StepCounts) -> None:
        self.counts = counts
        self.metrics = counts.metrics
        self.program = counts.program
        self.chains = counts.chains

    def find(self, batch_sizes: Collection[ast.expr]) -> Iterator[ast.expr]:
        """The numbers of a prepared loader's batches that weigh losses: `len(loader)` of `loss + kl / len(loader)`.

        Not those that a part of the training is measured by, that divide a sum or a step over the rounds, or that give
        the sizes of shards.
        """
        backwards = self.metrics.measured.training.backwards
        waiting = all_losses(self.program, [b for b in backwards if self._is_stepped(b)])
        added_up = all_losses(self.program, [b for b in backwards if not self._is_stepped(b)])
        waiting += [part for loss in added_up for part in self._without_divisor(loss) or [loss]]
        seen = set(Samples(self.counts).shard_sizes(batch_sizes))
        while waiting:
            node = waiting.pop()
            if node in seen or self.counts.divides_sum(node) or self._is_part_of_training(node):
                continue
            seen.add(node)
            loader = sizes.measured(node)
            if loader is None:
                waiting.extend(self._weighed_by(node))
            elif self.metrics.measured.prepared.is_loader(loader):
                yield node

    def _without_divisor(self, node: ast.expr, depth: int = 4) -> list[ast.expr]:
        """What a number of batches divides, by which all of a value is a mean over the rounds; nothing if none does."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return [node.left] if has_length(self.metrics, node.right) else []
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            sides = [self._without_divisor(side, depth) for side in (node.left, node.right)]
            return [part for side in sides for part in side] if all(sides) else []
        found = self.chains.definitions(node) if depth and isinstance(node, (ast.Name, ast.Attribute)) else ()
        made: list[list[ast.expr]] = []
        for definition in found:
            change, value = self.program.parent(definition.node), assigned_to(self.program, definition.node)
            if isinstance(change, ast.AugAssign):
                is_divided = isinstance(change.op, ast.Div) and has_length(self.metrics, change.value)
                made.append([change.target] if is_divided else [])
            else:
                made.append(self._without_divisor(value, depth - 1) if value is not None else [])
        return [part for parts_made in made for part in parts_made] if all(made) else []

    def _is_stepped(self, backward: ast.Call) -> bool:
        """Whether an optimizer steps in the rounds of the loop of a backward pass, and not after all of them."""
        shared = self.metrics.shared_loops
        loop = next((a for a in self.program.loops_round(backward) if a in shared), None)
        run = self.program.run_through([n for n in walk(loop) if isinstance(n, ast.Call)]) if loop is not None else ()
        within = [
            s
            for s in self.metrics.measured.training.steps
            if not any(self._is_at_end(branching.test) for branching, _ in self.program.branches_round(s))
        ]
        return loop is None or any(self.program.inside(s, loop) or self.program.frame(s) in run for s in within)

    def _is_at_end(self, test: ast.expr) -> bool:
        """`i + 1 == len(loader)`"""
        is_equal = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)
        return is_equal and any(has_length(self.metrics, side) for side in parts(test)) and self.counts.is_count(test)

    def _is_part_of_training(self, node: ast.expr) -> bool:
        """Whether a number follows a count of steps too, or is a quotient of the same loader's lengths."""
        rank = self.metrics.ranks.of(node)
        if any(isinstance(o.node, LOOPS) for o in rank.of(Mark.STEPS)) and not rank.of(Mark.BATCH):
            return True
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Div, ast.FloorDiv)):
            return False
        sides = [self.metrics.ranks.of(side).of(Mark.STEPS) for side in (node.left, node.right)]
        counted = [{ast.unparse(sizes.measured(o.node) or o.node) for o in side} for side in sides]
        return self.counts.is_part(node) and counted[0] == counted[1]

    def _weighed_by(self, node: ast.expr) -> Iterator[ast.expr]:
        """The factors and terms of a value, one step back; not the numbers that a library's function asks for."""
        if isinstance(node, ast.IfExp):
            yield from (node.body, node.orelse)
        elif isinstance(node, ast.Subscript):
            yield from () if self.counts.is_count(node.slice) else [node.value]
        elif isinstance(node, ast.Call):
            callees, kinds = self.program.flow.callees.get(node, ()), self.chains.kinds
            yield from (value for value in returned(callees) if value is not None)
            given = parts(node) if not callees else ()
            yield from (g for g in given if kinds.of(node) == {"number"} or kinds.of(g) != {"number"})
        elif not isinstance(node, (ast.Compare, ast.Lambda)):
            yield from self.counts.made_of(node)
        found = self.chains.definitions(node) if isinstance(node, (ast.Name, ast.Attribute)) else ()
        for change in (self.program.parent(d.node) for d in found):
            yield from (change.target, change.value) if isinstance(change, ast.AugAssign) else ()
