"""What does each backward pass learn from: loaders, the script's own data, random draws, always the same?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence, Set

from accelify.codemod.libraries.row import SEEDS
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Collection, Element
from accelify.codemod.training.experience import Results
from accelify.codemod.training.loops.asked_batches import AskedBatches, asked_of
from accelify.codemod.training.loops.bodies import Loop, nodes_in
from accelify.codemod.training.loops.given_batches import GivenBatches
from accelify.codemod.training.loops.iterables import Iterables, is_given
from accelify.codemod.training.loops.model_runs import ModelRuns
from accelify.codemod.training.loops.nesting import Nesting
from accelify.codemod.training.loops.own_data import OwnData
from accelify.codemod.training.loops.training import Data
from accelify.codemod.training.losses import losses_of
from accelify.codemod.training.made_anew import Anew
from accelify.codemod.training.randomness.draws import draws, function_draws
from accelify.codemod.training.randomness.evaluating_calls import Evaluations
from accelify.codemod.training.randomness.passes import Passes
from accelify.codemod.training.randomness.workers import Workers
from accelify.codemod.training.roles import Roles, stepped
from accelify.codemod.training.row_groups import regroups
from accelify.codemod.training.weights import draws_weights


class Learning:
    """Find the data of a backward pass in the loops round it."""

    def __init__(
        self,
        program: Program,
        roles: Roles,
        tracer: Tracer,
        nesting: Nesting,
        iterables: Iterables,
        own_data: OwnData,
        anew: Anew,
        passes: Passes,
    ) -> None:
        self.program = program
        self.flow = program.flow
        self.roles = roles
        self.tracer = tracer
        self.nesting = nesting
        self.iterables = iterables
        self.own_data = own_data
        self.anew = anew
        self.passes = passes
        self.asked = AskedBatches(program, roles, nesting, iterables, anew)
        self.model_runs = ModelRuns(program, roles)
        self.given_batches = GivenBatches(program, self.model_runs)
        self.results = Results(program, tracer, self.model_runs.is_one)
        self.read: Set[ast.Call] = frozenset()  # the backward passes whose gradients are only read
        self.frames: Set[Scope] = frozenset()  # the functions of all backward passes

    def all(self, backward: ast.Call, loops: Sequence[Loop], steps: list[ast.Call]) -> list[Data]:
        """What a backward pass learns from, in each of the nests of loops that come to it; first what is sharded."""
        found = dict.fromkeys(d for nest in self.nesting.nests(loops) for d in self._data(backward, nest, steps))
        return sorted(found, key=lambda d: d.sharded_loop is None)

    def _data(self, backward: ast.Call, loops: Sequence[Loop], steps: list[ast.Call]) -> list[Data]:
        for loop in loops:
            if (
                isinstance(loop, ast.For)
                and self._goes_over_groups(loop)
                and any(loop in self.nesting.stack(s) for s in steps)
            ):
                return [Data("sequence", loop, (self.tracer.inside(loop.iter, "reversed"),))]
        of_loaders = [loop for loop in loops if isinstance(loop, ast.For) and self.iterables.is_loader_loop(loop)]
        found, drawn = self._of_loaders(backward, loops, of_loaders)
        sharded = [d for d in found if not any(map(self.own_data.experience.holds, d.sources))]
        if any(self._adapts(loop, loops, steps) for loop in of_loaders):
            return [Data("full", loops[0])]
        if sharded or drawn or found:
            return self._by_loop(sharded) if sharded else [Data("random", loops[0])]
        for loop in loops:
            source = self.own_data.own(loop)
            if source is not None and not self.own_data.is_within_a_batch(loop):
                if self.own_data.is_own_experience(loop, source[1]):
                    return [Data("random", loops[0])]
                if self.anew.starts_over(loop, self._stepped_in(loop, steps)) or any(self.own_data.chosen(loop)):
                    break
                if self._is_over_parts_of_a_loss(loop, backward) or self._clears_without_a_step(loop, steps):
                    continue
                state = self._state(loop, backward) if source[0] == "sequence" else None
                return [Data("full", loop, state=state) if state else Data(source[0], loop, (source[1],))]
        once = self.passes.asked(loops)
        if once is not None:
            return [Data("pass", loops[0], (once,))]
        if self.given_batches.train(backward):
            return [Data("given", loops[0] if loops else None)]
        walked = next((loop for loop in loops if self.own_data.walks(loop)), None)
        if walked is not None and not self.own_data.experience.asks:
            return [Data("full", walked)]
        if self._draws(loops, backward) or next(Workers(self.program).drawing(), None) is not None:
            kind = "full" if self._draws_a_task(backward, loops, steps) else "random"
            return [Data(kind, loops[0] if loops else None, tuple(self.asked.of_others(loops)))]
        given = next((loop for loop in loops if self._goes_over_given_batches(loop, backward)), None)
        if given is not None:
            return [Data("given", given)]
        return [Data("full", loops[0] if loops else None, tuple(self.asked.of_others(loops)))]

    def _state(self, loop: Loop, backward: ast.Call) -> ast.Name | None:
        """What the steps of a loop hand on from one to the next, beside the models."""
        evaluations = Evaluations(self.program, self.roles, self.frames, self.read - {backward})
        return self.model_runs.state(loop, evaluations)

    def _of_loaders(
        self, backward: ast.Call, loops: Sequence[Loop], of_loaders: Sequence[ast.For]
    ) -> tuple[list[Data], list[ast.Call]]:
        """The loaders that loops go over, or ask for a batch, and all calls that ask."""
        found = [self._of_a_loader(loop) for loop in of_loaders]
        evaluations = Evaluations(self.program, self.roles, [self.program.frame(backward)])
        drawn = [
            c for c in self.asked.calls(loops) if not self.asked.is_for_a_round_s_own(c) and not evaluations.asks(c)
        ]
        given = None if of_loaders else next(filter(self._is_over_a_given_loader, loops), None)
        if isinstance(given, ast.For) and drawn:
            drawn = [
                c for c in drawn if given in self.nesting.stack(c) or self.program.frame(c) is self.program.frame(given)
            ]
            found.append(Data("loaders", given, (self.tracer.inside(given.iter, "reversed"),)))
        asked = [call for call in drawn if not self.asked.searches(call, loops)]
        found.extend(Data("loaders", self._asking(asked, loops), (asked_of(call),)) for call in asked)
        return found, drawn

    def _asking(self, asked: Sequence[ast.Call], loops: Sequence[Loop]) -> Loop:
        """The innermost loop that asks for a batch in each round: one within it takes several steps on the same."""
        around = {loop for call in asked for loop in self.nesting.stack(call)}
        return next((loop for loop in loops if loop in around), loops[0])

    def _of_a_loader(self, loop: ast.For) -> Data:
        """The data of a loop over a loader; where it may be a list of the script's own, too, `shard` takes either."""
        reaching = {v for chain in self.tracer.chains(loop.iter) for v in self.program.values(chain[-1].value)}
        lists = [v for v in reaching & self.program.values(loop.iter) if isinstance(v, Collection)]
        is_own = any(self.flow.elements(v) and not self.iterables.holds_batches(v) for v in lists)
        return Data("sequence" if is_own else "loaders", loop, (loop.iter,))

    def _is_over_a_given_loader(self, loop: Loop) -> bool:
        """Whether a loop trains on what callers give that are not known: a loader, as far as anything shows."""
        source = self.own_data.own(loop)
        if source is None or source[0] != "loaders":
            return False
        held = self.iterables.gone_over(source[1])
        return bool(held) and all(map(is_given, held))

    def _by_loop(self, found: Sequence[Data]) -> list[Data]:
        """The loaders of several loops: of the first, of those beside it, and further ones of the first."""
        first, *others = found
        beside = [d for d in others if d.sources and d.loop is not first.loop and not self._holds(d.loop, first.loop)]
        return [first, *beside, *(d for d in others if d.loop is first.loop)]

    def _is_over_parts_of_a_loss(self, loop: Loop, backward: ast.Call) -> bool:
        """Whether the models ran before a loop, and it goes back through them from one objective after the other."""
        if not all(map(self.results.holds, losses_of(self.program, backward) or [backward])):
            return False
        runs = (call for call in self.program.calls if self.model_runs.is_one(call))
        return not any(loop in self.nesting.stack(call) for call in runs)

    def _clears_without_a_step(self, loop: Loop, steps: Iterable[ast.Call]) -> bool:
        """Whether rounds put their gradients aside for one step after the loop: those of tasks, or of domains."""
        around = [self.nesting.stack(step) for step in steps if self.program.frame(step) is self.program.frame(loop)]
        is_cleared = any(isinstance(n, ast.Attribute) and n.attr == "zero_grad" for n in nodes_in(loop))
        return is_cleared and bool(around) and all(loop not in stack for stack in around)

    def _stepped_in(self, loop: ast.AST, steps: Iterable[ast.Call]) -> list[ast.expr]:
        """The optimizers that a loop steps."""
        return [stepped(s) for s in steps if loop in self.nesting.stack(s)]

    def _adapts(self, loop: ast.For, loops: Sequence[Loop], steps: list[ast.Call]) -> bool:
        """Whether each batch of a loop trains for itself: gradients of several batches must not be averaged.

        So does one that functions train which also train what lasts; and one that several steps learn from before the
        weights of before are put back.
        """
        held = self._stepped_in(loop, steps)
        if self.anew.begins(loop, held):
            return self.anew.is_mixed(loop, held)
        return loops.index(loop) > 0 and self.anew.starts_over(loop, held)

    def _draws_a_task(self, backward: ast.Call, loops: Sequence[Loop], steps: list[ast.Call]) -> bool:
        """Whether rounds that start over, or loops round them, draw what the steps have in common: tasks, a split.

        So do those that adapt something beside a training, for which all processes are to draw the same.
        """
        if self.own_data.experience.asks:
            return False
        outer = self.anew.started_over(backward, loops, steps)
        if outer is None:
            return False
        if self.anew.is_beside(outer, steps):
            return True
        effects = self.program.once(Effects)
        seeding = (c for c in self.program.calls if effects.of_call(c).effects & SEEDS)
        drawing = (c for c in self.program.calls if draws(self.program, c) and not draws_weights(self.program, c))
        drawn = {outer, *self.nesting.stack(outer)} - {loop for c in seeding for loop in self.nesting.stack(c)[:1]}
        return any(not drawn.isdisjoint(self.nesting.stack(c)[:1]) for c in drawing)

    def _goes_over_groups(self, loop: ast.For) -> bool:
        """Whether a loop iterates over what a collate function has cut the rows of one batch into."""
        loaders = [v for v in self.iterables.owners(loop.iter) if self.roles.is_loader(v)]
        is_within = bool(loaders) and self.iterables.is_part_of_a_batch(loop)
        return is_within and all(regroups(self.program, v) for v in loaders)

    def _holds(self, outer: Loop | None, inner: Loop | None) -> bool:
        return outer is not None and inner is not None and self.program.inside(inner, outer)

    def _goes_over_given_batches(self, loop: Loop, backward: ast.Call) -> bool:
        """Whether a loop shows a model what it takes from a parameter, or an attribute, that nothing here sets."""
        owners = self.iterables.owners(loop.iter) if isinstance(loop, (ast.For, ast.AsyncFor)) else set()
        are_given = bool(owners) and all(map(is_given, owners))
        shown = self.model_runs.shown(self.program.frame(backward)) if are_given else ()
        return any(isinstance(v, Element) and v.owner in owners for v in shown)

    def _draws(self, loops: Sequence[Loop], backward: ast.Call) -> bool:
        """Whether the data of a step are drawn at random or come from an environment."""
        inside, frames = set(loops), [self.program.frame(backward)]
        evaluations = Evaluations(self.program, self.roles, frames, self.read - {backward})
        for call in self.program.calls:
            if (
                draws(self.program, call)
                and self.program.frame(call) in self.program.reachable
                and any(loop in inside for loop in self.nesting.stack(call))
                and not evaluations.hold(call)
                and not (self.read and evaluations.asks(call))
            ):
                return True
        frame = self.program.frame(backward)
        is_called_elsewhere = frame.is_function and not self.flow.callers.get(frame)
        return not loops and is_called_elsewhere and function_draws(self.program, frame)
