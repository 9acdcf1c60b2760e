"""What do the data of loaders do with files, in code that is not known, and in the functions that make the items?

    loader = DataLoader(FancyDataset("data"), batch_size=8)

A data set of a library that the table does not know may download, or process its files into a cache, when it is made.
So may a class of the project's own whose base does so. And each process makes other items than the rest: what a
`__getitem__` writes belongs to its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property

from accelify.codemod.libraries import names, table, vocabulary
from accelify.codemod.libraries.row import Role, Trait
from accelify.codemod.semantics.effects.kinds import UNKNOWN, Kinds
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import ClassValue, Collection, Element, Instance, Made, Member, Value
from accelify.codemod.training.roles import Roles

_MAY_NAME_FILES = frozenset({"string", "path", UNKNOWN})
_ITEMS = ("__getitem__", "__getitems__", "__iter__", "__next__", "get")


class LoaderData:
    """Look at what the loaders of a program are made with."""

    def __init__(self, program: Program, roles: Roles) -> None:
        self.program = program
        self.roles = roles
        self.kinds = program.once(Kinds)

    @cached_property
    def calls(self) -> frozenset[ast.Call]:
        """The calls that make data sets by code of a library, which may fetch files or make them."""
        found = {v.node for v in self._data if isinstance(v, Made) and self._is_unknown(v)}
        made = {c for c in self.program.calls if not self._made_by_library.isdisjoint(self._classes(c))}
        asked = {c for c in self.program.calls if self._is_told(c, found)}
        named = {c for c in self.program.calls if self._is_named_for_it(c)}
        return frozenset(n for n in (*found, *made, *asked, *named) if isinstance(n, ast.Call))

    @cached_property
    def run_by_library(self) -> frozenset[Scope]:
        """The methods that only a library calls when it makes such a data set: `process` of one for graphs."""
        methods = (m for cls in self._made_by_library for m in cls.children if m.is_method)
        called = self.program.flow.callers
        return frozenset(
            m for m in methods if not called.get(m) and m not in self.items and not m.name.startswith("__")
        )

    @cached_property
    def items(self) -> frozenset[Scope]:
        """The functions that run while a loader makes its items, each process those of its own shard."""
        classes = {v.cls for v in self._data if isinstance(v, Instance)}
        made = [self.program.flow.method(cls, name) for cls in classes for name in _ITEMS]
        return frozenset(self.program.run_from(m for m in made if m is not None))

    @cached_property
    def _made_by_library(self) -> frozenset[Scope]:
        """The project's own data sets that a library's constructor makes."""
        classes = {cls for call in self.program.calls for cls in self._classes(call)}
        used = {v.cls for v in self._data if isinstance(v, Instance)}
        return frozenset(cls for cls in classes if any(self._makes_data(b, cls in used) for b in self._bases(cls)))

    def _bases(self, cls: Scope) -> list[str]:
        return self.program.flow.external_bases(cls)

    @staticmethod
    def _makes_data(base: str, is_used: bool) -> bool:
        """Whether a base of a class may fetch or process files: one that is known to, or that nothing is known of."""
        row = table.function(base)
        return is_used if row is None else row.role is Role.DATASET and row.has(Trait.FETCHES)

    def _classes(self, call: ast.Call) -> Iterator[Scope]:
        return (v.scope for v in self.program.values(call.func) if isinstance(v, ClassValue))

    @cached_property
    def _data(self) -> frozenset[Value]:
        """What loaders are made with, and what that is a part of or made from: `Subset(data, rows)`."""
        found: set[Value] = set()
        for call in self.program.calls:
            if self._makes_a_loader(call):
                given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "dataset")]
                values = (v for g in given for v in self.program.values(g))
                self._add((v for v in values if not isinstance(v, Collection)), found)  # a list's elements are items
        return frozenset(found)

    def _makes_a_loader(self, call: ast.Call) -> bool:
        """Whether a call makes a loader; what makes models or optimizers, too, may be given any of their arguments."""
        made = self.program.values(call)
        others = (v for v in made if self.roles.is_module(v) or self.roles.is_optimizer(v))
        return any(map(self.roles.is_loader, made)) and not any(others)

    def _add(self, values: Iterable[Value], found: set[Value]) -> None:
        for value in values:
            if value in found or self.roles.is_module(value):
                continue
            found.add(value)
            if isinstance(value, (Element, Member)):
                self._add([value.owner], found)
            elif isinstance(value, Collection):
                self._add(self.program.flow.elements(value), found)
            elif isinstance(value, Made) and isinstance(value.node, ast.Call) and self._is_of_data(value):
                self._add((v for g in value.node.args for v in self.program.values(g)), found)

    def _is_named_for_it(self, call: ast.Call) -> bool:
        """Whether a library's function of which nothing is known is named for downloads: `fancy.download(url)`."""
        called = self.program.called(call)
        return any(table.function(n) is None and vocabulary.may_download(n.rpartition(".")[2]) for n in called)

    @staticmethod
    def _is_of_data(made: Made) -> bool:
        """Whether a data set is made of others, and not of tensors."""
        return names.holds_data(made.name) and not names.holds_tensors(made.name)

    def _is_unknown(self, made: Made) -> bool:
        """Whether nothing is known of what made a value, and it may have been given the name of a file."""
        if made.name is None or table.function(made.name) is not None or not isinstance(made.node, ast.Call):
            return False
        given = [*made.node.args, *(k.value for k in made.node.keywords)]
        return not given or any(self.kinds.of(g) & _MAY_NAME_FILES for g in given)

    def _is_told(self, call: ast.Call, makers: set[ast.AST]) -> bool:
        """Whether such an object is asked to do something: `data.prepare()`."""
        if not isinstance(call.func, ast.Attribute) or not isinstance(self.program.parent(call), ast.Expr):
            return False
        owners = (v.root if isinstance(v, Member) else v for v in self.program.values(call.func.value))
        return any(isinstance(o, Made) and o.node in makers for o in owners)
