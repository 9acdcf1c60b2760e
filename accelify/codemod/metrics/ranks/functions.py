"""What functions give their callers, and what decides in them which code is run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from accelify.codemod.metrics.ranks.labels import (
    NONE,
    Given,
    Label,
    Labels,
    Mark,
    Origin,
    into_part,
    is_draw,
)
from accelify.codemod.metrics.ranks.passed_loaders import PassedLoaders
from accelify.codemod.metrics.ranks.shards import Shards
from accelify.codemod.metrics.ranks.solver import (
    Argument,
    Decided,
    Returned,
    Rounds,
    Solver,
)
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.visits.ways import Ways

_SEVERAL = worlds_where(Process.MAIN) | worlds_where(Process.OTHER)
_STAYS = frozenset({Mark.RUNNING, Mark.CLOCK, Mark.SIGNAL})  # in what such a value decides about


class Functions(Solver):
    """The labels of results, of arguments, and of conditions."""

    def __init__(self, chains: Chains, shards: Shards) -> None:
        super().__init__(chains, shards)
        self._results_of, self._deciding = cache(self._find_results), cache(self._find_deciding)
        self._left_out = cache(self._find_left_out)
        self.ways = self.program.once(Ways)
        self.passed_loaders = PassedLoaders(chains, shards)

    def _of_returned(self, key: Returned) -> Labels:
        found = NONE
        if key.scope.kind == "lambda":
            assert isinstance(key.scope.node, ast.Lambda)
            return self._of(key.scope.node.body)
        for node in self._results_of(key.scope):
            path = () if key.position is None or not isinstance(node, ast.Return) else (key.position,)
            labels = self._of_part(node.value, path) | self._control(node)
            found |= labels if labels and self._is_for_several(node) else NONE
        return found

    def _find_results(self, function: Scope) -> list[ast.Return | ast.Yield | ast.YieldFrom]:
        """Where a function gives its callers a value."""
        given = (n for n in self._own_nodes(function) if isinstance(n, (ast.Return, ast.Yield, ast.YieldFrom)))
        return [n for n in given if n.value is not None]

    def _is_for_several(self, node: ast.AST) -> bool:
        """Whether a place of a function may be reached where there are several processes."""
        conditions = self.program.once(Conditions)
        return not all(conditions.is_dead(node, world) for world in _SEVERAL)

    def _own_nodes(self, scope: Scope) -> Iterator[ast.AST]:
        queue: list[ast.AST] = [*scope.body]
        while queue:
            node = queue.pop()
            yield node
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                queue.extend(ast.iter_child_nodes(node))

    def _of_argument(self, key: Argument) -> Labels:
        """The labels of the values that all known calls pass for a parameter."""
        found = NONE
        for call in self.program.calls_of(key.scope):
            given = self.chains.given(call, key.scope, key.name)
            labels = self._resolved(self._passed(call, key.scope, key.name))
            found |= self._without_count(labels) if given is not None and self._is_object(given) else labels
        default = key.scope.defaults.get(key.name) if not self.program.calls_of(key.scope) else None
        found |= self._of(default) if default is not None else NONE  # a library calls it: `net.apply(reset)`
        for call in self.program.flow.run_inside_by.get(key.scope, ()):  # by a container that is given this
            found |= self._resolved(self._without_place(self._all([*call.args, *call.keywords])))
        return found

    def _passed(self, call: ast.Call, callee: Scope, name: str) -> Labels:
        """The labels of what a call passes for a parameter."""
        given = self.chains.given(call, callee, name)
        return self._of(given) if given is not None else self._without_place(self._all(self.chains.unnamed(call)))

    def _resolved(self, labels: Labels) -> Labels:
        """Labels with what callers give in place of parameters."""
        if not self._given_in(labels):
            return labels
        given = self._given_in(labels)
        return labels - given | self._filled_in(given, lambda scope, name: self._get(Argument(scope, name)))

    def _filled_in(
        self, given: Iterable[Given], passed: Callable[[Scope, str], Labels], *, is_round: bool = True
    ) -> Labels:
        """The labels of what parameters, or parts of them, stand for where arguments have some labels.

        is_round: whether that is in a round of a sharded loop, so that what is added up is its rank's own sum.
        Thousands of labels differ in the place alone that they are put into, so what goes there is worked out once.
        """
        places: dict[str | None, set[Given]] = {}
        for la in given:
            places.setdefault(la.into, set()).add(la if la.into is None else into_part(la, None))
        arguments: dict[tuple[Scope, str], Labels] = {}
        put: dict[Given, Labels] = {}
        for la in set().union(*places.values()):
            at = (la.scope, la.name)
            if at not in arguments:
                arguments[at] = passed(*at)
            part = self._part(arguments[at], la.at)
            kept = frozenset(p for p in part if isinstance(p, Origin) and not p.differs and not is_round)
            put[la] = part if la.update is None else kept | self._updated(part - kept, la.update)
        found: set[Label] = set()
        together: dict[frozenset[Given], Labels] = {}
        for into, params in places.items():
            each = frozenset(params)
            if each not in together:
                together[each] = NONE.union(*map(put.__getitem__, each))
            labels = together[each]
            found |= labels if into is None else self._at(self._without_place(labels), into)
        return frozenset(found)

    def _for_call(self, labels: Labels, call: ast.Call, callee: Scope) -> Labels:
        """The labels of a function's value for one call; outside of the sharded loops, all ranks draw alike.

        What the call leaves out, as a flag that it gives is off, draws nothing.
        """
        labels = self.passed_loaders.without_shards(labels, call, callee)
        if not self.shards.draws and any(is_draw(la) for la in labels) and not self.draws.is_in_a_round(call):
            labels = frozenset(la for la in labels if not is_draw(la))
        drawn = (la for la in labels if isinstance(la, Origin) and is_draw(la))
        labels -= {la for la in drawn if self._left_out(la.node, call, callee)}
        if not self._given_in(labels):
            return labels
        given = {label for label in self._given_in(labels) if label.scope is callee}
        passed = {name: self._passed(call, callee, name) for name in sorted({label.name for label in given})}
        is_round = self.draws.is_in_a_round(call)
        return labels - given | self._filled_in(given, lambda _, name: passed[name], is_round=is_round)

    def _find_left_out(self, node: ast.AST, call: ast.Call, callee: Scope) -> bool:
        """Whether a call does not get to a place in its function: `batches(rows)`, to `if shuffle: ...` there."""
        conditions = self.program.once(Conditions)
        is_inside = self.program.frame(node) is callee
        return is_inside and all(conditions.is_dead(node, world, (call,)) for world in _SEVERAL)

    # Conditions.

    def _control(self, node: ast.AST) -> Labels:
        """The labels of the conditions that decide, in its function, whether a node is run."""
        return NONE.union(*map(self._get, self._deciding(node)))

    def _find_deciding(self, node: ast.AST) -> list[Decided | Rounds]:
        """What decides, in its function, whether and how often a node is run."""
        found: list[Decided | Rounds] = [Decided(b.test, b) for b, _ in self.program.branches_round(node)]
        loops = self.program.loops_round(node)
        for at, loop in enumerate(loops):
            if isinstance(loop, ast.While):
                found.append(Decided(loop.test, loop))
            found += [Decided(test.test, test) for test in self.ways.leaving(loop, ast.Continue)]
            if loop not in self.rounds and not self.rounds.isdisjoint(loops[at:]):
                found.append(Rounds(loop))
        return found

    def _how_often(self, loop: ast.AST) -> Labels:
        """The labels of what decides how many rounds a loop within a training step has."""
        found = NONE
        if isinstance(loop, (ast.For, ast.AsyncFor)):
            found |= self._chosen(self._counted(self._of(loop.iter), loop.iter), loop)
        for test in self.ways.leaving(loop, ast.Break):
            found |= self._chosen(self._of(test.test), test)
        return found

    def _chosen(self, labels: Labels, node: ast.AST, *, decides: bool = False) -> Labels:
        """The labels of what a value chooses; decides: whether code is run, as for the rows of some sizes alone."""
        if not labels:
            return labels
        kept = {la for la in labels if isinstance(la, Given) or (la.differs and la.mark in _STAYS)}
        others = {la for la in labels if isinstance(la, Origin) and la.differs and la not in kept}
        if decides:
            others |= {la for la in labels if isinstance(la, Origin) and self._is_size_of_a_row(la)}
        if others and all(map(is_draw, others)):
            kept |= {Origin(Mark.PICKED, o.node) for o in others}
        elif others:
            kept.add(Origin(Mark.CHOSEN, node))
        return frozenset(kept)

    def _is_size_of_a_row(self, origin: Origin) -> bool:
        """Whether a value counts the parts of a row of the script's own, which has another size than other ranks'."""
        return origin.mark is Mark.ROWS and origin.node in self.shards.sequences
