"""What is drawn, and decides what is trained, while an iterator of a prepared loader is kept that has begun?

self.batches = iter(loader)          # `next(self.batches)` in a loop begins a loop that goes on until the data end
for k in np.random.choice(9, 2):     # so here, outside of all loops over data, each process draws its own
    clients[k].train()
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from accelify.codemod.libraries.row import DRAWS, Effect
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.training.origins import Origins
from accelify.codemod.training.roles import Roles
from accelify.codemod.training.weights import draws_weights

_COMMON = DRAWS - {Effect.DRAWS_GIVEN, Effect.DRAWS_SYSTEM, Effect.DRAWS_IN_TRAINING}
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Drawn:
    """A call that draws what is trained. kept: the places where such iterators are kept."""

    call: ast.Call
    kept: tuple[ast.expr, ...]


class KeptIterators:
    """Find the iterators that objects keep, and the draws that may come after a batch was taken from one."""

    def __init__(
        self,
        program: Program,
        is_loader: Callable[[ast.expr], bool],
        is_in_a_round: Callable[[ast.AST], bool],
        trains: Callable[[ast.AST], bool],
    ) -> None:
        self.program = program
        self.is_loader = is_loader
        self.is_in_a_round = is_in_a_round
        self.trains = trains

    def draws(self) -> Iterator[Drawn]:
        """The draws outside of all loops over sharded data that decide what is trained."""
        taken = [c for c in self.program.calls if self._takes_of_a_kept_one(c)] if self._kept else []
        found = dict.fromkeys(c for node in (self._choosing() if taken else ()) for c in self._drawn(node))
        for call in sorted(found, key=self.program.position):
            if any(self.program.may_follow(call, each) for each in taken) and not self.is_in_a_round(call):
                yield Drawn(call, tuple(self._kept))

    @cached_property
    def _begun(self) -> list[ast.Call]:
        """The calls that begin to go over prepared loaders."""
        begun = ((c, self.program.begun(c)) for c in self.program.calls)
        return [c for c, loader in begun if loader is not None and self.is_loader(loader)]

    @cached_property
    def _kept(self) -> list[ast.expr]:
        """The attributes, and places in lists, that hold iterators of prepared loaders."""
        statements = (self.program.parent(c) for c in self._begun)
        targets = [t for s in statements if isinstance(s, ast.Assign) for t in s.targets]
        return sorted((t for t in targets if isinstance(t, (ast.Attribute, ast.Subscript))), key=self.program.position)

    def _takes_of_a_kept_one(self, call: ast.Call) -> bool:
        """Whether a loop asks for a batch of one, and where that is the last begins to go over the loader again."""
        asked = self.program.iterator(call)
        is_kept = isinstance(asked, (ast.Attribute, ast.Subscript)) and self.is_loader(asked)
        return is_kept and len(call.args) < 2 and self._is_in_a_loop(call, _DEPTH) and self._goes_on_behind(call)

    def _is_in_a_loop(self, node: ast.AST, depth: int) -> bool:
        calls = self.program.calls_of(self.program.frame(node)) if depth else []
        return bool(self.program.loops_round(node)) or any(self._is_in_a_loop(c, depth - 1) for c in calls)

    def _goes_on_behind(self, call: ast.Call) -> bool:
        """Whether no handler round a call takes the end of the data for the end of the loop."""
        tries = (n for n in self.program.ancestors(call) if isinstance(n, ast.Try))
        handlers = [h for t in tries if any(self.program.inside(call, s) for s in t.body) for h in t.handlers]
        calls = [n for h in handlers for n in ast.walk(h) if isinstance(n, ast.Call)]
        run = self.program.run_through(calls)
        return not handlers or any(c in calls or self.program.frame(c) in run for c in self._begun)

    def _choosing(self) -> Iterator[ast.expr]:
        """What decides what is trained: what a loop goes over, a condition, whose method is called."""
        for parsed in self.program.files:
            for node in parsed.parents:
                if isinstance(node, (ast.For, ast.AsyncFor)) and self.trains(node):
                    yield node.iter
                elif isinstance(node, (ast.If, ast.While)) and self.trains(node):
                    yield node.test
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and self.trains(node):
                    yield node.func.value

    def _drawn(self, node: ast.expr) -> Iterator[ast.Call]:
        """The calls of libraries that draw, for an expression, from the random numbers that all code shares."""
        effects = self.program.once(Effects)
        origins = Origins(self.program, self.program.once(Roles), self.program.once(Tracer))
        for call in (n for n in origins.along_results([node], self._goes_on) if isinstance(n, ast.Call)):
            is_library_s = not self.program.flow.callees.get(call) and bool(effects.kinds.called(call))
            is_drawn = is_library_s and bool(effects.of_call(call).effects & _COMMON)
            if is_drawn and not draws_weights(self.program, self.program.statement(call)):
                yield call

    def _goes_on(self, node: ast.AST) -> bool:
        """Whether what a node is made from may be drawn for a decision: not what a loader takes its rows from."""
        return not (isinstance(node, ast.expr) and self.is_loader(node))
