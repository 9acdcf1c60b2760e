"""What becomes of a sum where it is read: what is it divided by, and what else is it calculated with?"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from accelify.codemod.libraries import methods
from accelify.codemod.metrics.ranks.expressions import is_self
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.metrics.updates import assigned_to
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Kind, Variable
from accelify.codemod.semantics.program import COMPREHENSIONS, LOOPS, Program
from accelify.codemod.semantics.scopes import names_in

_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Use:
    """An expression that a sum is part of: what it is divided by, what else it is made of, and whether it is known.

    compared: the operand that it is, of a comparison.
    """

    divisors: tuple[ast.expr, ...]
    others: frozenset[str]
    is_known: bool = True
    compared: ast.expr | None = None


class Uses:
    """Follow sums from where they are read to what takes them."""

    def __init__(self, chains: Chains, ranks: Ranks) -> None:
        self.chains = chains
        self.program: Program = chains.program
        self.ranks = ranks

    def of(self, read: ast.expr, anchor: ast.stmt) -> Iterator[Use]:
        """How a sum that is complete after `anchor` is used where it is read."""
        return self._use(read, anchor, _DEPTH)

    def reads_of(self, variable: Variable) -> Sequence[ast.expr]:
        """Where a variable, or an attribute of an object itself, is read."""
        if variable.scope is None:
            return []
        if not variable.is_attribute:
            return self.program.reads_of(variable.scope, variable.name)
        inside = (n for n in ast.walk(variable.scope.node) if isinstance(n, ast.Attribute) and n.attr == variable.name)
        return [n for n in inside if isinstance(n.ctx, ast.Load) and self.chains.variable(n) == variable]

    def _use(self, node: ast.expr, anchor: ast.stmt, depth: int) -> Iterator[Use]:
        """How a value is used where it is read: from the inside out, to what takes it."""
        if self.program.in_rounds(node, anchor):  # in the loop's next run
            yield Use((), frozenset())
            return
        divisors: list[ast.expr] = []
        others: set[str] = set()
        while True:
            parent = self.program.parent(node)
            if isinstance(parent, ast.AugAssign) and node is parent.target:
                is_division = isinstance(parent.op, ast.Div)
                yield Use((parent.value,), frozenset(self.named(parent.value)), is_division)
                return
            if isinstance(parent, ast.BinOp):
                other = parent.right if parent.left is node else parent.left
                others |= self.named(other)
                if isinstance(parent.op, ast.Div) and node is parent.left:
                    divisors.append(other)
                elif isinstance(parent.op, ast.Mult):
                    divisors.extend(
                        n.right for n in ast.walk(other) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)
                    )
            elif not (
                isinstance(parent, (ast.UnaryOp, ast.Attribute))
                or (isinstance(parent, ast.Subscript) and parent.value is node)
                or (isinstance(parent, ast.Call) and self._hands_on(parent, node))
                or (isinstance(parent, (ast.ListComp, ast.SetComp, ast.GeneratorExp)) and parent.elt is node)
                or self._is_given_in_list(parent)
            ):
                break
            assert isinstance(parent, ast.expr)
            node = parent
        use = Use(tuple(divisors), frozenset(others))
        if divisors:
            yield use
        else:
            for taken in self._taken(use, node, anchor, depth):
                yield replace(taken, others=taken.others | use.others)

    def named(self, node: ast.expr, depth: int = _DEPTH) -> set[str]:
        """The variables in an expression, those in what was assigned to them, and the tables whose parts they are."""
        parts = [n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))]
        attributes = [n for n in parts if isinstance(n, ast.Attribute) and is_self(self.program, n.value)]
        reads = [n for n in parts if isinstance(n, ast.Name) and not is_self(self.program, n)]
        held = [n for n in reads if self._is_of_comprehension(n)]
        over = [table for n in held if depth for table in self._gone_over(n)]
        reads = [n for n in reads if n not in held]
        found = {n.id for n in reads if not self.program.externals(n)} | set(map(ast.unparse, attributes))
        for read in reads:
            if not isinstance(read.ctx, ast.Load) or not depth:
                continue
            for definition in self.chains.definitions(read):
                value = assigned_to(self.program, definition.node) if definition.kind is Kind.ASSIGNMENT else None
                if value is not None and not self.program.loops_round(definition.node)[:1]:
                    found |= self.named(value, depth - 1)
                loop = self.program.statement(definition.node)
                if definition.kind is Kind.LOOP and isinstance(loop, ast.For) and self.program.inside(read, loop):
                    over.append(loop.iter)
        for table in over:
            found |= self.named(table, depth - 1)
        return found

    def _gone_over(self, name: ast.Name) -> Iterator[ast.expr]:
        """What a comprehension goes over that binds a name."""
        around = (n for n in self.program.ancestors(name) if isinstance(n, COMPREHENSIONS))
        every = (generator for comprehension in around for generator in comprehension.generators)
        yield from (generator.iter for generator in every if name.id in names_in(generator.target))

    def _is_of_comprehension(self, name: ast.Name) -> bool:
        """Whether a comprehension binds a name for itself, whatever the loop calls so."""
        owner = self.program.scope(name).owner(name.id)
        return owner is not None and owner.kind == "comprehension"

    def _hands_on(self, call: ast.Call, node: ast.AST | None) -> bool:
        """Whether what a library's function makes of a value is to be looked at in its place."""
        return (call.func is node or node in call.args) and not self.program.flow.callees.get(call)

    def _is_given_in_list(self, parent: ast.AST | None) -> bool:
        """Whether a library's function is given a value among others: `sum([a, b])`, `np.array((a, b))`."""
        call = self.program.parent(parent) if isinstance(parent, (ast.List, ast.Tuple)) else None
        return isinstance(call, ast.Call) and parent in call.args and self._hands_on(call, parent)

    def _taken(self, use: Use, node: ast.expr, anchor: ast.stmt, depth: int) -> Iterator[Use]:
        """The uses of a sum that is divided by nothing where it is read."""
        unknown = Use(use.divisors, use.others, False)
        parent, position = self.program.parent(node), None
        if isinstance(parent, ast.Tuple):
            position = parent.elts.index(node)
            node, parent = parent, self.program.parent(parent)
        if isinstance(parent, ast.Assign) and parent.value is node:
            for target in parent.targets:
                yield from self._followed(target, position, anchor, depth)
        elif isinstance(parent, ast.Return):
            frame = self.program.frame(parent)
            if not self.program.flow.callers.get(frame):
                yield use
            for call in self.program.flow.callers.get(frame, ()):
                yield from self._returned(call, position, anchor, depth) if depth else [unknown]
        elif isinstance(parent, (ast.comprehension, *LOOPS)) and not isinstance(parent, ast.While):
            yield from self._of_elements(parent, anchor, depth) if depth else [unknown]
        elif (taking := self._called_with(node)) is not None and self.program.flow.callees.get(taking):
            yield from self._given(taking, node, anchor, depth) if depth else [unknown]
        elif isinstance(parent, ast.AugAssign):  # `losses[epoch] /= rows`
            yield replace(use, others=use.others | names_in(parent.target))
        else:
            yield replace(use, compared=node) if isinstance(parent, ast.Compare) else use

    def _called_with(self, node: ast.expr) -> ast.Call | None:
        """The call that is given a value."""
        parent = self.program.parent(node)
        call = self.program.parent(parent) if isinstance(parent, ast.keyword) else parent
        return call if isinstance(call, ast.Call) and call.func is not node else None

    def _given(self, call: ast.Call, node: ast.expr, anchor: ast.stmt, depth: int) -> Iterator[Use]:
        """How functions use a parameter that gets a sum; what they divide it by is asked of their callers."""
        for function in self.program.flow.callees.get(call, ()):
            names = [p.arg for p in function.parameters if self.chains.given(call, function, p.arg) is node]
            uses = [
                u for n in names for r in self.program.reads_of(function, n) for u in self._use(r, anchor, depth - 1)
            ]
            if not names or any(use.divisors or use.others for use in uses):
                yield Use((), frozenset(), False)
            yield from uses

    def _of_elements(
        self, over: ast.comprehension | ast.For | ast.AsyncFor, anchor: ast.stmt, depth: int
    ) -> Iterator[Use]:
        """How the elements of a table of sums are used: `[total / n for total in totals]`."""
        asked = over.iter.func if isinstance(over.iter, ast.Call) else None
        passed = methods.passes(asked.attr) if isinstance(asked, ast.Attribute) else None
        if passed == "keys" or self.chains.kinds.of(over.iter) == {"dict"}:
            return  # `for key in totals: print(totals[key] / rows)`, where the table is read anew
        is_keyed = passed == "items"
        values = over.target.elts[1:] if is_keyed and isinstance(over.target, ast.Tuple) else [over.target]
        names = [n for value in values for n in ast.walk(value) if isinstance(n, ast.Name)]
        owners = {n.id: self.program.scope(n).owner(n.id) for n in names}
        around = self.program.parent(over) if isinstance(over, ast.comprehension) else over
        reads = [r for name, owner in owners.items() if owner for r in self.program.reads_of(owner, name)]
        for read in sorted(reads, key=self.program.position):
            if around is not None and self.program.inside(read, around) and self.ranks.is_own(read):
                yield from self._use(read, anchor, depth - 1)

    def _followed(self, target: ast.expr, position: int | None, anchor: ast.stmt, depth: int) -> Iterator[Use]:
        if position is not None and isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) > position:
            target, position = target.elts[position], None
        is_own = isinstance(target, ast.Name) and self.program.scope(target).owner(target.id) is self.program.frame(
            target
        )
        if position is not None:
            yield Use((), frozenset(), False)
        elif is_own and depth:
            for definition in self.chains.facts(target).at(target):
                reads = self.chains.facts(target).uses(definition)
                for read in sorted(reads, key=self.program.position):
                    yield from self._use(read, anchor, depth - 1)
        else:
            yield from self._kept(target, anchor, depth) if depth else [Use((), frozenset())]

    def _kept(self, target: ast.expr, anchor: ast.stmt, depth: int) -> Iterator[Use]:
        """How a variable of the module, or an attribute, that a sum is kept in is used."""
        variable = self.chains.variable(target) if isinstance(target, (ast.Name, ast.Attribute)) else None
        reads = self.reads_of(variable) if variable is not None else ()
        for read in reads:
            yield from self._use(read, anchor, depth - 1)
        if not reads:
            yield Use((), frozenset())

    def _returned(self, call: ast.Call, position: int | None, anchor: ast.stmt, depth: int) -> Iterator[Use]:
        """How a caller uses what a function returns."""
        parent = self.program.parent(call)
        if isinstance(parent, ast.Assign) and parent.value is call:
            for target in parent.targets:
                yield from self._followed(target, position, anchor, depth - 1)
        elif position is None:
            yield from self._use(call, anchor, depth - 1)
