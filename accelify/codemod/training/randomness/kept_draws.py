"""Which samples are drawn once, before the loops, for all of the training? All processes have to train on the same.

    image = next(iter(loader))[0]    # or data[torch.randperm(len(data))[:4]]
    for step in range(1000):
        loss = criterion(model(image + noise()), image)

Not an order of which each round takes its part, and not what rounds draw or give anew.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence, Set

from accelify.codemod.libraries.row import DRAWS
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, returned
from accelify.codemod.semantics.values import Element, Made
from accelify.codemod.training.loops.bodies import Loop
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.losses import losses_of
from accelify.codemod.training.origins import Origins
from accelify.codemod.training.randomness.draws import asks_environment, draws
from accelify.codemod.training.randomness.loader_draws import LoaderDraws
from accelify.codemod.training.roles import Roles

_DEPTH = 3  # calls round a draw


class KeptDraws:
    """Follow the losses back to the draws outside of their loops, along what is the same in each round."""

    def __init__(self, program: Program, training: Training) -> None:
        self.program = program
        self.training = training
        self.roles = program.once(Roles)
        self.chains = program.once(Chains)
        self.loaders = LoaderDraws(program, self.roles)
        self.origins = Origins(program, self.roles, program.once(Tracer))

    def find(self) -> list[ast.Call]:
        """The calls that draw such samples, or which rows they are of."""
        drawn = {d.loop for d in self.training.data if d.kind == "random"}
        found = (c for b, loops in self.training.loops.items() if drawn & {*loops} for c in self._kept(b, loops))
        return sorted(set(found), key=self.program.position)

    def _kept(self, backward: ast.Call, loops: Sequence[Loop]) -> Iterator[ast.Call]:
        rounds = Rounds(self.program, loops)
        losses = losses_of(self.program, backward)
        reached = set(self.origins.along_results(losses, lambda node: self._is_the_same(node, rounds)))
        others = {n for n in reached if self._is_for_another_result(n, rounds, reached)}
        along = self.origins.along_results(losses, lambda n: n not in others and self._is_the_same(n, rounds))
        for call in (n for n in along if isinstance(n, ast.Call) and n not in others):
            is_over = not self.program.may_follow(backward, call)
            if not is_over and self._is_run_once(call, rounds, _DEPTH) and self._draws(call):
                yield call

    def _is_for_another_result(self, node: ast.AST, rounds: Rounds, reached: Set[ast.AST]) -> bool:
        """Whether a node is passed to what rounds run, too, for a result that they do not get: to plot it, say."""
        parent = self.program.parent(node)
        call = self.program.parent(parent) if isinstance(parent, ast.keyword) else parent
        if not isinstance(call, ast.Call) or call.func is node or call in reached or rounds.hold(call):
            return False
        is_run = rounds.run.issuperset(callees := self.program.flow.callees.get(call, set()))
        return bool(callees) and is_run and not self.program.once(Effects).of_call(call).writes

    def _is_run_once(self, call: ast.Call, rounds: Rounds, depth: int) -> bool:
        """Whether a call is run outside of rounds, on the way to them or in what is built there, in no other loop."""
        frame = self.program.frame(call)
        if rounds.hold(call) or self.program.loops_round(call):
            return False
        if not frame.is_function or frame in self.training.frames or frame in rounds.frames:
            return True
        calls = self.program.calls_of(frame)
        return depth > 0 and len(calls) == 1 and all(self._is_run_once(c, rounds, depth - 1) for c in calls)

    def _is_the_same(self, node: ast.AST, rounds: Rounds) -> bool:
        """Whether a node gives each round the same from what it is made of: not `order[i]`, `next(it)`, `x = f(x)`."""
        if isinstance(node, ast.Call) and (self._draws(node) or self.program.iterator(node) is not None):
            return False
        if isinstance(node, ast.Subscript) and rounds.hold(node):
            parts = [*ast.walk(node.slice)]
            names = (n for n in parts if isinstance(n, ast.Name))
            is_of_round = any(rounds.hold(d.node) for n in names for d in self.chains.definitions(n))
            return not is_of_round and not any(isinstance(n, ast.Call) for n in parts)
        if isinstance(node, (ast.Name, ast.Attribute)):
            places = [d.node for d in self.chains.definitions(node)]
            inside = [p for p in places if rounds.hold(p)]
            is_item = any(isinstance(self.program.binding(p)[1], LOOPS) for p in inside if isinstance(p, ast.Name))
            return not is_item and len(inside) in (0, len(places))
        return True

    def _draws(self, call: ast.Call) -> bool:
        """Whether a call draws numbers, or takes a batch of a loader that shuffles, or whose items are drawn."""
        if asks_environment(self.program, call):
            return False
        callees = self.program.flow.callees.get(call, ())
        if self.program.iterator(call) is None and not callees:
            return draws(self.program, call)
        if callees and self._returns_draws(call, callees):
            return True
        owners = [v.owner for v in self.program.values(call) if isinstance(v, Element)]
        made = [o.node for o in owners if isinstance(o, Made) and isinstance(o.node, ast.Call)]
        return any(self.loaders.shuffle(node) or self.loaders.draw_items(node) for node in made)

    def _returns_draws(self, call: ast.Call, callees: Iterable[Scope]) -> bool:
        """Whether a function of the project's own returns what is made from numbers that it draws."""
        values = (value for value in returned(callees) if value is not None)
        made = (n for n in self.origins.along_results(values, lambda node: True) if isinstance(n, ast.Call))
        run = self.program.run_through([call])
        return any(draws(self.program, c) and self.program.frame(c) in run for c in made)

    def draws_others(self, statement: ast.stmt, kept: Set[ast.Call]) -> bool:
        """Whether a statement may draw something else, which each process may have to draw for itself."""
        calls = {n for n in ast.walk(statement) if isinstance(n, ast.Call)} - kept
        effects = self.program.once(Effects)
        return any(
            draws(self.program, c) or (self.program.flow.callees.get(c) and effects.of_call(c).effects & DRAWS)
            for c in calls
        )


class Rounds:
    """The loops round a backward pass, with the functions that they run."""

    def __init__(self, program: Program, loops: Sequence[Loop]) -> None:
        self.program = program
        self.loops = loops
        self.run = program.run_through(c for c in program.calls if any(program.inside(c, loop) for loop in loops))
        self.frames = {program.frame(loop) for loop in loops} - self.run

    def hold(self, node: ast.AST) -> bool:
        return self.program.frame(node) in self.run or any(self.program.inside(node, loop) for loop in self.loops)
