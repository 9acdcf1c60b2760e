"""Is a sum divided by the number of batches that one process takes, so that its mean over processes is meant?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from typing import TypeGuard

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import names
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.metrics.rounds import stops
from accelify.codemod.metrics.sums.uses import Use, Uses
from accelify.codemod.metrics.updates import Addition, assigned_to
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Kind
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import names_in

Loop = ast.For | ast.AsyncFor
_DEPTH = 3


class Divisors:
    """Tell the divisors that count one process's batches from all others."""

    def __init__(
        self, chains: Chains, ranks: Ranks, prepared: Prepared, uses: Uses, asking: Collection[Loop] = ()
    ) -> None:
        self.chains = chains
        self.program: Program = chains.program
        self.tracer: Tracer = chains.tracer
        self.ranks = ranks
        self.prepared = prepared
        self.uses = uses
        self.asking = asking

    def how(self, additions: Sequence[Addition], uses: Sequence[Use], loop: Loop, added: Collection[str]) -> str | None:
        """Whether a sum becomes the `sum` or the `mean` over processes; None where that is unclear.

        `added`: the names of all sums of the loop.
        """
        divisors = [d for u in uses for d in u.divisors if not self._is_size(d, added)]
        counts = {self._counts_own_batches(d, loop, added) for d in divisors}
        is_plain = any(not u.divisors and not self._is_ranked(u, uses) for u in uses)
        if None in counts or len(counts) > 1 or (counts == {True} and is_plain):
            return None
        is_alone = any(not u.divisors and u.others.isdisjoint(added) for u in uses)
        if loop in self.asking and is_alone and not self._counts_steps(loop.iter, loop):
            return None  # whether the rounds of all processes together see the data once is not known
        divided = {any(self._is_divided(part, loop) for part in a.parts) for a in additions}
        if divided != {False}:  # part by part: `mean += loss / len(loader)`
            return "mean" if divided == {True} and counts <= {False} else None
        return "mean" if counts == {True} else "sum"

    def _is_size(self, divisor: ast.expr, added: Collection[str]) -> bool:
        """Whether a divisor is the number of sums that a dict of the loop's holds: `sum(sums.values()) / len(sums)`."""
        counted = sizes.measured(divisor) if isinstance(divisor, ast.Call) else None
        return counted is not None and ast.unparse(counted) in added and self.chains.kinds.of(counted) == {"dict"}

    def _is_ranked(self, use: Use, uses: Sequence[Use]) -> bool:
        """Whether a sum is only compared with those of other epochs, whose order is that of their means as well.

        total < low, where low = total
        """
        parent = self.program.parent(use.compared) if use.compared is not None else None
        operands = [parent.left, *parent.comparators] if isinstance(parent, ast.Compare) else []
        return bool(operands) and {u.compared for u in uses if not u.others and not u.divisors} >= set(operands)

    def _counts_own_batches(self, divisor: ast.expr, loop: Loop, added: Collection[str]) -> bool | None:
        """Whether a divisor is the number of batches that one process takes; None where that is not known."""
        if not self.uses.named(divisor).isdisjoint(added):
            return False  # it is a sum itself
        if names_in(divisor) & names_in(loop.target):
            return None if self.prepared.is_sharded_sequence(loop) else True
        if self.prepared.is_sharded_sequence(loop):
            return False
        if loop in self.asking:
            return True if self.ranks.of(divisor).steps or self._is_in_head(divisor, loop) else None
        values = self.given_to(divisor, 1) or [divisor]
        counts = {self._is_limit(divisor, loop) or self._counts_steps(v, loop) for v in values}
        return counts.pop() if len(counts) == 1 else None

    @staticmethod
    def _is_in_head(divisor: ast.expr, loop: Loop) -> bool:
        """Whether a number says how many rounds a loop has: `n` of `for i in range(1, n + 1)`."""
        return ast.unparse(divisor) in (ast.unparse(n) for n in walk(loop.iter) if isinstance(n, ast.expr))

    def _is_limit(self, node: ast.AST, loop: Loop) -> bool:
        """Whether a number is that of the rounds after which each process ends a loop: `islice(loader, limit)`."""
        return any(ast.unparse(limit) == ast.unparse(node) for limit in self._limits(loop))

    def _limits(self, loop: Loop) -> Iterator[ast.expr]:
        held = [v for n in walk(loop.iter) if isinstance(n, ast.Name) for v in self.given_to(n, 1)]
        calls = (n for head in (loop.iter, *held) for n in walk(head) if isinstance(n, ast.Call))
        yield from (limit for call in calls for limit in stops(self.chains, call))
        breaks = [n for n in walk(loop) if isinstance(n, ast.Break) and self.program.loops_round(n)[0] is loop]
        for test in (branch.test for n in breaks for branch, _ in self.program.branches_round(n)):
            if isinstance(test, ast.Compare) and self.program.inside(test, loop) and self.ranks.of(test.left).steps:
                yield from test.comparators

    def _counts_steps(self, node: ast.expr, loop: Loop, depth: int = _DEPTH) -> bool:
        """Whether the number of batches that one process takes goes into a value."""
        parts: list[ast.AST] = [node]
        while parts:
            part = parts.pop()
            if self._is_limit(part, loop) or (isinstance(part, ast.Call) and self._is_length(part, loop)):
                return True
            if isinstance(part, (ast.Name, ast.Attribute)) and (
                self.ranks.of(part).steps
                or any(self._counts_steps(v, loop, depth - 1) for v in self.given_to(part, depth))
            ):
                return True
            if not isinstance(part, ast.Attribute) or isinstance(part.value, ast.Call):  # no object, of an attribute
                parts.extend(ast.iter_child_nodes(part))
        return False

    def _is_length(self, call: ast.Call, loop: Loop) -> bool:
        """`len(loader)`, of what the loop iterates over or of another prepared loader."""
        if (counted := sizes.measured(call)) is None:
            return False
        text = ast.unparse(counted)
        is_gone_over = any(ast.unparse(loader) == text for loader in self._gone_over(loop.iter))
        return is_gone_over or self.ranks.of(call).steps

    def is_of_loop(self, divisor: ast.expr, loop: Loop) -> bool:
        """Whether a number of batches is that of the loader that a loop iterates over itself, whoever calls it."""
        counted = [sizes.measured(origin.node) for origin in self.ranks.of(divisor).of(Mark.STEPS)]
        return bool(counted) and all(
            loader is not None and self._is_source(loader, loop, divisor) for loader in counted
        )

    def _is_source(self, loader: ast.expr, loop: Loop, divisor: ast.expr) -> bool:
        """Whether a loader is what a loop iterates over, or what a caller passes to the loop's function for that."""
        source, function = self.tracer.inside(loop.iter), self.program.frame(loop)
        if self.program.frame(loader) is not function and isinstance(source, ast.Name):
            every = self.program.calls_of(function)
            calls = [c for c in self.program.calls_in(self.program.frame(loader)) if c in every]
            own = [c for c in calls if self.program.inside(loader, c)] or self._divided_calls(divisor, calls)
            given = [self.chains.given(call, function, source.id) for call in own or calls]
            held = self.program.values(loader)
            is_it = [g is not None and self.program.values(g) == held for g in given]
            return bool(held) and (all(is_it) if own else any(is_it))
        if isinstance(source, ast.Attribute) and isinstance(loader, ast.Attribute):
            variable = self.chains.variable(source)
            return variable is not None and variable == self.chains.variable(loader)
        is_named_alike = ast.unparse(source) == ast.unparse(loader)
        return is_named_alike and self.chains.definitions(source) == self.chains.definitions(loader)

    def _divided_calls(self, divisor: ast.expr, calls: Collection[ast.Call]) -> list[ast.Call]:
        """Those of some calls whose results a number divides, themselves or by the variable that keeps them."""
        around = [divisor, *self.program.ancestors(divisor)]
        divided = [n.left for n, part in zip(around[1:], around, strict=False) if _divides(n, part)]
        names = (n for left in divided for n in walk(left) if isinstance(n, (ast.Name, ast.Attribute)))
        kept = [value for name in names for value in self.given_to(name, 1)]
        parts = {n for value in (*divided, *kept) for n in walk(value)}
        return [call for call in calls if call in parts]

    def _gone_over(self, node: ast.expr) -> Iterator[ast.expr]:
        """The iterable inside `enumerate(tqdm(loader))`; not the data a loader is made from: `DataLoader(data)`."""
        yield node
        inner: list[ast.expr] = []
        if isinstance(node, ast.IfExp):
            inner = [node.body, node.orelse]
        elif isinstance(node, ast.Call):
            passes = any(map(names.iteration, self.program.called(node))) or self.tracer.is_progress(node)
            inner = self.tracer.gone_over(node) if passes else []
        for each in inner:
            yield from self._gone_over(each)

    def given_to(self, node: ast.expr, depth: int) -> list[ast.expr]:
        """The values that a variable or an attribute may have been given."""
        values: list[ast.expr | None] = []
        for definition in self.chains.definitions(node) if depth else ():
            if definition.kind is Kind.ASSIGNMENT:
                values.append(assigned_to(self.program, definition.node))
            elif definition.kind is Kind.PARAMETER and definition.variable.scope is not None:
                scope, name = definition.variable.scope, definition.variable.name
                values.extend(self.chains.given(call, scope, name) for call in self.program.calls_of(scope))
        return [value for value in values if value is not None]

    def _is_divided(self, summand: ast.expr, loop: Loop) -> bool:
        """Whether what is added is divided by the number of batches that one process takes."""
        if self.prepared.is_sharded_sequence(loop):
            return False
        names = [n for n in walk(summand) if isinstance(n, ast.Name)]
        nodes = [n for v in [summand, *(v for n in names for v in self._values_in(n, loop))] for n in walk(v)]
        divisors = [n.right for n in nodes if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
        return any(self._counts_steps(d, loop) for d in divisors)

    def _values_in(self, name: ast.Name, loop: Loop) -> list[ast.expr]:
        """The values of a variable that the loop sets."""
        inside = [d for d in self.chains.definitions(name) if self.program.inside(d.node, loop)]
        values = [assigned_to(self.program, d.node) for d in inside if d.kind is Kind.ASSIGNMENT]
        return [value for value in values if value is not None]


def _divides(node: ast.AST, divisor: ast.AST) -> TypeGuard[ast.BinOp]:
    """Whether an expression divides something by a part of it."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and node.right is divisor
