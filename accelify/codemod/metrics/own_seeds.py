"""Where do processes get random numbers of their own before the training, or for the order of their data?

torch.manual_seed(int(time.time()))    random.seed()    rng = np.random.default_rng()
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accelify.codemod.libraries.row import DRAWS, SEEDS, Role, Trait
from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.semantics.conditions import Conditions
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.values import Argument, Constant, Value
from accelify.codemod.training.loops.bodies import Loop
from accelify.codemod.training.loops.loops import Loops
from accelify.codemod.training.randomness.loader_draws import LoaderDraws
from accelify.codemod.training.randomness.own_generators import OwnGenerators


@dataclass(frozen=True, slots=True)
class OwnSeed:
    """A call that seeds, or makes a generator.

    orders: whether a loader draws the order of its data after it. is_again: whether each round of a training, an epoch,
    is set up by it.
    """

    call: ast.Call
    orders: bool
    is_again: bool


def own_seeds(metrics: Metrics) -> Iterator[OwnSeed]:
    """The calls that seed by the clock or the system, and generators that are seeded so, where the set-up draws."""
    return _OwnSeeds(metrics).find()


class _OwnSeeds:
    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.program = metrics.measured.program
        self.training = metrics.measured.training
        self.loops = Loops(self.program, metrics.measured.roles, metrics.measured.tracer)
        self.generators = OwnGenerators(self.program, self.loops, self.training)
        self.rounds = {loop for listed in self.training.loops.values() for loop in listed}
        self.steps = {loop for listed in self.training.loops.values() for loop in listed[:1]}
        self.effects = self.program.once(Effects)
        self.conditions = self.program.once(Conditions)
        self.ordering = LoaderDraws(self.program, metrics.measured.roles).ordering
        self.handed_on = {function for _, function in self.program.flow.handed_on}  # workers begin with one

    def find(self) -> Iterator[OwnSeed]:
        """Each such call, in the order of the text."""
        for call in sorted(self.program.calls, key=self.program.position):
            roles = {row.role for row in self.metrics.measured.chains.kinds.called(call) or ()}
            if not roles & {Role.SEED, Role.GENERATOR} or not self._is_in_set_up(call) or not self._has_own_seed(call):
                continue
            orders = self.program.frame(call) in self.ordering
            if orders or Role.SEED in roles or self._is_drawn_from(call):
                yield OwnSeed(call, orders, self._is_in_round(call))

    def _is_in_set_up(self, call: ast.Call) -> bool:
        """Whether a call is not run for each batch, or each row of a data set, unless it is run for their order."""
        frame = self.program.frame(call)
        if frame in self.ordering:
            return True
        run = {frame, *self.program.lambdas(call)}
        if not run <= self.program.reachable:
            return False
        if self._is_in_round(call) and not self._is_for_shards(call):
            return False
        is_constructor = frame.name == "__init__"
        return (is_constructor or not frame.is_method) and self.handed_on.isdisjoint(run)

    def _is_in_round(self, call: ast.Call) -> bool:
        return not self.rounds.isdisjoint(self.loops.nesting.stack(call))

    def _is_for_shards(self, seed: ast.Call) -> bool:
        """Whether a round seeds anew, and draws by that before the steps, of whose data each process gets a shard."""
        stack = self.loops.nesting.stack(seed)
        sharded = {d.sharded_loop for d in self.training.data}
        rounds = {r for s in self.steps & sharded for r in self.loops.nesting.stack(s)}.intersection(stack)
        drawn = {e.value.replace("seeds_", "draws_") for e in self.effects.of_call(seed).effects & SEEDS}
        if not rounds or not self.steps.isdisjoint(stack):
            return False
        for call in self.program.calls:
            if drawn & {e.value for e in self.effects.of_call(call).effects & DRAWS}:
                outer = self.loops.nesting.stack(call)
                within = rounds.intersection(outer) if self.steps.isdisjoint(outer) else set()
                if self.program.may_follow(call, seed) and any(self._comes_before_steps(call, r) for r in within):
                    return True
        return False

    def _comes_before_steps(self, call: ast.Call, loop: Loop) -> bool:
        """Whether a round takes steps after a call: not an evaluation that ends it."""
        if self.program.frame(call) is not self.program.frame(loop):
            return False  # what its function draws counts where the loop calls that
        frames = {self.program.frame(step) for step in self.training.steps}
        calls = (n for n in ast.walk(loop) if isinstance(n, ast.Call))
        places = (c for c in calls if c in self.training.steps or not frames.isdisjoint(self.program.run_through([c])))
        last = max(map(self.program.position, places), default=None)
        return last is None or self.program.position(call) <= last

    def _has_own_seed(self, call: ast.Call) -> bool:
        given = [*call.args, *(k.value for k in call.keywords)]
        if any(self.metrics.ranks.of(g).of(Mark.CLOCK) for g in given):
            return True
        rows = self.metrics.measured.chains.kinds.called(call) or ()
        if not any(row.has(Trait.OWN_SEED) for row in rows) or not self.conditions.worlds(call):
            return False
        return all(map(self._is_none, given))

    def _is_none(self, given: ast.expr) -> bool:
        values = {self._default(v) if isinstance(v, Argument) else v for v in self.program.values(given)}
        return values == {Constant(None)}

    def _default(self, argument: Argument) -> Value | None:
        """What a parameter is if no call gives it."""
        default = argument.scope.defaults.get(argument.name)
        return Constant(default.value) if isinstance(default, ast.Constant) else None

    def _is_drawn_from(self, made: ast.Call) -> bool:
        """Whether the set-up draws from a generator, and nothing else does."""
        calls = [c for c in self.program.calls if any(g.node is made for g in self.generators.drawn_from(c))]
        return bool(calls) and all(map(self._is_in_set_up, calls))
