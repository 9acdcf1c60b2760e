"""Which loops are round a place, in its function and in those that call it?"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

from accelify.codemod.libraries import names
from accelify.codemod.semantics.call_conditions import Way, Ways
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.loops.bodies import Loop
from accelify.codemod.training.losses import without_gradients
from accelify.codemod.training.modes import LastModes
from accelify.codemod.training.roles import Roles

_MOST_WAYS = 3  # conditions under which one function is followed to its callers
_MOST_NESTS = 16  # of loops round one backward pass


class Nesting:
    """Follow calls outwards from a place; calls that only evaluate do not lead to a backward pass."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer) -> None:
        self.program = program
        self.flow = program.flow
        self.ways = Ways(program, tracer)
        self.modes = LastModes(program, roles)

    def stack(self, node: ast.AST, ways: dict[Scope, set[Way]] | None = None) -> list[Loop]:
        """The loops that hold a node, in its function and in those that call it, from the inside out.

        ways: gets the functions on the way, each with the ways that lead on from it.
        """
        found: list[Loop] = []
        seen: set[tuple[Scope, Way]] = set()
        queue: list[tuple[ast.AST, Way]] = [(node, self.ways.begin(node))]
        asking: set[ast.AST] = set()  # what only runs where models train
        while queue:
            current, way = queue.pop(0)
            for loop in self.program.loops_round(current):
                if loop not in found:
                    found.append(loop)
            frame = self._function_round(current)
            if ways is not None:
                ways.setdefault(self.program.frame(current), set()).add(way)
            if frame is not None and sum(f is frame for f, _ in seen) >= _MOST_WAYS:
                way = ()  # conditions upon conditions: any call may get here
            if frame is None or (frame, way) in seen:
                continue
            seen.add((frame, way))
            calls = self.program.calls_of(frame)
            if ways is not None:
                asks = current in asking or self.modes.asks(current)
                evaluating = [c for c in calls if self._evaluates(c, current, asks)]
                calls = [c for c in calls if c not in evaluating] or calls
                asking.update(calls if asks else ())
            longer = ((call, self.ways.through(call, way)) for call in calls)
            queue.extend((call, each) for call, each in longer if each is not None)
            if frame in self.flow.escaped:
                queue.extend((use, self.ways.begin(use)) for use in self._uses_of(frame))
        return found

    def _evaluates(self, call: ast.Call, place: ast.AST, asks: bool) -> bool:
        """Whether a call does not come as far as a backward pass in its function: without gradients, in `eval` mode."""
        is_without = not self._enables_gradients and without_gradients(self.program, call) is not None
        return is_without or self.ways.fails(call, place) or (asks and self.modes.is_in_eval_mode(call))

    @cached_property
    def _enables_gradients(self) -> bool:
        return any(names.enables_gradients(n) for call in self.program.calls for n in self.program.called(call))

    def _function_round(self, node: ast.AST) -> Scope | None:
        scope: Scope | None = self.program.scope(node)
        while scope is not None and scope.kind not in ("function", "lambda"):
            scope = scope.parent
        return scope

    def _uses_of(self, function: Scope) -> Iterator[ast.AST]:
        """Where a closure is mentioned: `optimizer.step(closure)`; not where it is returned to those who call it."""
        assert function.parent is not None
        for read in function.parent.reads.get(function.name, ()):
            if not isinstance(self.program.parent(read), ast.Return) or not self.program.calls_of(function):
                yield read

    def nests(self, loops: Sequence[Loop]) -> list[list[Loop]]:
        """The loops as they are nested: several callers of one function each have loops, and data, of their own."""
        stacks = {loop: [o for o in self.stack(loop) if o in loops and o is not loop] for loop in loops}
        around = {loop: [o for o in stack if loop not in stacks[o]] for loop, stack in stacks.items()}

        def outwards(loop: Loop) -> Iterator[list[Loop]]:
            nearest = [o for o in around[loop] if not any(o in around[other] for other in around[loop])]
            yield from ([loop, *outer] for o in nearest for outer in outwards(o))
            yield from () if nearest else ([loop],)

        innermost = [loop for loop in loops if not any(loop in outer for outer in around.values())]
        found = [nest for loop in innermost for nest in islice(outwards(loop), _MOST_NESTS)]
        return found if 0 < len(found) < _MOST_NESTS else [list(loops)]
