"""Which parameters and draws does the data of a step come from, and which tensors does each round make for itself?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Definition, Kind
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, returned
from accelify.codemod.training.losses import all_losses, losses_of
from accelify.codemod.training.randomness.draws import draws
from accelify.codemod.training.roles import Roles


class Origins:
    """Follow data back through variables, arithmetic and arguments; what is read from files comes from there alone."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer

    def learned(self, function: Scope, backward: ast.Call) -> list[ast.expr]:
        """The inputs of the models that a function runs for a backward pass; else the losses."""
        calls = (call for frame in self.program.run_from([function]) for call in self.program.calls_in(frame))
        runs = [call for call in calls if any(map(self.roles.is_model, self.program.values(call.func)))]
        return [a for call in runs for a in _arguments(call)] or list(losses_of(self.program, backward))

    def of(self, nodes: Iterable[ast.expr]) -> set[ast.arg | ast.Call]:
        """The parameters that some expressions are made from, and the calls that draw them, or which rows they have."""
        found: set[ast.arg | ast.Call] = set()
        for node, picks in self._behind(nodes, self._sources):
            is_parameter = isinstance(node, ast.arg) and not picks
            if is_parameter or (isinstance(node, ast.Call) and draws(self.program, node)):
                assert isinstance(node, (ast.arg, ast.Call))
                found.add(node)
        return found

    def learned_through(self, backwards: Iterable[ast.Call]) -> list[ast.Call]:
        """The calls whose results the losses of some backward passes are made from."""
        return self.calls(all_losses(self.program, backwards))

    def calls(self, nodes: Iterable[ast.expr]) -> list[ast.Call]:
        """The calls whose results some expressions are made from, those in functions of the project's own, too."""
        behind = (node for node, picks in self._behind(nodes, self._results) if not picks)
        return [node for node in behind if isinstance(node, ast.Call)]

    def along(self, nodes: Iterable[ast.expr], goes_on: Callable[[ast.AST], bool]) -> Iterator[ast.AST]:
        """All that some expressions, or the rows they have, come from, through nodes where `goes_on` holds."""
        behind = self._behind(nodes, lambda node: self._sources(node) if goes_on(node) else iter(()), goes_on)
        yield from (node for node, _ in behind)

    def along_results(self, nodes: Iterable[ast.expr], goes_on: Callable[[ast.AST], bool]) -> Iterator[ast.AST]:
        """The same, with what attributes hold and what functions return."""
        behind = self._behind(nodes, lambda node: self._results(node) if goes_on(node) else iter(()), goes_on)
        yield from (node for node, _ in behind)

    def _behind(
        self,
        nodes: Iterable[ast.expr],
        sources: Callable[[ast.AST], Iterator[ast.AST]],
        goes_on: Callable[[ast.AST], bool] = lambda node: True,
    ) -> Iterator[tuple[ast.AST, bool]]:
        """All that some expressions come from, and whether it only picks places: `i` of `rows[i]`."""
        seen: set[tuple[ast.AST, bool]] = set()
        queue: list[tuple[ast.AST, bool]] = [(node, False) for node in nodes]
        while queue:
            node, picks = queue.pop()
            if (node, picks) in seen:
                continue
            seen.add((node, picks))
            yield node, picks
            queue += [(source, picks) for source in sources(node)]
            queue += [(node.slice, True)] if isinstance(node, ast.Subscript) and goes_on(node) else []

    def _results(self, node: ast.AST) -> Iterator[ast.AST]:
        """The sources of a node, with what attributes hold and what functions return."""
        yield from self._sources(node)
        if isinstance(node, ast.Attribute):
            chains = self.program.once(Chains)
            yield from (source for d in chains.definitions(node) for source in self._given(d))
        elif isinstance(node, ast.Call):
            yield from (v for v in returned(self.program.flow.callees.get(node, ())) if v is not None)

    def _sources(self, node: ast.AST) -> Iterator[ast.AST]:
        if isinstance(node, ast.Name):
            is_network = any(map(self.roles.is_model, self.program.values(node)))  # which is changed where it runs
            found = self.program.once(Chains).definitions(node)
            given = (d for d in found if not is_network or d.kind is not Kind.IN_PLACE)
            yield from (source for d in given for source in self._given(d))
        elif isinstance(node, ast.arg):
            frame = self.program.frame(node)
            calls = ((c, self.tracer.argument(c, frame, node.arg)) for c in self.program.calls_of(frame))
            yield from (argument for _, argument in calls if argument is not None)
        elif isinstance(node, ast.Call):
            yield from self._of_call(node)
        elif isinstance(node, ast.Subscript):
            yield node.value
        elif isinstance(node, (ast.expr, ast.comprehension)):
            yield from ast.iter_child_nodes(node)

    def _of_call(self, call: ast.Call) -> Iterator[ast.AST]:
        """The data that a call makes its result from: not the network or the function that is called."""
        if self.program.once(Effects).of_call(call).files_read:
            return
        yield from _arguments(call)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        is_learned = owner is not None and any(map(self.roles.learns, self.program.values(owner)))
        if owner is not None and not is_learned and not self.program.flow.callees.get(call):
            yield owner

    def _given(self, definition: Definition) -> Iterator[ast.AST]:
        """What a definition gives a variable, or puts into it; a loop over a parameter goes over a data set."""
        node = definition.node
        if definition.kind is Kind.PARAMETER:
            frame = self.program.frame(node)
            is_self = frame.is_method and frame.parameters[:1] == [node]
            yield from () if is_self else (node,)
        elif definition.kind is Kind.IN_PLACE and isinstance(node, ast.Call):
            yield from _arguments(node)
        elif definition.kind is Kind.LOOP:
            _, holder = self.program.binding(node)
            assert isinstance(holder, (ast.For, ast.AsyncFor, ast.comprehension))
            source = self.tracer.inside(holder.iter)
            yield from () if isinstance(source, ast.Name) and self._is_parameter(source) else (source,)
        elif isinstance(node, ast.expr):
            value = self.tracer.assigned(node) or getattr(self.program.statement(node), "value", node)
            yield from () if value is None else (value,)  # `rate: float` gives it nothing
            yield from (node,) if definition.kind is Kind.AUGMENTED else ()  # what it held before

    def _is_parameter(self, name: ast.Name) -> bool:
        return any(d.kind is Kind.PARAMETER for d in self.program.once(Chains).definitions(name))


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(k.value for k in call.keywords)]
