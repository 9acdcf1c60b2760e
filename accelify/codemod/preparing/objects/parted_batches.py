"""Which prepared loaders yield several parts of each batch, one after the other?

class Parts(DataLoader):
    def __iter__(self):
        for batch in super().__iter__():
            for start in range(0, batch.size(1), 8):
                yield batch[:, start : start + 8]

The processes take turns at what a loader yields, and so at the parts of one sequence.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.scopes import method_of_call
from accelify.codemod.semantics.values import Instance, Value
from accelify.codemod.training.roles import Roles


def parted_batches(program: Program, roles: Roles, loaders: Collection[Value]) -> Iterator[ast.Yield]:
    """The places where some loaders yield parts of a batch, in a loop within that over the batches."""
    classes = {v.cls: None for v in loaders if isinstance(v, Instance)}
    for begin in filter(None, (program.flow.method(cls, "__iter__") for cls in classes)):
        for node in (n for n in ast.walk(begin.node) if isinstance(n, ast.Yield)):
            around = [n for n in program.ancestors(node) if isinstance(n, LOOPS) and program.inside(n, begin.node)]
            if any(isinstance(loop, ast.For) and _gives_batches(program, roles, loop.iter) for loop in around[1:]):
                yield node


def _gives_batches(program: Program, roles: Roles, source: ast.expr) -> bool:
    """Whether a loop goes over the batches of a loader, be it the base class's: `super().__iter__()`."""
    calls = (n for n in ast.walk(source) if isinstance(n, ast.Call))
    return any(method_of_call(c) == "__iter__" for c in calls) or any(map(roles.is_loader, program.values(source)))
