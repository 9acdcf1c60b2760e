"""Which loops begin a training anew in each round: over folds, seeds or settings, not over data?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.values import Instance, Made, Value
from accelify.codemod.training.roles import Roles


class Anew:
    """Tell it by where the optimizers that step in a loop, and what they train, are made.

    `is_run_in` tells whether a loop's rounds run a place, through calls too.
    """

    def __init__(self, program: Program, roles: Roles, is_run_in: Callable[[ast.AST, ast.AST], bool]) -> None:
        self.program = program
        self.roles = roles
        self.is_run_in = is_run_in

    def begins(self, loop: ast.AST, stepped: Iterable[ast.expr]) -> bool:
        """Whether each round of a loop trains what it makes itself; `stepped` are the optimizers that it steps."""
        optimizers = {v for node in stepped for v in self.program.values(node) if self.roles.is_optimizer(v)}
        makers = [list(self._makers(v)) for v in optimizers]
        trained = {v for made in makers for call in made for v in self._given(call)}
        makers += [list(self._makers(v)) for v in trained]
        return bool(optimizers) and all(made and all(self.is_run_in(c, loop) for c in made) for made in makers)

    def _makers(self, value: Value) -> Iterator[ast.Call]:
        """The calls that make a value; none of one that comes from elsewhere."""
        if isinstance(value, Made) and isinstance(value.node, ast.Call):
            yield value.node
        elif isinstance(value, Instance):
            for call in self.program.calls:
                callees = self.program.flow.callees.get(call, ())
                is_method = isinstance(call.func, ast.Attribute) and any(f.parent is not value.cls for f in callees)
                if value in self.program.values(call) and not is_method:
                    yield call

    def _given(self, call: ast.Call) -> set[Value]:
        """What an optimizer is given to train."""
        given = [*call.args, *[k.value for k in call.keywords]]
        return set().union(*(self.roles.parameter_owners(self.program.values(g)) for g in given))
