"""What does a loop keep of each round: sums, tables, collections, meters?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from accelify.codemod.libraries import names
from accelify.codemod.metrics.updates import added_in
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, names_in, names_written_in
from accelify.codemod.training.meters import Meter
from accelify.codemod.training.phases import Phase


class Remains:
    """sums: the variables that are added to. tables: those added to at an index. lists: what is put into each.

    meters: those updated. local: what is bound anew in each round. counters: what numbers the rounds. clocks: what the
    time is read into. shown: where what the rounds before have left is put on the screen.
    """

    def __init__(self, program: Program, tracer: Tracer, loop: ast.For, phase: Phase | None = None) -> None:
        self.program = program
        self.tracer = tracer
        self.loop = loop
        self.phase = phase
        self.frame: Scope = program.frame(loop)
        self.kept = {name for s in loop.body for name in kept_in(s)}
        self.sums: set[str] = set()
        self.tables: set[str] = set()
        self.lists: dict[str, list[ast.expr]] = {}
        self.meters: dict[str, Meter] = {}
        self.shown: list[ast.AST] = []
        bound = set(stored_in(loop.target, *loop.body))
        self.local = {name for name in bound if program.scope(loop).owner(name) is self.frame}
        self._begin()
        self.filled = self._filled()
        self.counters = self._counters()
        self.clocks = {name for name in self.local if self._is_clock(name)}

    def nodes(self) -> Iterator[ast.AST]:
        """What a round runs; of a loop that also trains, where it does not."""
        if self.phase is not None:
            return self.phase.live(*self.loop.body)
        return (n for s in self.loop.body for n in ast.walk(s))

    def _begin(self) -> None:
        """Tell the accumulators from what is bound anew in each round."""
        live = set(self.nodes())
        for name, statements in added_in(self.loop).items():
            if live.isdisjoint(statements):
                continue
            if stored_in(*self.loop.body).count(name) == len(statements) and name in self.local:
                self.sums.add(name)
        self.local -= self.sums

    def _filled(self) -> set[str]:
        """The lists, tables and meters of outside that a round may change."""
        found: set[str] = set()
        for node in self.nodes():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                place = node.func.value if node.func.attr in ("append", "extend", "update") else None
            else:
                target = node.target if isinstance(node, ast.AugAssign) else None
                place = target.value if isinstance(target, ast.Subscript) else None
            if isinstance(place, ast.Name) and place.id not in self.local:
                found.add(place.id)
        return found

    def _counters(self) -> set[str]:
        """The index of `for i, batch in enumerate(loader)`, and what else is counted in each round."""
        found = set()
        if isinstance(self.loop.iter, ast.Call):
            inner = [n for n in ast.walk(self.loop.iter) if isinstance(n, ast.Call)]
            if any("enumerate" in self.program.called(n) for n in inner):
                target = self.loop.target
                first = target.elts[0] if isinstance(target, (ast.Tuple, ast.List)) else target
                found = set(names_in(first))
        return found

    def _is_clock(self, name: str) -> bool:
        writes = self.frame.writes.get(name, ())
        values = [self.tracer.assigned(w) for w in writes if isinstance(w, ast.Name)]
        return len(values) == len(writes) and all(
            isinstance(v, ast.Call) and any(map(names.is_clock, self.program.called(v))) for v in values
        )

    @property
    def accumulators(self) -> list[str]:
        """What outlives the rounds, in the order of the text."""
        found = [n.id for n in self.nodes() if isinstance(n, ast.Name)]
        kept = self.sums | self.tables | self.lists.keys() | self.meters.keys()
        return [name for name in dict.fromkeys(found) if name in kept]

    def forget(self, names: Iterable[str]) -> None:
        """Leave out sums that nobody asks for."""
        self.sums -= set(names)

    def becomes_a_list(self, name: str) -> None:
        """Know that a variable that is added to is a list: `rows += batch.tolist()`."""
        self.sums.discard(name)
        added = [s.value for s in added_in(self.loop)[name]]
        self.lists[name] = [ast.copy_location(ast.Starred(value, ast.Load()), value) for value in added]

    def is_outer(self, name: str) -> bool:
        """Whether a variable of the loop's own function is bound outside of the loop."""
        return name not in self.local and self.program.scope(self.loop).owner(name) is self.frame


def stored_in(*nodes: ast.AST) -> list[str]:
    """The names that are bound in some nodes."""
    parts = (n for node in nodes for n in ast.walk(node))
    return [n.id for n in parts if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def kept_in(node: ast.AST) -> set[str]:
    """The variables that hold nothing but what some code has made itself: results of calls and calculations, lists."""
    made: set[str] = set()
    other: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Assign):
            is_made = isinstance(part.value, (ast.Call, ast.BinOp, ast.Compare, ast.List, ast.Dict, ast.ListComp))
            for target in part.targets:
                (made if is_made else other).update(names_written_in(target))
        elif isinstance(part, (ast.For, ast.AsyncFor)):
            other.update(names_written_in(part.target))
        elif isinstance(part, ast.arg):
            other.add(part.arg)
    return made - other


def is_in(node: ast.expr, kept: set[str]) -> bool:
    """Whether an expression is a place in one of some variables."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name) and node.id in kept
