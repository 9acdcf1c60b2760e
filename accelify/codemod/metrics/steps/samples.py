"""Where are samples, or batches, counted by what is one process's own?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from accelify.codemod.libraries.row import SHOWN
from accelify.codemod.metrics.steps.counts import StepCounts
from accelify.codemod.metrics.steps.lengths import given_values
from accelify.codemod.metrics.steps.places import goes_over_all, is_sharded
from accelify.codemod.preparing.batch_sizes import is_same_size
from accelify.codemod.semantics import sizes


class Samples:
    """Look at what counts or measures data by the size of batches, and by how many there are."""

    def __init__(self, counts: StepCounts) -> None:
        self._counts = counts
        self._metrics = counts.metrics
        self._program = counts.program
        self._chains = counts.chains

    def samples(self, sizes: Collection[ast.expr]) -> Iterator[ast.expr]:
        """The counts of samples that are worked out from the size of a batch: `step * size`, `n` of `n += size`."""
        tracer = self._metrics.measured.tracer
        for node in (n for parsed in self._program.files for n in parsed.nodes):
            place: ast.expr
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                factors, place = [node.value], node.target
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                factors, place = [node.left, node.right], node
            else:
                continue
            if not any(is_same_size(tracer, size, factor) for size in sizes for factor in factors):
                continue
            is_count = self._counts.counts(node) if place is node else is_sharded(self._metrics, node)
            loop = next((a for a in self._program.loops_round(node) if a in self._metrics.shared_loops), None)
            is_of_all = loop is not None and goes_over_all(self._metrics, node, loop)
            if is_count and not is_of_all and not self._is_only_shown(place) and not self._is_index(place):
                yield place

    def shard_sizes(self, sizes: Collection[ast.expr]) -> Iterator[ast.expr]:
        """The sizes of data by the length of a process's shard: `len(loader) * loader.batch_size`.

        Not those that only divide a sum over the same shard, or are read in its rounds, beside counts of them.
        """
        for node in (n for parsed in self._program.files for n in parsed.parents if isinstance(n, ast.BinOp)):
            if isinstance(node.op, ast.Mult) and self._program.frame(node) in self._program.reachable:
                for length, size in ((node.left, node.right), (node.right, node.left)):
                    if self._is_length(length) and self._is_size(size, sizes) and not self._is_of_rounds(node):
                        yield node

    def _is_length(self, node: ast.expr) -> bool:
        """`len(loader)` of a prepared loader, itself or by its variable."""
        prepared = self._metrics.measured.prepared
        if isinstance(node, ast.Name):
            given = given_values(self._metrics, node)
            return len(given) == 1 and not isinstance(given[0], ast.Name) and self._is_length(given[0])
        loader = sizes.measured(node)
        return loader is not None and prepared.is_loader(loader)

    def _is_size(self, node: ast.expr, sizes: Collection[ast.expr]) -> bool:
        """Whether an expression is the size of a batch: one of the sizes, or `loader.batch_size`."""
        if isinstance(node, ast.Attribute) and self._metrics.measured.prepared.is_loader(node.value):
            return node.attr == "batch_size"
        return any(is_same_size(self._metrics.measured.tracer, size, node, "batch") for size in sizes)

    def _is_of_rounds(self, node: ast.expr) -> bool:
        """Whether a value is read for a sum of the rounds of a loop only, or in the rounds, by its variable too."""
        statement = self._program.statement(node)
        target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is node else None
        owner = self._program.scope(node).owner(target.id) if isinstance(target, ast.Name) else None
        reads: list[ast.expr] = [node]
        if owner is not None and isinstance(target, ast.Name):
            reads = [*self._program.reads_of(owner, target.id)]
        shared = set(self._metrics.shared_loops)
        around = ((read, self._program.loops_round(read)) for read in reads)
        return all(self._counts.divides_sum(read) or not shared.isdisjoint(loops) for read, loops in around)

    def _is_index(self, node: ast.expr) -> bool:
        """Whether a value is a place in what is worked through in parts, by a variable too.

        `rows[i : i + size]`, then `i += size`; `start, end = i * size, (i + 1) * size`, then `rows[start:end]`.
        """
        names = [node] if isinstance(node, ast.Name) else [n for n in self._given_by(node) if isinstance(n, ast.Name)]
        owners = ((self._program.scope(n).owner(n.id), n.id) for n in names)
        reads = [node, *(r for owner, name in owners if owner is not None for r in self._program.reads_of(owner, name))]
        around = ((read, a) for read in reads for a in self._program.ancestors(read) if isinstance(a, ast.Subscript))
        return any(self._program.inside(read, a.slice) for read, a in around)

    def _given_by(self, node: ast.expr) -> list[ast.expr]:
        """The targets of an assignment that a value goes to, be it as one of several."""
        statement = self._program.statement(node)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if len(targets) != 1 or not isinstance(statement, ast.Assign):
            return targets
        target, value = targets[0], statement.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = zip(target.elts, value.elts, strict=True)
            return [t for t, v in pairs if self._program.inside(node, v)]
        return targets

    def _is_only_shown(self, node: ast.expr) -> bool:
        """Whether a value goes nowhere but into texts and to what shows them, by its variable too.

        A sum that it divides is one of as many samples.
        """
        while isinstance(around := self._program.parent(node), ast.BinOp):
            node = around
        statement = self._program.statement(node)
        targets = statement.targets if isinstance(statement, ast.Assign) and statement.value is node else [node]
        owner = self._program.scope(node).owner(targets[0].id) if isinstance(targets[0], ast.Name) else None
        if owner is None or not isinstance(targets[0], ast.Name):
            return self._is_shown(node)
        reads = self._program.reads_of(owner, targets[0].id)
        return all(self._is_shown(read) or self._counts.divides_sum(read) for read in reads)

    def shown(self) -> Iterator[ast.AST]:
        """Where the number of batches is shown as it is, outside of the loops that count them."""
        for call in self._program.calls:
            loader = sizes.measured(call)
            if loader is not None and self._metrics.measured.prepared.is_loader(loader):
                is_within = any(loop in self._metrics.shared_loops for loop in self._program.loops_round(call))
                if not is_within and self._is_shown(call):
                    yield call

    def _is_shown(self, node: ast.AST) -> bool:
        """Whether a value is put into a text, or handed to what shows it."""
        parent = self._program.parent(node)
        while isinstance(parent, (ast.FormattedValue, ast.JoinedStr, ast.Tuple, ast.keyword)):
            parent = self._program.parent(parent)
        if isinstance(parent, ast.BinOp):
            return self._chains.kinds.of(parent.left) == {"string"} and self._is_shown(parent)
        if not isinstance(parent, ast.Call):
            return False
        rows = self._chains.kinds.called(parent) or ()
        is_text = bool(rows) and all(row.returns == "string" for row in rows)
        return self._is_shown(parent) if is_text else any(row.effects & SHOWN for row in rows)
