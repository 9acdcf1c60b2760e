"""Which values of one rank leave the training though nothing made them everyone's, and what is to be said of each?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from accelify.codemod.metrics.rank import Given, Loop, Mark, Origin, Ranks
from accelify.codemod.metrics.sinks import Sink, Sinks, Way
from accelify.codemod.metrics.updates import Updating, assigned_to, updating
from accelify.codemod.semantics.program import Program


class About(Enum):
    """What kind of value it is."""

    SUM = "sum"
    LIST = "list"
    RUNNING = "running value"
    UNFINISHED = "running value before it is reduced"
    BATCH = "value of a single batch, shown while the loop runs"
    LAST = "value of the last batch"
    STATE = "state that later steps compute with"


@dataclass(frozen=True, slots=True)
class Report:
    """A value of one rank's own: what it is, where it comes to be or is shown, and its name."""

    about: About
    node: ast.AST
    text: str
    loop: ast.AST


class Reports:
    """Go from the sinks to what makes their values a rank's own; one report for each of that."""

    def __init__(
        self,
        ranks: Ranks,
        is_reduced: Callable[[ast.AST], bool],
        losses: Sequence[ast.expr] = (),
    ) -> None:
        self.ranks = ranks
        self.program = ranks.program
        self.is_reduced = is_reduced
        self.losses = losses
        self._found: dict[tuple[object, ...], Report] = {}
        self._followed: set[tuple[Way, Given]] = set()  # what was said of one call's value is said of all

    def find(self) -> list[Report]:
        """The reports, in the order in which the values leave."""
        if self.ranks.rounds:
            for sink in Sinks(self.ranks.chains).find():
                self._follow(sink)
            for loss in self.losses if not self.ranks.shards.draws else ():
                self._of_state(loss)
        return list(self._found.values())

    def _follow(self, sink: Sink, at: str | None = None) -> None:
        """Report a sink's own values; those that its function is given, where it is called."""
        own, given = self.ranks.parts_of(sink.value, at)
        for origin in self._origins(sink, own.origins):
            self._report(sink, origin)
        for each in given:
            if (sink.way, each) in self._followed:
                continue
            self._followed.add((sink.way, each))
            for call in self.program.calls_of(each.scope):
                value = self.ranks.chains.given(call, each.scope, each.name)
                if value is not None:
                    self._follow(Sink(sink.way, value, call), each.at)

    def _origins(self, sink: Sink, origins: frozenset[Origin]) -> Iterator[Origin]:
        """What makes the value of a sink a rank's own, as far as that sink matters."""
        running = {o for o in origins if o.mark is Mark.RUNNING}
        yield from sorted(running, key=_by_place)
        if not running and sink.way not in (Way.DECIDED, Way.HANDED_OVER):
            yield from sorted({o for o in origins if o.mark in (Mark.BATCH, Mark.CHOSEN)}, key=_by_place)[:1]

    def _report(self, sink: Sink, origin: Origin) -> None:
        if origin.mark is Mark.RUNNING:
            self._of_running(sink, origin)
            return
        loop = self._loop_round(sink.node)
        if loop is not None:
            if sink.way in (Way.SHOWN, Way.SAVED):
                text = self._named(sink.value, origin)
                self._found.setdefault((About.BATCH, loop), Report(About.BATCH, sink.node, text, loop))
        else:
            text = self._named(sink.value, origin)
            key = (About.LAST, text, self.program.frame(sink.node))
            self._found.setdefault(key, Report(About.LAST, sink.node, text, origin.node))

    def _of_running(self, sink: Sink, origin: Origin) -> None:
        loop = self.ranks.loop_of(origin.node)
        if loop is None:
            return
        text = updated_text(self.program.parent, origin.node)
        if self.is_reduced(origin.node):
            if sink.way in (Way.SHOWN, Way.SAVED):
                self._found.setdefault((About.UNFINISHED, text, loop), Report(About.UNFINISHED, sink.value, text, loop))
            return
        kind = {Updating.ADDS: About.SUM, Updating.COLLECTS: About.LIST}.get(
            updating(self.ranks.chains, origin.node), About.RUNNING
        )
        key = (text, self.program.frame(origin.node))
        self._found.setdefault(key, Report(kind, origin.node, text, loop))

    def _of_state(self, loss: ast.expr) -> None:
        """Report what earlier steps put aside for the loss of a later one; a sum that is trained on itself is none."""
        for origin in sorted(self.ranks.of(loss).of(Mark.RUNNING), key=_by_place):
            text, loop = updated_text(self.program.parent, origin.node), self.ranks.loop_of(origin.node)
            is_summed = updating(self.ranks.chains, origin.node) is Updating.ADDS and isinstance(origin.node, ast.Name)
            is_carried = isinstance(
                assigned_to(self.program, origin.node) or _tuple_of(self.program, origin.node), ast.Call
            )
            if loop is not None and not is_summed and not is_carried:
                self._found.setdefault((About.STATE, text), Report(About.STATE, origin.node, text, loop))

    def _loop_round(self, node: ast.AST) -> Loop | None:
        """The sharded loop during which a node is run."""
        around = [n for n in self.program.loops_round(node) if n in self.ranks.rounds]
        for loop in around:
            if not isinstance(loop, ast.While):
                return loop
        return self.ranks.loop_that_runs(self.program.frame(node))

    def _named(self, value: ast.expr, origin: Origin) -> str:
        """The variable in an expression that a value of one rank's own comes from."""
        names = [n for n in ast.walk(value) if isinstance(n, ast.Name) and origin in self.ranks.of(n).origins]
        attributes = [n for n in ast.walk(value) if isinstance(n, ast.Attribute) and origin in self.ranks.of(n).origins]
        if names or attributes:
            return ast.unparse([*names, *attributes][0])
        return f"{ast.unparse(value.func)}(...)" if isinstance(value, ast.Call) else ast.unparse(value)


def updated_text(parent: Callable[[ast.AST], ast.AST | None], node: ast.AST) -> str:
    """What an update changes, as the script names it: `total` of `total.add_(x)`, `losses` of `losses[k].append(x)`."""
    target: ast.AST = node
    if isinstance(node, ast.Call):
        target = node.func.value if isinstance(node.func, ast.Attribute) else node
        while isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute):
            target = target.func.value
        out = next((k.value for k in node.keywords if k.arg == "out"), None)
        target = out or target
    while isinstance(target, ast.Subscript) and isinstance(node, ast.Call):
        target = target.value
    return ast.unparse(target)


def _by_place(origin: Origin) -> tuple[int, int]:
    return getattr(origin.node, "lineno", 0), getattr(origin.node, "col_offset", 0)


def _tuple_of(program: Program, target: ast.AST) -> ast.expr | None:
    """What `out, state = model(x, state)` takes apart."""
    parent = program.parent(target)
    holder = program.parent(parent) if isinstance(parent, (ast.Tuple, ast.List)) else None
    return holder.value if isinstance(holder, ast.Assign) else None
