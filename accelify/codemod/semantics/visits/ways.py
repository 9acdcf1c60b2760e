"""What a run passes on its way to a node: conditions, loops and handlers, and what may end its function before."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from accelify.codemod.files.nodes import walk
from accelify.codemod.semantics.control_flow import Choice, choices
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.scopes import own_statements

Counted = ast.For | ast.AsyncFor | ast.comprehension
_DEPTH = 3  # functions that a way leads through


@dataclass(frozen=True, slots=True)
class Gate:
    """Something that stands round a node, or may end its function or its round before it.

    part: what of the gate leads to the node; the gate itself where that ends before it, or where it is the node.
    choices: the conditions by which the node is run, or run once more. loops: those that run it as often as they have
    items.
    """

    node: ast.AST
    part: ast.AST
    choices: tuple[Choice, ...] = ()
    loops: tuple[Counted, ...] = ()

    @property
    def may_fail(self) -> bool:
        """Whether an error that is caught here leaves the node out, or is what leads there."""
        return isinstance(self.node, ast.ExceptHandler) or (isinstance(self.node, ast.Try) and bool(self.node.handlers))


class Ways:
    """The ways to the nodes of a program, in their functions and through the calls of these."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._found: dict[ast.AST, tuple[Gate, ...]] = {}
        self._left_by: dict[tuple[ast.AST, type[ast.stmt]], list[ast.If]] = {}

    def are_open(
        self,
        node: ast.AST,
        is_open: Callable[[Gate], bool],
        is_entered: Callable[[ast.AST], bool | None] = lambda node: None,
        depth: int = _DEPTH,
    ) -> bool:
        """Whether each gate on each way to a node is open.

        is_entered: whether the function round a node, or round a call that leads there, is entered, whoever calls it;
        None: as open as the ways to its calls.
        """
        if not all(not isinstance(gate.node, ast.Lambda) and is_open(gate) for gate in self.of(node)):
            return False  # nobody sees when a lambda is called
        if (known := is_entered(node)) is not None:
            return known
        frame = self.program.frame(node)
        if frame.kind == "class":
            return self.are_open(frame.node, is_open, is_entered, depth)
        calls = self.program.calls_of(frame) if frame.is_function else ()
        return all(depth > 0 and self.are_open(call, is_open, is_entered, depth - 1) for call in calls)

    def of(self, node: ast.AST) -> tuple[Gate, ...]:
        """The gates of a node's own function, from the inside out, and what may end the function before the node."""
        if node not in self._found:
            self._found[node] = (*self._round(node), *self._ending(node))
        return self._found[node]

    def _round(self, node: ast.AST) -> Iterator[Gate]:
        frame, part = self.program.frame(node), node
        for around in (node, *self.program.ancestors(node)):
            if around is frame.node:
                break
            asked = [c for c in choices(around) if part in c.parts]
            loops = self._loops(around, part, node)
            if isinstance(around, LOOPS) and (loops or isinstance(around, ast.While)):
                asked += [c for left in self.leaving(around) for c in choices(left) if c.node is not node]
            yield Gate(around, part, tuple(asked), tuple(loops))
            part = around

    def _loops(self, around: ast.AST, part: ast.AST, node: ast.AST) -> list[Counted]:
        """The loops of a statement or of a comprehension that run one of its parts once for each item."""
        if isinstance(around, (ast.For, ast.AsyncFor)):
            return [around] if part in around.body or around is node else []
        generators: list[ast.comprehension] = getattr(around, "generators", [])
        if not isinstance(part, ast.comprehension):
            return [*generators]
        at = generators.index(part)
        return [*generators[: at if self.program.inside(node, part.iter) else at + 1]]

    def _ending(self, node: ast.AST) -> Iterator[Gate]:
        """The conditions on which a function returns before it comes to a node."""
        frame = self.program.frame(node)
        ends = (n for n in own_statements(frame.body) if isinstance(n, ast.Return)) if frame.is_function else ()
        round_ends = (a for n in ends for a in self.program.ancestors(n) if isinstance(a, ast.If))
        found = dict.fromkeys(a for a in round_ends if self.program.frame(a) is frame)
        for branch in found:
            if not self.program.inside(node, branch) and self.program.reaches(branch, node):
                yield Gate(branch, branch, tuple(choices(branch)))

    def leaving(self, loop: ast.AST, how: type[ast.Break | ast.Continue] | None = None) -> list[ast.If]:
        """The conditions under which a round of a loop, or the loop, ends early."""
        if how is None:
            return [*self.leaving(loop, ast.Continue), *self.leaving(loop, ast.Break)]
        if (loop, how) not in self._left_by:
            own = (n for n in walk(loop) if isinstance(n, how) and self.program.loops_round(n)[0] is loop)
            tests = (a for n in own for a in self.program.ancestors(n) if isinstance(a, ast.If))
            self._left_by[loop, how] = [t for t in tests if self.program.inside(t, loop)]
        return self._left_by[loop, how]
