"""Which meters does a loop over shared data update, which lists does it fill, and what becomes of them after it?"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import names
from accelify.codemod.metrics.rows.lists import Collected, Lists
from accelify.codemod.metrics.rows.places import variable_of
from accelify.codemod.metrics.sums.meter_classes import Meter, Meters
from accelify.codemod.metrics.sums.reductions import Sums
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import names_in
from accelify.codemod.training.harmless import Harmless

Loop = ast.For | ast.AsyncFor


@dataclass(frozen=True)
class Metered:
    """Meters and lists of one process's shard of a loop that can be made those of all of it; the meters' updates."""

    loop: Loop
    together: tuple[tuple[str, Meter], ...]
    updates: tuple[ast.Call, ...]
    lists: tuple[Collected, ...]


class Metering:
    """Find the meters and lists that are read once their loop is over."""

    def __init__(
        self,
        program: Program,
        tracer: Tracer,
        prepared: Prepared,
        harmless: Harmless,
        sums: Sums,
        asking: frozenset[Loop] = frozenset(),
    ) -> None:
        """`asking`: the loops that get their batches from prepared loaders by `next`."""
        self.program = program
        self.tracer = tracer
        self.asking = asking
        self.prepared = prepared
        self.meters = Meters(program)
        self.lists = Lists(program, tracer, harmless, sums)

    def of(self, loop: Loop) -> Metered:
        """The meters and lists of a loop."""
        updates = list(self._updates(loop))
        together: dict[str, Meter] = {}
        for _, name, meter in updates:
            calls = [c for c, other, _ in updates if other == name]
            is_read = bool(self._reads_after(variable_of(name), loop))
            is_of_one_kind = all(other == meter for _, place, other in updates if place == name)
            is_read = is_read and is_of_one_kind and any(map(_is_of_batch, calls))
            if is_read and self._is_of_all(name, meter, loop) and all(self._is_always(c, loop) for c in calls):
                together[name] = meter
        kept = tuple(call for call, name, _ in updates if name in together)
        is_shared = loop in self.prepared.loops or self.prepared.is_sharded_sequence(loop)
        lists = self.lists_of(loop) if is_shared else ()
        return Metered(loop, tuple(together.items()), kept, lists)

    def lists_of(self, loop: Loop) -> tuple[Collected, ...]:
        """The lists of a loop that is shared."""
        return self.lists.of(loop, self._before(loop))

    def _updates(self, loop: Loop) -> Iterator[tuple[ast.Call, str, Meter]]:
        """The updates of meters by what is not the time; a meter is a variable, or stands in one at a literal key."""
        for call in (n for s in loop.body for n in walk(s) if isinstance(n, ast.Call)):
            updated = self.meters.updated_by(call)
            if updated is None:
                continue
            place, meter = updated
            holder = place.value if isinstance(place, ast.Subscript) and _is_key(place.slice) else place
            given = [*call.args, *(k.value for k in call.keywords)]
            if not isinstance(holder, ast.Name) or any(self._is_time(a, loop) for a in given):
                continue
            if not meter.sums and not all(map(self.lists.elements(loop).is_number, given)):
                continue
            yield call, ast.unparse(place), meter

    def _is_time(self, value: ast.expr, loop: Loop) -> bool:
        """Whether a value is how long something took."""
        frame = self.program.frame(loop)
        assigned = [
            v
            for n in names_in(value)
            for w in self.tracer.writes(frame, n)
            if (v := _value(self.tracer, w)) is not None
        ]
        calls = [n for v in [value, *assigned] for n in walk(v) if isinstance(n, ast.Call)]
        return any(names.is_clock(n) for c in calls for n in self.program.called(c))

    def _reads_after(self, name: str, loop: Loop) -> list[ast.Name]:
        """Where a meter is read once a loop is over, by its name or by that of a list it was put into before."""
        reads = self.program.reads_of(self.program.frame(loop), name)
        into = {n for r in reads if self._comes_before(r, loop) for n in self._put_into(r)}
        listed = [r for n in (name, *sorted(into)) for r in self.program.reads_of(self.program.frame(loop), n)]
        return [r for r in listed if self.program.is_after(r, loop)]

    def _comes_before(self, node: ast.AST, loop: Loop) -> bool:
        return not self.program.inside(node, loop) and self.program.before(node, loop)

    def _put_into(self, read: ast.Name) -> set[str]:
        statement = self.program.statement(read)
        is_held = not isinstance(self.program.parent(read), ast.Attribute)
        targets = statement.targets if isinstance(statement, ast.Assign) and is_held else []
        return {t.id for t in targets if isinstance(t, ast.Name)}

    def _is_of_all(self, place: str, meter: Meter, loop: Loop) -> bool:
        """Whether a meter is made just outside of a loop that is always shared, and what it had last is not read."""
        is_shared = loop in self.asking or loop in self.prepared.loops or self.prepared.is_sharded_sequence(loop)
        frame, name = self.program.frame(loop), variable_of(place)
        writes = self.tracer.writes(frame, name)
        if not is_shared or len(writes) != 1 or not isinstance(writes[0], ast.Name):
            return False
        made = self.program.statement(writes[0])
        value = self.tracer.assigned(writes[0])
        if value is None or not _makes_meters(value, is_held=name != place) or made not in self._before(loop):
            return False
        reads = self.program.reads_of(frame, name)
        if any(self.program.frame(r) is not frame for r in reads):
            return False
        between = [r for r in reads if self.program.is_after(r, made) and self._comes_before(r, loop)]
        return all(self.taken_of(r) in (None, "reset") for r in between) and not any(
            self.taken_of(r) in meter.last for r in self._reads_after(name, loop)
        )

    def taken_of(self, read: ast.expr) -> str | None:
        """The attribute or method that is asked of a meter: `avg` of `meter.avg` and of `meters["loss"].avg`."""
        parent = self.program.parent(read)
        if isinstance(parent, ast.Subscript) and parent.value is read:
            return self.taken_of(parent)
        return parent.attr if isinstance(parent, ast.Attribute) else None

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


def _is_key(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (str, int))


def _is_of_batch(update: ast.Call) -> bool:
    """Whether an update may be given what a batch says; `progress.advance(1)` counts steps."""
    given = [*update.args, *(k.value for k in update.keywords)]
    return any(not isinstance(value, ast.Constant) for value in given)


def _makes_meters(value: ast.expr, *, is_held: bool) -> bool:
    """Whether an expression makes a meter, or a container each of whose places gets one of its own."""
    if not is_held:
        return isinstance(value, ast.Call)
    if isinstance(value, ast.Dict):
        return all(key is not None for key in value.keys) and all(isinstance(v, ast.Call) for v in value.values)
    if isinstance(value, (ast.List, ast.Tuple)):
        return all(isinstance(v, ast.Call) for v in value.elts)
    made = value.value if isinstance(value, ast.DictComp) else value.elt if isinstance(value, ast.ListComp) else None
    return isinstance(made, ast.Call)


def _value(tracer: Tracer, write: ast.AST) -> ast.expr | None:
    return tracer.assigned(write) if isinstance(write, ast.Name) else None
