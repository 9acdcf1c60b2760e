"""What has been found to prepare so far: each finder adds to it, and reads what those before it have added."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from accelify.codemod.preparing.grouping import Item
from accelify.codemod.preparing.objects.bindings import Bindings
from accelify.codemod.preparing.reach import node_of
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Binding, Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Value
from accelify.codemod.training.loops.training import Data, Training
from accelify.codemod.training.roles import Roles


@dataclass
class Found:
    """The objects with a name, those without, and the loops whose own data are sharded.

    loaders, models: what those may be. stepped: the names of the optimizers; model_names: where the models first got
    one. needed: the functions that have an accelerator anyway. obstacles: what nobody can prepare.
    """

    needed: set[Scope]
    items: list[Item] = field(default_factory=list)
    wrapped: list[tuple[str, ast.expr]] = field(default_factory=list)
    sharded: list[tuple[Data, ast.expr]] = field(default_factory=list)
    loaders: set[Value] = field(default_factory=set)
    models: set[Value] = field(default_factory=set)
    stepped: list[Binding] = field(default_factory=list)
    model_names: set[ast.AST] = field(default_factory=set)
    obstacles: list[tuple[ast.AST, str]] = field(default_factory=list)

    def add(self, item: Item) -> None:
        """Prepare an object under its name, once."""
        known = ((i.text, i.frame, i.statement) for i in self.items)
        if (item.text, item.frame, item.statement) not in known:
            self.items.append(item)

    def wrap(self, kind: str, node: ast.expr) -> None:
        """Prepare what an expression makes, as it has no name of its own there, once."""
        if (kind, node) not in self.wrapped:
            self.wrapped.append((kind, node))

    def wrap_all(self, program: Program, kind: str, made: Iterable[ast.AST]) -> None:
        """Prepare what some calls make, each of whose functions is to have an accelerator then."""
        for node in sorted(made, key=program.position):
            assert isinstance(node, ast.expr)
            self.wrap(kind, node)
            self.needed.add(node_of(program.frame(node)))


class Finder:
    """What finds objects of one kind: it knows the program and its training, and adds to what has been found."""

    def __init__(
        self, program: Program, roles: Roles, tracer: Tracer, training: Training, bindings: Bindings, found: Found
    ) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.training = training
        self.bindings = bindings
        self.found = found
