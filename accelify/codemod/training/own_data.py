"""What does a loop of the script's own, over no loader, take its data from?"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from accelify.codemod.libraries import methods, names
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, names_in
from accelify.codemod.semantics.values import Argument, Collection, Element, Generated, Instance, Made, Member, Value
from accelify.codemod.training.experience import Experience
from accelify.codemod.training.roles import Roles

_OF_AN_EPOCH = re.compile(r"(per|each|an|one|in|len)_?epoch(?!s)")  # `steps_per_epoch` counts no epochs
Loop = ast.For | ast.AsyncFor | ast.While


class Sources:
    """Find it, and what a loop deals out; `owners` gives what an expression's items come from."""

    def __init__(
        self, program: Program, roles: Roles, tracer: Tracer, owners: Callable[[ast.expr], set[Value]]
    ) -> None:
        self.program = program
        self.flow = program.flow
        self.roles = roles
        self.tracer = tracer
        self.owners = owners
        self.experience = Experience(program, tracer)

    def own(self, loop: Loop) -> tuple[str, ast.expr] | None:
        """What a loop of the script's own takes its data from, if it is the loop that deals out the data."""
        if not isinstance(loop, ast.For):
            return None
        source = self.tracer.inside(loop.iter, "reversed")
        owners = self.owners(source)
        if self.is_part_of_a_batch(loop):
            return None
        if any(isinstance(o, Made) and names.is_counter(o.name) for o in owners):
            text = _OF_AN_EPOCH.sub("", ast.unparse(source).lower())
            if "epoch" in text or "step" in text.split("(")[0]:
                return None
            return ("sequence", source) if self._deals_out(loop) else None
        if isinstance(source, (ast.List, ast.Tuple, ast.Dict, ast.Constant)) or self._is_literal(owners):
            return None
        kind = self._kind_of(owners)
        return (kind, source) if kind is not None and self._uses_items(loop) else None

    def is_own_experience(self, loop: Loop, source: ast.expr) -> bool:
        """Whether what a loop deals out is what this process's own environment told it."""
        if not isinstance(loop, ast.For):
            return False
        counters = _with_derived(names_in(loop.target), list(nodes_in(loop)))
        picked = [p.value for node in nodes_in(loop) for p in self._picked(node, counters)]
        return any(map(self.experience.holds, [source, *picked]))

    def is_part_of_a_batch(self, loop: ast.For | ast.AsyncFor) -> bool:
        """Whether a loop goes over what an outer loop deals out: the micro-batches of a batch, its sequences."""
        source = self.tracer.inside(loop.iter, "reversed")
        parts = source.args if isinstance(source, ast.Call) and "zip" in self.program.called(source) else [source]
        held = [self.program.values(_container(part)) for part in parts]
        return all(values and all(isinstance(v, Element) for v in values) for values in held) and bool(held)

    def is_within_a_batch(self, loop: Loop) -> bool:
        """Whether a loop counts parts of what a generator of the project's own yields to a loop round it."""
        for outer in self.program.loops_round(loop):
            if not isinstance(outer, ast.For) or not any(isinstance(o, Generated) for o in self.owners(outer.iter)):
                continue
            made = (
                v for call in self.program.calls if self.program.inside(call, outer) for v in self.program.values(call)
            )
            if not any(map(self.roles.is_optimizer, made)):  # else it yields folds
                return self.own(outer) is not None
        return False

    def _kind_of(self, owners: set[Value]) -> str | None:
        """Whether batches come from a thing that can be prepared, or from one whose items are to be dealt out."""
        own = [o for o in owners if isinstance(o, Instance) and self._yields(o)]
        if own:
            return "loaders" if all(self._is_counted(o) for o in own) else "sequence"
        if any(isinstance(o, (Argument, Member)) for o in owners):
            return "loaders"
        return "sequence" if any(isinstance(o, (Made, Collection, Generated)) for o in owners) else None

    def _yields(self, instance: Instance) -> bool:
        return any(self.flow.method(instance.cls, name) for name in ("__iter__", "__getitem__", "__next__"))

    def _is_counted(self, instance: Instance) -> bool:
        """Whether `prepare` takes it for a source of batches: it can be iterated and counted, but not indexed."""
        iterates, counts, indexes = (
            self.flow.method(instance.cls, name) for name in ("__iter__", "__len__", "__getitem__")
        )
        return iterates is not None and counts is not None and indexes is None

    @staticmethod
    def _is_literal(owners: set[Value]) -> bool:
        listed = [o.node for o in owners if isinstance(o, Collection)]
        return bool(listed) and all(
            isinstance(n, (ast.List, ast.Tuple, ast.Dict)) and getattr(n, "elts", getattr(n, "keys", []))
            for n in listed
        )

    def _deals_out(self, loop: ast.For) -> bool:
        """Whether a counter picks data: it indexes or slices something that is read."""
        counters = _with_derived(names_in(loop.target), list(nodes_in(loop)))
        picked = [p for node in nodes_in(loop) for p in self._picked(node, counters)]
        if any(self.roles.learns(v) for p in picked for v in self.program.values(p)):
            return False  # which network is trained is no choice of data
        return any(not self.program.inside(p, loop) or not self._is_only_shown(p, loop) for p in picked)

    def _picked(self, node: ast.AST, counters: set[str]) -> Iterator[ast.Subscript]:
        """What a counter indexes or slices, here or in a function that is given it."""
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and names_in(node.slice) & counters:
            yield node
        elif isinstance(node, ast.Call):
            for callee in self.flow.callees.get(node, ()):
                for parameter in callee.parameters:
                    argument = self.tracer.argument(node, callee, parameter.arg)
                    if argument is not None and names_in(argument) & counters:
                        yield from self._indexed_by(callee, parameter.arg)

    @staticmethod
    def _indexed_by(function: Scope, name: str) -> Iterator[ast.Subscript]:
        nodes = list(ast.walk(function.node))
        names = _with_derived({name}, nodes)
        for node in nodes:
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and names_in(node.slice) & names:
                yield node

    def _is_only_shown(self, node: ast.AST, loop: ast.For) -> bool:
        for ancestor in self.program.ancestors(node):
            if ancestor is loop:
                return False
            if isinstance(ancestor, ast.JoinedStr):
                return True
            if isinstance(ancestor, ast.Call):
                function = ancestor.func
                if isinstance(function, ast.Attribute):
                    is_shown = methods.shows(function.attr) or methods.is_of("string", function.attr)
                    if is_shown or methods.puts_in(function.attr):
                        return True
                elif names.says(ast.unparse(function)) or ast.unparse(function) in ("str", "len"):
                    return True
        return False

    def _uses_items(self, loop: ast.For) -> bool:
        targets = [n for n in ast.walk(loop.target) if isinstance(n, ast.Name)]
        held = [v for t in targets for v in self.program.values(t)]
        if any(map(self.roles.learns, held)):
            return False  # a loop over networks, optimizers or weights deals out no data
        names = {n.id for n in targets}
        return any(
            isinstance(n, ast.Name)
            and isinstance(n.ctx, ast.Load)
            and n.id in names
            and not self._is_only_shown(n, loop)
            for n in nodes_in(loop)
        )


def nodes_in(loop: Loop) -> Iterator[ast.AST]:
    """All nodes of a loop's body."""
    for statement in loop.body:
        yield from ast.walk(statement)


def _with_derived(names: Iterable[str], nodes: Sequence[ast.AST]) -> set[str]:
    """Names, and those that are calculated from them."""
    found = set(names)
    for _ in range(2):
        for node in nodes:
            if (
                isinstance(node, ast.Assign)
                and len(node.targets) == 1
                and isinstance(node.targets[0], ast.Name)
                and not isinstance(node.value, ast.Call)
                and names_in(node.value) & found
            ):
                found.add(node.targets[0].id)
    return found


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
