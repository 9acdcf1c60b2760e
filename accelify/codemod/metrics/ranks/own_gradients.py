"""Which gradients are one rank's own: those of tensors that no optimizer steps, a perturbation or a trigger."""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import cached_property

from accelify.codemod.libraries import names
from accelify.codemod.metrics.ranks.shards import Loop
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.values import Made, Value

_OPTIMIZERS = frozenset({"optimizer", "closure_optimizer"})


class OwnGradients:
    """Tell them from the gradients of weights, which are averaged."""

    def __init__(self, chains: Chains, rounds: Collection[ast.AST]) -> None:
        self.chains = chains
        self.program = chains.program
        self.rounds = rounds

    def loop_of(self, gradient: ast.Attribute) -> Loop | None:
        """The sharded loop in each of whose rounds a tensor that the script makes gets a gradient of its own."""
        around = next((loop for loop in self.program.loops_round(gradient) if loop in self.rounds), None)
        owners = self.program.values(gradient.value)
        are_made = bool(owners) and all(isinstance(v, Made) and names.is_factory(v.name) for v in owners)
        return around if are_made and owners.isdisjoint(self._stepped) else None

    @cached_property
    def _stepped(self) -> frozenset[Value]:
        """What optimizers are given."""
        calls = (c for c in self.program.calls if self.chains.kinds.of(c) & _OPTIMIZERS)
        given = (n for c in calls for a in c.args[:1] for n in ast.walk(a) if isinstance(n, ast.expr))
        held = {v for n in given for v in self.program.values(n)}
        return frozenset(held.union(*map(self.program.flow.elements, held)))
