"""What each rank draws at random for itself: batches, noise in a model, numbers of a library's functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property

from accelify.codemod.libraries import methods, table
from accelify.codemod.libraries.row import DRAWS, Effect, Row, Same
from accelify.codemod.metrics.ranks.labels import NONE, Labels, Mark, Origin
from accelify.codemod.metrics.ranks.running import Running
from accelify.codemod.metrics.ranks.shards import Shards
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.effects.kinds import UNKNOWN
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Made

_DRAWS_EACH_TIME = DRAWS - {Effect.DRAWS_IN_TRAINING}


class Draws:
    """Find out of expressions whether they are drawn from a rank's own stream."""

    def __init__(self, chains: Chains, shards: Shards, running: Running) -> None:
        self.chains = chains
        self.program: Program = chains.program
        self.shards = shards
        self.running = running

    def draws_batches(self, loop: ast.For | ast.AsyncFor) -> bool:
        """Whether each rank evaluates other batches of a loader that is not prepared, as it draws them for itself."""
        return bool(self.item(self.chains.tracer.inside(loop.iter), loop))

    def _leaves_early(self, node: ast.AST, loop: ast.AST) -> bool:
        is_end = isinstance(node, ast.Break) and self.program.loops_round(node)[0] is loop
        return is_end or isinstance(node, ast.Return)

    def item(self, source: ast.expr, holder: ast.AST) -> Labels:
        """The labels of the batches of a loader that draws them from a rank's own stream; all of them are the same."""
        loader, draws = self._loader_in(source), self.shards.loader_draws
        if draws is None or loader is None or self.shards.is_loader(loader) or not self.is_in_a_round(holder):
            return NONE
        is_left = loader is not source or any(self._leaves_early(n, holder) for n in ast.walk(holder))
        is_drawn = (is_left and draws.shuffle(loader)) or draws.draw_items(loader)
        return frozenset({Origin(Mark.DRAW, holder)}) if is_drawn else NONE

    def _loader_in(self, source: ast.expr) -> ast.expr | None:
        """`loader` of `loader` itself, and of what yields some of its batches: `islice(loader, 8)`, `iter(loader)`."""
        while isinstance(source, ast.Call) and source.args and self.chains.kinds.of(source) != {"loader"}:
            source = source.args[0]
        return source if self.chains.kinds.of(source) == {"loader"} else None

    def is_in_a_round(self, node: ast.AST) -> bool:
        """Whether a node is run in a round of a sharded loop, where each rank draws from a stream of its own."""
        around = self.program.loops_round(node)
        return (
            not self.running.rounds.isdisjoint(around)
            or self.running.loop_that_runs(self.program.frame(node)) is not None
        )

    def by_model(self, call: ast.Call, methods_of_it: Iterable[Scope]) -> Labels:
        """The labels of what a model draws where ranks draw apart: in each mode, or as nothing ends its training."""
        effects, is_trained = self.chains.effects, not self._evaluates
        if self._makes_what_is_alike(call) or not (self.shards.draws or (is_trained and self.is_in_a_round(call))):
            return NONE
        done = (effects.of_function(m).effects & _DRAWS_EACH_TIME for m in methods_of_it if self.shards.draws)
        draws = any(done) or (is_trained and self._drops_out(call, methods_of_it))
        return frozenset({Origin(Mark.DRAW, call)}) if draws else NONE

    def _drops_out(self, call: ast.Call, methods_of_it: Iterable[Scope]) -> bool:
        """Whether a model draws while it is trained: a layer of its own, or one of those that a library's holds."""
        layers = (c for method in self.program.run_from(methods_of_it) for c in self.program.calls_in(method))
        is_own = any("dropout" in self.chains.kinds.of(layer.func) for layer in layers)
        return is_own or Effect.DRAWS_IN_TRAINING in self.chains.effects.of_call(call).effects

    @cached_property
    def _evaluates(self) -> bool:
        """Whether the program ever sets a mode of evaluation."""
        asked = (c.func.attr for c in self.program.calls if isinstance(c.func, ast.Attribute))
        return any(methods.switches_mode(name) and name != "train" for name in asked)

    def draws(self, row: Row, call: ast.Call) -> bool:
        """Whether a call draws from a rank's own stream, or asks a worker of its own."""
        if not self._is_meant(row, call):
            return False
        is_own = (row.draws or self._asks_a_worker(row)) and self.shards.draws and not self._makes_what_is_alike(call)
        draws_each_time = not row.effects.isdisjoint(_DRAWS_EACH_TIME) and not self._has_a_seed(call)
        return is_own or (draws_each_time and self.is_in_a_round(call))

    def _has_a_seed(self, call: ast.Call) -> bool:
        """Whether a method draws from a generator that was made with a seed: the same for all ranks if the seed is."""
        function = call.func
        held = self.program.values(function.value) if isinstance(function, ast.Attribute) else ()
        made = [v.node for v in held if isinstance(v, Made) and isinstance(v.node, ast.Call)]
        return bool(held) and len(made) == len(held) and all(node.args or node.keywords for node in made)

    def _is_meant(self, row: Row, call: ast.Call) -> bool:
        """Whether a row is of what is called: what is a model in one branch is no random transform in another."""
        held = self.chains.kinds.of(call.func)
        known = held - {UNKNOWN} if UNKNOWN in held else frozenset()
        return not known or row in [table.member(kind, "__call__") for kind in known]

    @staticmethod
    def _asks_a_worker(row: Row) -> bool:
        """`queue.get()`, of what a process or thread beside the script has drawn."""
        return row.same is Same.NO and row.has(Effect.WAITS)

    def _makes_what_is_alike(self, call: ast.Call) -> bool:
        """Whether a call is outside of the training, where all ranks draw the same."""
        return not self.program.loops_round(call) and self.program.frame(call).kind == "module"
