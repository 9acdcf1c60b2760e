"""What becomes of a sum after the loop that made it: how is it divided, and who takes it?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, names_in

Loop = ast.For | ast.AsyncFor
_KEEPS = ("item", "double", "float", "cpu", "numpy", "detach", "tolist")  # methods that leave a number what it is
_CONVERTS = ("float", "int", "round", "abs", "sum", "torch.tensor")
_DEPTH = 3
_FAR = (10**9, 0)


@dataclass(frozen=True)
class Use:
    """An expression that a sum is part of: what it is divided by, what else it is made of, and whether it is known."""

    divisors: tuple[ast.expr, ...]
    others: frozenset[str]
    is_known: bool = True


class Uses:
    """Follow variables from where they have their value."""

    def __init__(self, program: Program, tracer: Tracer, prepared: Prepared) -> None:
        self.program = program
        self.tracer = tracer
        self.prepared = prepared

    def after(self, name: str, anchor: ast.stmt, frame: Scope, depth: int = _DEPTH) -> Iterator[Use]:
        """How a variable is used after a statement, until it is given another value."""
        end, stop = _end(anchor), _FAR
        for write in sorted(self.tracer.writes(frame, name), key=_start):
            statement = self.program.statement(write)
            if not end < _start(statement) < stop:
                continue
            stop = _end(statement)
            if isinstance(statement, ast.AugAssign):
                is_division = isinstance(statement.op, ast.Div)
                yield Use((statement.value,), names_in(statement.value), is_division)
        for read in sorted(self.program.reads_of(frame, name), key=_start):
            if end < _start(read) <= stop:
                yield from self._use(read, frame, depth)

    def _use(self, node: ast.expr, frame: Scope, depth: int) -> Iterator[Use]:
        """How a value is used where it is read: from the inside out, to what takes it."""
        divisors: list[ast.expr] = []
        others: set[str] = set()
        while True:
            parent = self.program.parent(node)
            if isinstance(parent, ast.BinOp):
                other = parent.right if parent.left is node else parent.left
                others |= names_in(other)
                if isinstance(parent.op, ast.Div) and node is parent.left:
                    divisors.append(other)
                elif isinstance(parent.op, ast.Mult):
                    divisors.extend(
                        n.right for n in ast.walk(other) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)
                    )
            elif not (
                isinstance(parent, ast.UnaryOp)
                or (isinstance(parent, ast.Attribute) and parent.attr in _KEEPS)
                or (isinstance(parent, ast.Call) and self._hands_on(parent, node))
            ):
                break
            assert isinstance(parent, ast.expr)
            node = parent
        use = Use(tuple(divisors), frozenset(others))
        if divisors:
            yield use
        else:
            for taken in self._taken(use, node, frame, depth):
                yield replace(taken, others=taken.others | use.others)

    def _hands_on(self, call: ast.Call, node: ast.expr) -> bool:
        if call.func is node:
            return isinstance(node, ast.Attribute)
        called = self.program.called(call)
        return call.args[:1] == [node] and any(n in _CONVERTS or n.startswith(("math.", "numpy.")) for n in called)

    def _taken(self, use: Use, node: ast.expr, frame: Scope, depth: int) -> Iterator[Use]:
        """What becomes of a sum that is divided by nothing where it is read."""
        unknown = Use(use.divisors, use.others, False)
        parent, position = self.program.parent(node), None
        if isinstance(parent, ast.Tuple):
            position = parent.elts.index(node)
            node, parent = parent, self.program.parent(parent)
        if isinstance(parent, ast.Assign) and parent.value is node:
            for target in parent.targets:
                yield from self._followed(target, position, parent, frame, depth)
        elif isinstance(parent, ast.Return):
            if not self.program.flow.callers.get(frame):
                yield use
            yield from self._returned(position, frame, depth, unknown)
        elif isinstance(parent, ast.Call) and self.program.flow.callees.get(parent):
            yield unknown
        elif isinstance(parent, ast.AugAssign):  # `losses[epoch] /= rows`
            yield replace(use, others=use.others | names_in(parent.target))
        else:
            yield use

    def _followed(
        self, target: ast.expr, position: int | None, statement: ast.stmt, frame: Scope, depth: int
    ) -> Iterator[Use]:
        if position is not None and isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) > position:
            target = target.elts[position]
            position = None
        if position is not None:
            yield Use((), frozenset(), False)
        elif isinstance(target, ast.Name) and self.program.scope(target).owner(target.id) is frame and depth:
            yield from self.after(target.id, statement, frame, depth - 1)
        else:
            yield Use((), frozenset())

    def _returned(self, position: int | None, frame: Scope, depth: int, unknown: Use) -> Iterator[Use]:
        """How callers use what a function returns."""
        for call in self.program.flow.callers.get(frame, ()):
            if not depth:
                yield unknown
                return
            parent, caller = self.program.parent(call), self.program.frame(call)
            if isinstance(parent, ast.Assign) and parent.value is call:
                for target in parent.targets:
                    yield from self._followed(target, position, parent, caller, depth - 1)
            elif position is None:
                yield from self._use(call, caller, depth - 1)

    def counts_own_batches(self, divisor: ast.expr, loop: Loop) -> bool | None:
        """Whether a divisor is the number of batches that one process takes; None where that cannot be told."""
        targets = names_in(loop.target)
        by_hand = self.prepared.is_dealt_by_hand(loop)
        if names_in(divisor) & targets:
            return None if by_hand else True
        return not by_hand and self._has_own_count(divisor, loop, _DEPTH)

    def is_of_own_count(self, value: ast.expr, loop: Loop) -> bool:
        """Whether the number of batches that one process takes goes into a value that the loop calculates."""
        return not self.prepared.is_dealt_by_hand(loop) and self._has_own_count(value, loop, _DEPTH)

    def _has_own_count(self, value: ast.expr, loop: Loop, depth: int) -> bool:
        """Whether the length of the loop's loader is in an expression, or in what gave its names their values."""
        return any(
            self._is_own_count(node, loop) or (depth > 0 and self._was_own_count(node, loop, depth))
            for node in ast.walk(value)
        )

    def _is_own_count(self, node: ast.AST, loop: Loop) -> bool:
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "len" or len(node.args) != 1:
            return False
        text = ast.unparse(node.args[0])
        looped_over = any(isinstance(n, ast.expr) and ast.unparse(n) == text for n in ast.walk(loop.iter))
        return looped_over or self.prepared.is_loader(node.args[0])

    def _was_own_count(self, node: ast.AST, loop: Loop, depth: int) -> bool:
        if isinstance(node, ast.Name):
            owner = self.program.scope(node).owner(node.id)
            writes = [] if owner is None else self.tracer.writes(owner, node.id)
        elif isinstance(node, ast.Attribute):
            owner, writes = None, list(self.program.attribute_writes.get(node.attr, ()))
        else:
            return False
        values = [self.tracer.assigned(w) for w in writes if isinstance(w, ast.expr)]
        for write in writes:
            if isinstance(write, ast.arg) and owner is not None:
                calls = self.program.flow.callers.get(owner, ())
                values.extend(self.tracer.argument(call, owner, write.arg) for call in calls)
        return any(v is not None and self._has_own_count(v, loop, depth - 1) for v in values)


def line_of(node: ast.AST) -> int:
    """A node's line."""
    return int(getattr(node, "lineno", 1))


def _start(node: ast.AST) -> tuple[int, int]:
    return line_of(node), int(getattr(node, "col_offset", 0))


def _end(node: ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0
