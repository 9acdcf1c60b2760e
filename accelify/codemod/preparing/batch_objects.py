"""Does the runtime move what a loader yields, or is that an object whose tensors stay where they are?"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from enum import Enum

from accelify.codemod.libraries import names, table
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, returned
from accelify.codemod.semantics.values import ClassValue, FunctionValue, Instance, Made, Value

_COLLATE_FN = 6  # its place among the parameters of `DataLoader`
_DEPTH = 3


class Batch(Enum):
    """How the tensors in a batch get to a device."""

    MOVED = "moved"  # tensors, containers, dataclasses, and objects that have a `to` of their own
    LEFT = "left"  # an object of a class of the project's own, that is none of these
    UNKNOWN = "unknown"


class Batches:
    """Tell by how a loader collates its samples."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.classes: set[Scope] = set()  # of the objects that are left, as far as loaders were asked for
        self._known: dict[Value, Batch] = {}

    def of(self, loader: Value) -> Batch:
        """The kind of a loader's batches."""
        if loader not in self._known:
            self._known[loader] = self._of(loader)
        return self._known[loader]

    def _of(self, loader: Value) -> Batch:
        call = loader.node if isinstance(loader, Made) else None
        if not isinstance(loader, Made) or not isinstance(call, ast.Call) or not names.is_torch_loader(loader.name):
            return Batch.UNKNOWN
        if names.yields_graphs(loader.name):
            return Batch.MOVED
        if any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
            return Batch.UNKNOWN
        given = {k.arg: k.value for k in call.keywords}
        if len(call.args) > _COLLATE_FN:
            given["collate_fn"] = call.args[_COLLATE_FN]
        if _is_none(given.get("collate_fn")):
            return Batch.UNKNOWN if "batch_size" in given and _is_none(given["batch_size"]) else Batch.MOVED
        return self._all(self._collated(v) for v in self.program.values(given["collate_fn"]))

    def _collated(self, function: Value) -> Batch:
        if isinstance(function, ClassValue):
            return self._object(function.scope)
        if isinstance(function, Instance):
            method = self.program.flow.method(function.cls, "__call__")
            return self._returned(method) if method is not None else Batch.UNKNOWN
        return self._returned(function.scope) if isinstance(function, FunctionValue) else Batch.UNKNOWN

    def _returned(self, function: Scope) -> Batch:
        return self._all(self._value(node, _DEPTH) for node in returned([function]) if node is not None)

    def _value(self, node: ast.expr, depth: int) -> Batch:
        """The kind of a returned value, or of a part of it."""
        if not depth:
            return Batch.UNKNOWN
        if isinstance(node, (ast.Tuple, ast.List, ast.Dict)):
            parts = node.values if isinstance(node, ast.Dict) else node.elts
            found = self._all(self._value(part, depth - 1) for part in parts)
            return Batch.MOVED if found is Batch.MOVED else Batch.UNKNOWN
        return self._all(self._of_value(v) for v in self.program.values(node))

    def _of_value(self, value: Value) -> Batch:
        if isinstance(value, Instance):
            return self._object(value.cls)
        row = table.function(value.name) if isinstance(value, Made) else None
        return Batch.MOVED if row is not None and row.returns == "tensor" else Batch.UNKNOWN

    def _object(self, cls: Scope) -> Batch:
        bases = set(self.program.flow.external_bases(cls)) - {"object"}
        decorators = [
            d for c in (cls, *self.program.flow.ancestors(cls)) for d in getattr(c.node, "decorator_list", ())
        ]
        if self.program.flow.method(cls, "to") is not None or any(map(names.is_container, bases)):
            return Batch.MOVED
        if any("dataclasses.dataclass" in self.program.externals(_called(d)) for d in decorators):
            return Batch.MOVED
        if bases or decorators:
            return Batch.UNKNOWN
        self.classes.add(cls)
        return Batch.LEFT

    @staticmethod
    def _all(found: Iterable[Batch]) -> Batch:
        """The kind that all have; of several with an object that is left alone, that kind."""
        each = set(found)
        if Batch.LEFT in each:
            return Batch.LEFT
        return Batch.MOVED if each == {Batch.MOVED} else Batch.UNKNOWN


def _called(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)
