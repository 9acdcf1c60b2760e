"""Where do loops ask for their batches by `next`, and of what?"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property

from accelify.codemod.libraries import names
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.values import Element, Instance, Made, Member, View
from accelify.codemod.training.loops.bodies import Loop
from accelify.codemod.training.loops.iterables import Iterables, is_given
from accelify.codemod.training.loops.model_runs import ModelRuns
from accelify.codemod.training.loops.nesting import Nesting
from accelify.codemod.training.made_anew import Anew
from accelify.codemod.training.roles import Roles


class AskedBatches:
    """Find the calls of `next` that give a step its batch."""

    def __init__(self, program: Program, roles: Roles, nesting: Nesting, iterables: Iterables, anew: Anew) -> None:
        self.program = program
        self.flow = program.flow
        self.roles = roles
        self.nesting = nesting
        self.iterables = iterables
        self.anew = anew
        self.model_runs = ModelRuns(program, roles)

    def calls(self, loops: Sequence[Loop]) -> list[ast.Call]:
        """`next(iterator)` of a loader, in the loops or in what they call."""
        found = []
        for call, asked in self._asking:
            if not (self._is_batch(call) or self._numbers(asked) or self._yields_batches(asked)):
                continue
            own = self.program.loops_round(call)
            if own and own[0] not in loops and self.model_runs.are_in(own[0]):
                continue  # an evaluation, with a loop of its own
            if any(loop in loops for loop in self.nesting.stack(call)):
                found.append(call)
        within = [c for c in found if not self._asks_its_own(c)]
        return within or found

    @cached_property
    def _asking(self) -> list[tuple[ast.Call, ast.expr]]:
        """The calls that take an item of something, and of what."""
        asked = ((call, self.program.iterator(call)) for call in self.program.calls)
        return [(call, each) for call, each in asked if each is not None]

    def _is_batch(self, node: ast.expr) -> bool:
        held = [v.owner for v in self.program.values(node) if isinstance(v, Element)]
        return any(self.roles.is_loader(owner) or is_given(owner) for owner in held)

    def _numbers(self, asked: ast.expr) -> bool:
        """Whether an iterator gives a loader's batches with their numbers: `enumerate(loader)`."""
        views = [v for v in self.program.values(asked) if isinstance(v, View)]
        return bool(views) and any(map(self.roles.is_loader, self.iterables.owners(asked)))

    def _yields_batches(self, asked: ast.expr) -> bool:
        """Whether an iterator is a generator's, which makes what it yields from a loader's batches."""
        made = self.iterables.generators(asked)
        return bool(made) and all(any(True for _ in self.iterables.yielded_from(g.scope)) for g in made)

    def searches(self, call: ast.Call, loops: Sequence[Loop]) -> bool:
        """Whether `next(iter(loader))` is asked until enough was found, which no two processes ask equally often."""
        is_anew = self.program.begun(self.program.iterator(call)) is not None
        own = self.program.loops_round(call)
        return is_anew and bool(own) and isinstance(own[0], ast.While) and own[0] not in loops

    def is_for_a_round_s_own(self, call: ast.Call) -> bool:
        """Whether each round makes a loader and its data anew and asks it for a batch: a task, which is not divided."""
        loops = self.nesting.stack(call)
        loaders = [v for v in self.iterables.owners(asked_of(call)) if self.roles.is_loader(v)]
        return bool(loops and loaders) and all(self.anew.makes_data(loops[0], v) for v in loaders)

    def _asks_its_own(self, call: ast.Call) -> bool:
        """Whether `next` is asked of an object of the project's own, which asks the loaders that it holds."""
        asked = "__next__" if call.args or not isinstance(call.func, ast.Attribute) else call.func.attr
        values = self.program.values(asked_of(call))
        return any(isinstance(v, Instance) and self.flow.method(v.cls, asked) for v in values)

    def of_others(self, loops: Sequence[Loop]) -> Iterator[ast.expr]:
        """The batches that some loops ask for by `next`, from an iterator neither known nor of the project's own."""
        for call in self.program.calls:
            asked = self.program.iterator(call)
            if not isinstance(asked, (ast.Name, ast.Attribute)) or not any(
                loop in loops for loop in self.nesting.stack(call)
            ):
                continue
            made = [o.root if isinstance(o, Member) else o for o in self.iterables.owners(asked)]
            of_others = (
                isinstance(o, Made) and not names.is_counter(o.name) and not self.roles.is_loader(o) for o in made
            )
            if all(of_others):
                yield asked


def asked_of(call: ast.Call) -> ast.expr:
    """The iterator of `next(batches)` or `batches.next()`."""
    if call.args:
        return call.args[0]
    assert isinstance(call.func, ast.Attribute)
    return call.func.value
