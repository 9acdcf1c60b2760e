"""What do loops go over: loaders, generators of batches, what holds either?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.libraries import names
from accelify.codemod.semantics.batch_wrappers import iterated
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Argument, Collection, Element, Generated, Instance, Member, Value, View
from accelify.codemod.training.loops.bodies import Loop
from accelify.codemod.training.roles import Roles


class Iterables:
    """See through views, iterators and generators to the objects whose items a loop yields."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer) -> None:
        self.program = program
        self.flow = program.flow
        self.roles = roles
        self.tracer = tracer

    def owners(self, node: ast.expr) -> set[Value]:
        """The objects whose items a loop over an expression yields."""
        found = {v.owner if isinstance(v, Element) else v for v in self.gone_over(node)}
        passing = {v for v in found if isinstance(v, (Generated, Instance))}
        return (found - passing).union(*(self._handed_on(v, node) for v in passing))

    def _handed_on(self, generated: Generated | Instance, node: ast.expr) -> set[Value]:
        """The loaders whose batches a generator yields, if it is given them where it is called; else itself.

        Of an object that goes over a loader it is given, that loader.
        """
        if isinstance(generated, Instance):
            kept = iterated(self.program, generated.cls)
            held = {v for v in self.gone_over(kept) if self.roles.is_loader(v)} if kept is not None else set()
            made = [chain[-1].value for chain in self.tracer.chains(node)] if held else []
            return {v for each in made if each is not None for v in self.gone_over(each)} & held or {generated}
        items = self.flow.elements(generated)
        loaders = {i.owner for i in items if isinstance(i, Element) and self.roles.is_loader(i.owner)}
        ends = [chain[-1] for chain in self.tracer.chains(node)]
        is_given = all(b.kind != "inline" or generated not in self.program.values(b.value) for b in ends if b.value)
        return loaders if loaders and ends and is_given else {generated}

    def gone_over(self, node: ast.expr) -> set[Value]:
        """What a loop over an expression goes over, without the views of it, as `enumerate` gives one."""
        found, left = set[Value](), dict.fromkeys(self.program.values(node), 4)
        while left:
            value, depth = left.popitem()
            if isinstance(value, View):
                left |= dict.fromkeys(self.flow.view_source(value) if depth > 1 else (), depth - 1)
            else:
                found.add(value)
        return found

    def generators(self, node: ast.expr) -> list[Generated]:
        """The generators that an expression yields from, if they are called where it gets its name."""
        found = {v.owner if isinstance(v, Element) else v for v in self.gone_over(node)}
        made = [b.value for chain in self.tracer.chains(node) for b in chain if b.value is not None]
        held = {v for value in made for v in self.gone_over(value)} if made else found
        return [v for v in found if isinstance(v, Generated) and v in held]

    def yielded_from(self, generator: Scope) -> Iterator[ast.expr]:
        """The loaders from whose batches a generator function makes what it yields, as it names them."""
        for node in ast.walk(generator.node):
            source = node.value if isinstance(node, ast.YieldFrom) else self.program.iterator(node)
            if source is not None and any(self.roles.is_loader(v) for v in self.owners(source)):
                yield source
            elif isinstance(node, (ast.For, ast.AsyncFor)) and self.is_loader_loop(node) and _yields(node):
                yield node.iter

    def holds_batches(self, listed: Collection) -> bool:
        """Whether a list is one of a loader's batches: `[next(iter(loader))]`."""
        return bool(self.flow.elements(listed)) and all(map(self._is_batch, self.flow.elements(listed)))

    def _is_batch(self, value: Value) -> bool:
        return isinstance(value, Element) and self.roles.is_loader(value.owner)

    def is_loader_loop(self, loop: Loop) -> bool:
        """Whether a loop iterates over a loader."""
        return any(map(self.roles.is_loader, self.yielding(loop)))

    def yielding(self, loop: Loop) -> set[Value]:
        """The objects whose items a loop gets, each whole, without those of whose batches it goes over the rows."""
        if not isinstance(loop, (ast.For, ast.AsyncFor)) or self.is_part_of_a_batch(loop):
            return set()
        held = self.gone_over(loop.iter)
        batches = {v.owner for v in held if isinstance(v, Element)} - held
        return self.owners(loop.iter) - batches

    def is_part_of_a_batch(self, loop: ast.For | ast.AsyncFor) -> bool:
        """Whether a loop iterates over what an outer loop shards: the micro-batches of a batch, its sequences."""
        source = self.tracer.inside(loop.iter, "reversed")
        parts = source.args if isinstance(source, ast.Call) and "zip" in self.program.called(source) else [source]
        held = [self.program.values(_container(part)) for part in parts]
        return all(values and all(isinstance(v, Element) for v in values) for values in held) and bool(held)


def is_given(value: Value) -> bool:
    """Whether a value comes from a caller who is not known."""
    while isinstance(value, Member):
        value = value.owner
    return isinstance(value, Argument)


def _yields(loop: ast.For | ast.AsyncFor) -> bool:
    return any(isinstance(n, ast.Yield) for n in ast.walk(loop))


def _container(node: ast.expr) -> ast.expr:
    """`batch` of `list(batch.keys())`."""
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "values", "items") and not node.args:
            node = node.func.value
        elif isinstance(node.func, ast.Name) and names.is_copy(node.func.id) and len(node.args) == 1:
            node = node.args[0]
        else:
            break
    return node
