"""The facts of which it is asked whether all ranks have the same, and how they are solved: until none of them grows."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache

from accelify.codemod.metrics.ranks.drawn import Draws
from accelify.codemod.metrics.ranks.labels import (
    NONE,
    Given,
    Label,
    Labels,
    Mark,
    Origin,
    bounded,
    given_in,
    part_of,
    put_at,
    uncovered,
    updated,
    without_place,
)
from accelify.codemod.metrics.ranks.running import Running
from accelify.codemod.metrics.ranks.shards import Shards
from accelify.codemod.metrics.ranks.waiting import Waiting
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Definition, Kind
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import ClassValue, Instance


@dataclass(frozen=True, slots=True)
class Returned:
    """The result of a function, or one part of the tuple that it returns."""

    scope: Scope
    position: int | None


@dataclass(frozen=True, slots=True)
class Filled:
    """The values that a function puts into an object that it is given."""

    scope: Scope
    name: str


@dataclass(frozen=True, slots=True)
class Argument:
    """The values that the calls of a function pass for a parameter."""

    scope: Scope
    name: str


@dataclass(frozen=True, slots=True)
class OwnArgument:
    """The values that calls of a method by its own object, or of a model's method, pass for a parameter."""

    scope: Scope
    name: str


@dataclass(frozen=True, slots=True)
class Outside:
    """What an attribute's definition gives, for functions other than its own: it has no parameters of that one."""

    definition: Definition


@dataclass(frozen=True, slots=True)
class Joined:
    """What any of the definitions of an attribute gives. Reads of one attribute share it, so each costs one step."""

    definitions: frozenset[Outside]


@dataclass(frozen=True, slots=True)
class Decided:
    """What a test decides about: a branch, or whether a loop goes on. All that stands in there shares it."""

    test: ast.expr
    about: ast.AST


@dataclass(frozen=True, slots=True)
class Rounds:
    """How many rounds a loop within a training step has."""

    loop: ast.AST


Key = Definition | Returned | Filled | Argument | OwnArgument | Outside | Joined | Decided | Rounds


class Solver(ABC):
    """Works out facts that depend on each other, each when it is first asked for.

    settled: whether nothing of a definition is left where something is read.
    """

    settled: Callable[[Definition, ast.AST], bool]

    def __init__(self, chains: Chains, shards: Shards) -> None:
        self.chains = chains
        self.program: Program = chains.program
        self.shards = replace(shards, is_alike=cache(shards.is_alike))
        self.loops = set(shards.loops)
        self.running = Running(chains, self.shards)
        self.rounds = self.running.rounds
        self.draws = Draws(chains, self.shards, self.running)
        # These are asked the same again and again.
        self._part, self._given_in = cache(part_of), cache(given_in)
        self._at, self._updated, self._without_place = cache(put_at), cache(updated), cache(without_place)
        self._labels: dict[Label, Label] = {}
        self._known: dict[Key, Labels] = {}
        self._readers: dict[Key, dict[Key, None]] = {}
        self._waiting = Waiting[Key]()
        self._current: Key | None = None
        self._answers: dict[tuple[str, object], frozenset[Origin]] = {}  # final: what is solved grows no more

    @abstractmethod
    def _worked_out(self, key: Key) -> Labels:
        """The labels of a fact, of what is known so far of others."""

    @abstractmethod
    def _of(self, node: ast.expr) -> Labels:
        """The labels of an expression."""

    @abstractmethod
    def _of_part(self, value: ast.expr | None, path: tuple[int, ...]) -> Labels:
        """The labels of one part of what an expression gives."""

    def _origins(self, asked: tuple[str, object], question: Callable[[], Labels]) -> frozenset[Origin]:
        """The origins among the labels that answer a question, which is worked out once."""
        if asked not in self._answers:
            self._answers[asked] = frozenset(la for la in self._solved(question) if isinstance(la, Origin))
        return self._answers[asked]

    def _solved(self, question: Callable[[], Labels]) -> Labels:
        found = question()
        while self._waiting:
            self._solve()
            found = question()
        return found

    def _solve(self) -> None:
        while self._waiting:
            key = self._waiting.pop()
            self._current = key
            known = self._known[key]
            new = uncovered(self._worked_out(key) - known, known)
            self._current = None
            if new:  # equal labels are one object: those are quick to compare
                added = frozenset(self._labels.setdefault(label, label) for label in new)
                self._known[key] = bounded(known | added)
                for reader in self._readers.get(key, ()):
                    self._waiting.add(reader)

    def _get(self, key: Key) -> Labels:
        if self._current is not None:
            self._readers.setdefault(key, {})[self._current] = None
        if key not in self._known:
            self._known[key] = NONE
            self._waiting.add(key)
        return self._known[key]

    def _all(self, nodes: Iterable[ast.AST]) -> Labels:
        found = NONE
        for node in nodes:
            if isinstance(node, ast.keyword):
                node = node.value
            if isinstance(node, ast.expr):
                found |= self._of(node)
        return found

    @staticmethod
    def _without_count(labels: Labels) -> Labels:
        """The labels of an object that counts steps somewhere: it is no count itself, nor is each of its parts."""
        return frozenset(la for la in labels if isinstance(la, Given) or la.at is not None or la.mark is not Mark.STEPS)

    def _counted(self, labels: Labels, node: ast.AST) -> Labels:
        """The labels that are known of the shape, or the length, of values."""
        found: set[Label] = set()
        measured = node.args[0] if isinstance(node, ast.Call) and node.args else node
        if isinstance(measured, ast.expr) and self.chains.kinds.of(measured) & {"set", "counter"}:
            return labels  # of how many different values there are
        for label in labels:
            if isinstance(label, Given) or label.mark in (Mark.CHOSEN, Mark.PICKED, Mark.DRAW, Mark.SIMULATION):
                found.add(label)
            elif label.mark is Mark.RUNNING:
                found.add(Origin(Mark.RUNNING, label.node, differs=False))
            elif label.mark is Mark.BATCH:
                found.add(Origin(Mark.ROWS, label.node, differs=False))
            elif label.is_count:
                found.add(Origin(label.mark, label.node, differs=False))
        return frozenset(found)

    def _is_object(self, node: ast.expr) -> bool:
        """Whether an expression is an object of the project's own, and not all that is put into it is known."""
        return any(isinstance(v, Instance) for v in self.program.values(node)) and not self._is_tracked(node)

    def _is_tracked(self, base: ast.expr) -> bool:
        """Whether an object is made where its variable is, so that all that is put into it is known."""
        if not isinstance(base, ast.Name):
            return False
        made = [self.program.assigned(d.node)[0] for d in self.chains.definitions(base) if d.kind is Kind.ASSIGNMENT]
        others = [d for d in self.chains.definitions(base) if d.kind not in (Kind.ASSIGNMENT, Kind.IN_PLACE)]
        return bool(made) and not others and all(self._makes(value) for value in made)

    def _makes(self, value: ast.expr | None) -> bool:
        return isinstance(value, ast.Call) and any(isinstance(v, ClassValue) for v in self.program.values(value.func))
