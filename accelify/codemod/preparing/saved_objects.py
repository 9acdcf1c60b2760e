"""Of which of the project's own classes do files hold whole objects, with all that these hold?

torch.save({"net": net, "opt": opt}, path)      pickle.dump(trainer, file)
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from accelify.codemod.libraries import table
from accelify.codemod.libraries.row import Trait
from accelify.codemod.semantics.contents import Kept
from accelify.codemod.semantics.program import COMPREHENSIONS, Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Collection, Instance, Value, Values

_OWN_WAYS = ("__getstate__", "__reduce__", "__reduce_ex__")


def saved_whole(program: Program) -> dict[ast.Call, frozenset[Scope]]:
    """The calls that write objects whole, and the classes of these that do not say themselves what a file gets."""
    saves = [call for call in program.calls if call.args and _pickles(program, call)]
    return {call: program.once(_Holding).classes(program.values(call.args[0])) for call in saves}


def _pickles(program: Program, call: ast.Call) -> bool:
    rows = [table.function(name) for name in program.called(call)]
    return any(row is not None and row.has(Trait.PICKLES) for row in rows)


class _Holding:
    """What objects and containers hold."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._put: defaultdict[Value, set[Value]] = defaultdict(set)
        for container, value in program.once(Kept).puts():
            for owner in program.values(container):
                self._put[owner] |= program.values(value)
        for write in (w for writes in program.attribute_writes.values() for w in writes):
            for owner in (v for v in program.values(write.value) if isinstance(v, Instance)):
                self._put[owner] |= self._given(write)

    def classes(self, values: Values) -> frozenset[Scope]:
        """The classes among some values and all that these hold."""
        found: set[Value] = set()
        queue = list(values)
        while queue:
            value = queue.pop()
            if value not in found and not self._has_own_way(value):
                found.add(value)
                queue += [*self._put[value], *self._displayed(value)]
        return frozenset(v.cls for v in found if isinstance(v, Instance))

    def _has_own_way(self, value: Value) -> bool:
        flow = self.program.flow
        return isinstance(value, Instance) and any(flow.method(value.cls, name) for name in _OWN_WAYS)

    def _given(self, write: ast.Attribute) -> Values:
        value, path = self.program.assigned(write)
        if path and isinstance(value, (ast.Tuple, ast.List)) and path[0] < len(value.elts):
            value = value.elts[path[0]]
        return self.program.values(value)

    def _displayed(self, value: Value) -> Iterator[Value]:
        """The values that a container is made with."""
        node = value.node if isinstance(value, Collection) else None
        parts: list[ast.expr] = []
        if isinstance(node, ast.Dict):
            parts = node.values
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            parts = node.elts
        elif isinstance(node, COMPREHENSIONS):
            parts = [node.value if isinstance(node, ast.DictComp) else node.elt]
        elif isinstance(node, ast.Call):
            parts = [*node.args, *(k.value for k in node.keywords)]
        for part in parts:
            yield from self.program.values(part)
