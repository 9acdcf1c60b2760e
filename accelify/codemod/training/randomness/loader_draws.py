"""Which loaders draw the order of their batches, or what is in them, anew in each pass?

One that is not prepared draws from the stream that the script is at: in a loop over sharded data, each rank's own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from accelify.codemod.libraries.row import DRAWS, Rows
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Instance, Made, Value
from accelify.codemod.training.randomness.draws import function_draws
from accelify.codemod.training.roles import Roles


class LoaderDraws:
    """Look at what loaders are made of."""

    def __init__(self, program: Program, roles: Roles) -> None:
        self.program = program
        self.roles = roles
        self.kinds = program.once(Effects).kinds

    def shuffle(self, node: ast.expr) -> bool:
        """Whether the loaders that an expression may hold go over their data in an order that they draw."""
        return any(map(self._shuffles, self._made(node)))

    def draw_items(self, node: ast.expr) -> bool:
        """Whether the data set of such a loader draws at random what an item is, as an augmentation does."""
        return any(self._draws_items(call) for call in self._made(node))

    @cached_property
    def ordering(self) -> frozenset[Scope]:
        """The functions that run while samplers, or data without a length, draw an order of all their items."""
        loaders = (c for c in self.program.calls for v in self.program.values(c) if self._is_made_by(v, c))
        given = (g for c in loaders for g in [*c.args, *(k.value for k in c.keywords)])
        held = (v for g in given for v in self.program.values(g))
        classes = dict.fromkeys(v.cls for v in held if isinstance(v, Instance))
        iterating = [m for cls in classes if (m := self.program.flow.method(cls, "__iter__")) is not None]
        run = [self.program.run_from([method]) for method in iterating]
        return frozenset().union(*(found for found in run if any(map(self._shuffles_in, found))))

    def _shuffles_in(self, function: Scope) -> bool:
        calls = self.program.calls_in(function)
        return any(row.rows is Rows.SHUFFLES for c in calls for row in self.kinds.called(c) or ())

    def _is_made_by(self, value: Value, call: ast.Call) -> bool:
        return isinstance(value, Made) and value.node is call and self.roles.is_loader(value)

    def _made(self, node: ast.expr) -> Iterator[ast.Call]:
        held = [v for v in self.program.values(node) if self.roles.is_loader(v)]
        yield from (v.node for v in held if isinstance(v, Made) and isinstance(v.node, ast.Call))

    def _shuffles(self, loader: ast.Call) -> bool:
        given = {k.arg: k.value for k in loader.keywords}
        shuffle = given.get("shuffle", loader.args[2] if len(loader.args) > 2 else None)
        if shuffle is not None and not (isinstance(shuffle, ast.Constant) and not shuffle.value):
            return True
        samplers = [node for name, node in given.items() if name is not None and name.endswith("sampler")]
        return any(self._draws_order(v) for node in samplers for v in self.program.values(node))

    def _draws_order(self, sampler: Value) -> bool:
        """Whether a sampler draws, itself or one that it is given: `BatchSampler(RandomSampler(data), 4, True)`."""
        if isinstance(sampler, Instance):
            iterates = self.program.flow.method(sampler.cls, "__iter__")
            return iterates is not None and function_draws(self.program, iterates)
        calls = [n for n in ast.walk(sampler.node) if isinstance(n, ast.Call)] if isinstance(sampler, Made) else []
        return any(row.rows is Rows.SHUFFLES for c in calls for row in self.kinds.called(c) or ())

    def _draws_items(self, loader: ast.Call) -> bool:
        given = {k.arg: k.value for k in loader.keywords}
        data = given.get("dataset", next(iter(loader.args), None))
        return data is not None and any(map(self._draws_in_getting, self.program.values(data)))

    def _draws_in_getting(self, data: Value) -> bool:
        if isinstance(data, Instance):
            getter = self.program.flow.method(data.cls, "__getitem__")
            return getter is not None and function_draws(self.program, getter)
        made = data.node if isinstance(data, Made) and isinstance(data.node, ast.Call) else None
        given = [*made.args, *(k.value for k in made.keywords)] if made is not None else []
        held = (v.node for g in given for v in self.program.values(g) if isinstance(v, Made))
        calls = (n for node in held for n in ast.walk(node) if isinstance(n, ast.Call))
        return any(row.effects & DRAWS for c in calls for row in self.kinds.rows(c, "__call__") or ())
