"""Which meters does a loop over shared data update, which lists does it fill, and what becomes of them after it?"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from accelify.codemod.libraries import names
from accelify.codemod.metrics.lists import Lists
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import names_in
from accelify.codemod.training.harmless import Harmless
from accelify.codemod.training.meters import Meter, Meters

Loop = ast.For | ast.AsyncFor


@dataclass(frozen=True)
class Metered:
    """Meters and lists of one process's share of a loop that can be made those of all of it; the meters' updates."""

    loop: Loop
    together: tuple[tuple[str, Meter], ...]
    updates: tuple[ast.Call, ...]
    lists: tuple[str, ...]


class Metering:
    """Find the meters and lists that are read once their loop is over."""

    def __init__(self, program: Program, tracer: Tracer, prepared: Prepared, harmless: Harmless) -> None:
        self.program = program
        self.tracer = tracer
        self.prepared = prepared
        self.meters = Meters(program)
        self.lists = Lists(program, tracer, prepared, harmless)

    def of(self, loop: Loop) -> Metered:
        """The meters and lists of a loop."""
        updates = list(self._updates(loop))
        together: dict[str, Meter] = {}
        for _, name, meter in updates:
            calls = [c for c, other, _ in updates if other == name]
            is_read = bool(self._reads_after(name, loop))
            if is_read and self._is_of_all(name, meter, loop) and all(self._is_always(c, loop) for c in calls):
                together[name] = meter
        kept = tuple(call for call, name, _ in updates if name in together)
        return Metered(loop, tuple(together.items()), kept, self.lists.of(loop, self._before(loop)))

    def _updates(self, loop: Loop) -> Iterator[tuple[ast.Call, str, Meter]]:
        """The updates of meters by what is not the time."""
        for call in (n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Call)):
            function = call.func
            if not isinstance(function, ast.Attribute) or function.attr != "update":
                continue
            if not isinstance(function.value, ast.Name) or any(self._is_time(a, loop) for a in call.args):
                continue
            meter = self.meters.of(function.value)
            if meter is not None:
                yield call, function.value.id, meter

    def _is_time(self, value: ast.expr, loop: Loop) -> bool:
        """Whether a value is how long something took."""
        frame = self.program.frame(loop)
        assigned = [
            v
            for n in names_in(value)
            for w in self.tracer.writes(frame, n)
            if (v := _value(self.tracer, w)) is not None
        ]
        calls = [n for v in [value, *assigned] for n in ast.walk(v) if isinstance(n, ast.Call)]
        return any(names.is_clock(n) for c in calls for n in self.program.called(c))

    def _reads_after(self, name: str, loop: Loop) -> list[ast.Name]:
        """Where a meter is read once a loop is over, by its name or by that of a list it was put into before."""
        end, frame = loop.end_lineno or loop.lineno, self.program.frame(loop)
        reads = self.program.reads_of(frame, name)
        into = {n for r in reads if r.lineno < loop.lineno for n in self._put_into(r)}
        return [r for n in (name, *sorted(into)) for r in self.program.reads_of(frame, n) if r.lineno > end]

    def _put_into(self, read: ast.Name) -> set[str]:
        statement = self.program.statement(read)
        is_held = not isinstance(self.program.parent(read), ast.Attribute)
        targets = statement.targets if isinstance(statement, ast.Assign) and is_held else []
        return {t.id for t in targets if isinstance(t, ast.Name)}

    def _is_of_all(self, name: str, meter: Meter, loop: Loop) -> bool:
        """Whether a meter is made just outside of a loop that is always shared, and what it had last is not read."""
        is_shared = loop in self.prepared.loops or self.prepared.is_dealt_by_hand(loop)
        frame = self.program.frame(loop)
        writes = self.tracer.writes(frame, name)
        if not is_shared or len(writes) != 1 or not isinstance(writes[0], ast.Name):
            return False
        made = self.program.statement(writes[0])
        value = self.tracer.assigned(writes[0])
        if not isinstance(value, ast.Call) or made not in self._before(loop):
            return False
        reads = self.program.reads_of(frame, name)
        if any(self.program.frame(r) is not frame for r in reads):
            return False
        between = [self.program.parent(r) for r in reads if made.lineno < r.lineno < loop.lineno]
        last = [self.program.parent(r) for r in self._reads_after(name, loop)]
        return not any(isinstance(p, ast.Attribute) and p.attr != "reset" for p in between) and not any(
            isinstance(p, ast.Attribute) and p.attr in meter.last for p in last
        )

    def _before(self, loop: Loop) -> list[ast.stmt]:
        """The statements that are run once before a loop is: those of its block, and of `with` round it."""
        found: list[ast.stmt] = []
        child: ast.stmt = loop
        while True:
            block = self.program.block(child)
            found.extend(block[: block.index(child)])
            parent = self.program.parent(child)
            if not isinstance(parent, ast.With):
                return found
            child = parent

    def _is_always(self, call: ast.Call, loop: Loop) -> bool:
        """Whether each round makes an update."""
        around = itertools.takewhile(lambda node: node is not loop, self.program.ancestors(call))
        return not any(isinstance(node, (*LOOPS, ast.If, ast.IfExp, ast.Try, ast.Lambda)) for node in around)


def _value(tracer: Tracer, write: ast.AST) -> ast.expr | None:
    return tracer.assigned(write) if isinstance(write, ast.Name) else None
