"""Which random generators of the script's own do training steps draw from, and where are they seeded?

Seeded alike in every process, they give every process the same batches.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from accelify.codemod.libraries import names, table
from accelify.codemod.libraries.row import DRAWS, Role
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Made
from accelify.codemod.training.loops.loops import Loops
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.randomness.evaluating_calls import Evaluations


@dataclass(frozen=True, slots=True)
class OwnGenerator:
    """A generator. seeds: the expressions that seed it. is_shared: whether more than training steps uses it."""

    made: ast.Call
    seeds: tuple[ast.expr, ...]
    is_shared: bool


class OwnGenerators:
    """Find those that are drawn from in the loops of the training."""

    def __init__(self, program: Program, loops: Loops, training: Training) -> None:
        self.program = program
        self.loops = loops
        self.evaluations = Evaluations(program, loops.roles, training.frames)
        self.round_steps = {loop for listed in training.loops.values() for loop in listed}

    def find(self) -> Iterator[OwnGenerator]:
        """Each with the expressions that seed it."""
        for generator, draws in self._draws.items():
            inside = [c for c in draws if self.round_steps & set(self.loops.nesting.stack(c))]
            inside = [c for c in inside if not self.evaluations.reach_no_step(c)]
            made = generator.node
            if inside and isinstance(made, ast.Call):
                seeding = self._seeding(generator)
                shared = any(self._is_other_use(n, {*inside, *seeding}) for n in self._reads(generator))
                yield OwnGenerator(made, tuple(_seeds_in([made, *seeding])), shared)

    def alike(self, sharded: Set[ast.AST]) -> Iterator[ast.expr]:
        """What seeds the generators and transforms that all processes draw alike from, each for its own shard.

        sharded: the loops over data of which each process has a shard; a data set gives each process its own samples.
        """
        kinds = self.program.once(Effects).kinds
        seeding = [c for c in self.program.calls if any(row.role is Role.SEED for row in kinds.called(c) or ())]
        yield from _seeds_in([c for c in seeding if "transform" in kinds.of(getattr(c.func, "value", c))])
        getters = [f for f in self.program.reachable if f.name == "__getitem__" and f.is_method]
        getting = self.program.run_from(getters)
        for generator, draws in self._draws.items():
            made = generator.node
            is_own = any(
                self.program.frame(c) in getting or not sharded.isdisjoint(self.loops.nesting.stack(c)) for c in draws
            )
            if is_own and isinstance(made, ast.Call):
                around = {*self.loops.nesting.stack(made), self.program.frame(made).node}
                if around.isdisjoint({*sharded, *(f.node for f in getting)}):
                    yield from _seeds_in([made, *self._seeding(generator)])

    @cached_property
    def _draws(self) -> dict[Made, list[ast.Call]]:
        used: dict[Made, list[ast.Call]] = {}
        for call in self.program.calls:
            for generator in self.drawn_from(call):
                used.setdefault(generator, []).append(call)
        return used

    def _seeding(self, generator: Made) -> list[ast.Call]:
        return [c for c in self.program.calls if self._seeds(c, generator)]

    def seeded_again(self) -> list[ast.expr]:
        """The calls that seed the generators of the libraries in the loops of the training."""
        calls = [c for c in self.program.calls if self.program.frame(c) in self.program.reachable]
        return [
            c.args[0]
            for c in calls
            if c.args and self.is_round_a_step(c) and any(map(names.is_seed, self.program.called(c)))
        ]

    def is_round_a_step(self, node: ast.AST) -> bool:
        """Whether a node stands in a loop of the training, or in a generator that one asks for its batches."""
        is_inside = not self.round_steps.isdisjoint(self.program.loops_round(node))
        return is_inside or self.program.frame(node) in self._asked

    @cached_property
    def _asked(self) -> set[Scope]:
        return {generator for _, generator in self.loops.passes.generators(list(self.round_steps))}

    def _held(self, node: ast.expr | None) -> list[Made]:
        made = [v for v in self.program.values(node) if isinstance(v, Made)]
        rows = [(v, table.function(v.name)) for v in made]
        return [v for v, row in rows if row is not None and row.role is Role.GENERATOR]

    def drawn_from(self, call: ast.Call) -> list[Made]:
        """`g` of `rng.integers(8)` and of `torch.rand(2, generator=g)`."""
        if self.program.frame(call) not in self.program.reachable:
            return []
        found = [v for k in call.keywords if k.arg == "generator" for v in self._held(k.value)]
        if isinstance(call.func, ast.Attribute):
            found += [v for v in self._held(call.func.value) if self._asks(v, call.func.attr, Role.SEED) is False]
        return found

    @staticmethod
    def _asks(generator: Made, method: str, role: Role) -> bool | None:
        """Whether a method of a generator seeds it; None where it neither seeds nor draws."""
        row = table.member(table.kind_made_by(generator.name), method)
        if row is not None and row.role is role:
            return True
        return False if row is not None and row.effects & DRAWS else None

    def _seeds(self, call: ast.Call, generator: Made) -> bool:
        """`generator.manual_seed(1)`"""
        function = call.func
        held = isinstance(function, ast.Attribute) and generator in self.program.values(function.value)
        return held and bool(self._asks(generator, function.attr, Role.SEED))  # type: ignore[attr-defined]  # an attribute

    def _reads(self, generator: Made) -> list[ast.expr]:
        """The names and attributes that hold a generator."""
        return [
            node
            for node, values in self.program.flow.values.items()
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load) and generator in values
        ]

    def _is_other_use(self, node: ast.expr, known: set[ast.Call]) -> bool:
        """Whether a generator is used here for more than to draw for a step, to be seeded, kept or passed on."""
        parent = self.program.parent(node)
        if isinstance(parent, (ast.Attribute, ast.keyword)):
            parent = self.program.parent(parent)
        if isinstance(parent, ast.Call):
            return parent not in known and not self.program.flow.callees.get(parent)
        return not isinstance(parent, (ast.Assign, ast.AnnAssign, ast.Return))


def _seeds_in(calls: Sequence[ast.Call]) -> Iterator[ast.expr]:
    """The seeds that are given to generators, where they are made or later."""
    given = [*(c.args[0] for c in calls if c.args), *(k.value for c in calls for k in c.keywords if k.arg == "seed")]
    return (s for s in given if not isinstance(s, ast.Constant) or s.value is not None)
