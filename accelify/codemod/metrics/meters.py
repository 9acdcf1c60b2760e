"""Which meters does a loop over shared data update, which lists does it fill, and what becomes of them after it?"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from accelify.codemod.libraries import methods, names
from accelify.codemod.libraries.row import Rows
from accelify.codemod.metrics.updates import assigned_to
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Kind
from accelify.codemod.semantics.effects.kinds import UNKNOWN, Kinds
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import names_in
from accelify.codemod.semantics.values import Made
from accelify.codemod.training.harmless import Harmless
from accelify.codemod.training.meters import Meter, Meters

Loop = ast.For | ast.AsyncFor


@dataclass(frozen=True)
class Metered:
    """Meters and lists of one process's shard of a loop that can be made those of all of it; the meters' updates."""

    loop: Loop
    together: tuple[tuple[str, Meter], ...]
    updates: tuple[ast.Call, ...]
    lists: tuple[str, ...]


class Metering:
    """Find the meters and lists that are read once their loop is over."""

    def __init__(
        self,
        program: Program,
        tracer: Tracer,
        prepared: Prepared,
        harmless: Harmless,
        asking: frozenset[Loop] = frozenset(),
    ) -> None:
        """`asking`: the loops that get their batches from prepared loaders by `next`."""
        self.program = program
        self.tracer = tracer
        self.asking = asking
        self.prepared = prepared
        self.meters = Meters(program)
        self.lists = Lists(program, tracer, harmless)

    def of(self, loop: Loop) -> Metered:
        """The meters and lists of a loop."""
        updates = list(self._updates(loop))
        together: dict[str, Meter] = {}
        for _, name, meter in updates:
            calls = [c for c, other, _ in updates if other == name]
            is_read = bool(self._reads_after(variable_of(name), loop))
            if is_read and self._is_of_all(name, meter, loop) and all(self._is_always(c, loop) for c in calls):
                together[name] = meter
        kept = tuple(call for call, name, _ in updates if name in together)
        lists = self.lists_of(loop) if loop in self.prepared.loops else ()
        return Metered(loop, tuple(together.items()), kept, lists)

    def lists_of(self, loop: Loop) -> tuple[str, ...]:
        """The lists of a loop that is shared."""
        return self.lists.of(loop, self._before(loop))

    def _updates(self, loop: Loop) -> Iterator[tuple[ast.Call, str, Meter]]:
        """The updates of meters by what is not the time; a meter is a variable, or stands in one at a literal key."""
        for call in (n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Call)):
            function = call.func
            if not isinstance(function, ast.Attribute) or function.attr != "update":
                continue
            place = function.value
            holder = place.value if isinstance(place, ast.Subscript) and _is_key(place.slice) else place
            if not isinstance(holder, ast.Name) or any(self._is_time(a, loop) for a in call.args):
                continue
            meter = self.meters.of(place)
            if meter is not None:
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
        calls = [n for v in [value, *assigned] for n in ast.walk(v) if isinstance(n, ast.Call)]
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


def variable_of(place: str) -> str:
    """The variable that a meter is, or that holds it."""
    return place.partition("[")[0]


def _is_key(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (str, int))


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


@dataclass(frozen=True, slots=True)
class _Collected:
    """A statement that puts a value at the end of what a variable holds: `rows.append(x)`, `a = np.append(a, x)`."""

    statement: ast.stmt
    place: ast.Name
    value: ast.expr


class Lists:
    """Find lists that can be gathered after their loop: a number or an array for each batch, as in one process."""

    def __init__(self, program: Program, tracer: Tracer, harmless: Harmless) -> None:
        self.program = program
        self.tracer = tracer
        self.harmless = harmless
        self.chains = program.once(Chains)

    def of(self, loop: Loop, before: list[ast.stmt]) -> tuple[str, ...]:
        """The lists of a loop; `before` are the statements that are run once before it."""
        if self._ends(loop) or self._is_over_several(loop):
            return ()
        each_round = statements_of_each_round(loop.body)
        found = {each.place.id: each for each in map(self._collected, each_round) if each is not None}
        return tuple(name for name, each in found.items() if self._is_put_together(each, loop, before))

    def _is_over_several(self, loop: Loop) -> bool:
        """Whether a loop goes over something else than one loader: `zip(these, those)`, a call that is unknown."""
        source = self.tracer.inside(loop.iter)
        values = self.program.values(source)
        return isinstance(source, ast.Call) and not (values and all(map(self.harmless.roles.is_loader, values)))

    def _collected(self, statement: ast.stmt) -> _Collected | None:
        """What a statement puts at the end of a variable's list or array, if it does."""
        value = getattr(statement, "value", None)
        place: ast.expr | None
        one: ast.expr | None
        if isinstance(statement, ast.AugAssign):
            place, one = statement.target, value if isinstance(value, ast.List) else None
        elif not isinstance(value, ast.Call):
            return None
        elif isinstance(statement, ast.Assign):
            place, one = self._joined(value)
            if [ast.unparse(target) for target in statement.targets] != [place and ast.unparse(place)]:
                return None
        else:
            is_appended = _method(value) == "append" and len(value.args) == 1
            place, one = getattr(value.func, "value", None), value.args[0] if is_appended else None
        if isinstance(one, ast.List) and not isinstance(statement, ast.Expr):
            one = one.elts[0] if len(one.elts) == 1 else None
        return _Collected(statement, place, one) if isinstance(place, ast.Name) and one is not None else None

    def _joined(self, call: ast.Call) -> tuple[ast.expr, ast.expr] | tuple[None, None]:
        """The two parts of `np.append(losses, x)` and of `np.hstack((losses, x))`."""
        rows = self.chains.kinds.called(call)
        if not rows or any(row.rows is not Rows.CONCATENATES for row in rows) or call.keywords:
            return None, None
        first = call.args[0] if len(call.args) == 1 else None
        parts = first.elts if isinstance(first, (ast.List, ast.Tuple)) else call.args
        return (parts[0], parts[1]) if len(parts) == 2 else (None, None)

    def _ends(self, loop: Loop) -> bool:
        """Whether a round may be the last, or may end early."""
        for node in ast.walk(loop):
            if isinstance(node, (ast.Return, ast.Raise)):
                return True
            if isinstance(node, (ast.Break, ast.Continue)) and self.program.loops_round(node)[0] is loop:
                return True
        return False

    def _is_put_together(self, each: _Collected, loop: Loop, before: list[ast.stmt]) -> bool:
        """Whether a list begins empty just before a loop, gets a number in each round, and is read for their mean."""
        facts, frame, variable = self.chains.facts(loop), self.program.frame(loop), self.chains.variable(each.place)
        if variable is None or variable.scope is not frame:
            return False
        inside = {d for d in facts.all_of(variable) if self.program.inside(d.node, loop)}
        begun = facts.definitions(each.place) - inside
        if len(begun) != 1 or any(self.program.statement(d.node) is not each.statement for d in inside):
            return False
        first = next(iter(begun))
        if first.kind is not Kind.ASSIGNMENT or self.program.statement(first.node) not in before:
            return False
        if not self._is_empty(assigned_to(self.program, first.node)):
            return False
        if any(self.program.frame(r) is not frame for r in self.program.reads_of(frame, variable.name)):
            return False
        reads = {r for d in (first, *inside) for r in facts.uses(d)}
        within = [r for r in reads if self.program.inside(r, loop) and not self.program.inside(r, each.statement)]
        outside = [r for r in reads if not self.program.inside(r, loop)]
        is_number = Elements(self.program, self.tracer, self.harmless, loop).is_number(each.value)
        is_value = is_number or (not isinstance(each.statement, ast.Assign) and self._has_no_graph(each.value))
        return is_value and bool(outside) and all(map(self.is_meant, outside)) and all(map(self._is_shown, within))

    def _has_no_graph(self, value: ast.expr) -> bool:
        """Whether a value is an array, or a tensor that nothing is learned from: `loss.detach()`, `loss.cpu().data`."""
        kinds = self.chains.kinds.of(value)
        if isinstance(value, ast.Name):
            given = self.tracer.only_value(value)
            return kinds == {"ndarray"} or (given is not None and given is not value and self._has_no_graph(given))
        return kinds == {"ndarray"} or (kinds == {"tensor"} and _is_detached(value))

    def _is_empty(self, value: ast.expr | None) -> bool:
        """`[]`, `list()`, `np.array([])`."""
        if isinstance(value, ast.Call):
            called, given = self.program.called(value), value.args
            if "list" in called:
                return not given
            return any(map(names.makes_of_values, called)) and len(given) == 1 and self._is_empty(given[0])
        return isinstance(value, ast.List) and not value.elts

    def is_meant(self, read: ast.expr) -> bool:
        """Whether a list is read for what it says of all batches alike: `np.mean(losses)`, `losses.mean()`."""
        call = self.program.parent(read)
        if isinstance(call, ast.Attribute):
            return methods.summarizes(call.attr)
        if not isinstance(call, ast.Call) or call.args[:1] != [read]:
            return False
        called, taken = self.program.called(call), self.program.parent(call)
        if not all(isinstance(n, ast.Constant) for n in (*call.args[1:], *(k.value for k in call.keywords))):
            return False
        if any(map(names.summarizes, called)):
            return True
        if any(map(names.sums_up, called)):
            if not isinstance(taken, ast.BinOp) or not isinstance(taken.op, ast.Div) or taken.left is not call:
                return False
            return ast.unparse(taken.right) == f"len({ast.unparse(read)})"
        rows = self.chains.kinds.called(call)
        is_array = any(map(names.makes_of_values, called))
        is_array = is_array or bool(
            rows and all(row.rows is Rows.CONCATENATES for row in rows)
        )  # `torch.stack(losses)`
        return is_array and isinstance(taken, ast.Attribute) and methods.summarizes(taken.attr)

    def _is_shown(self, read: ast.expr, depth: int = 3) -> bool:
        """Whether a value is only shown, itself or by way of variables: `recent = sum(losses[-9:]); print(recent)`."""
        statement = self.program.statement(read)
        if isinstance(statement, ast.Expr):
            return isinstance(statement.value, ast.Call) and self.harmless.shows(statement.value)
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        variable = self.chains.variable(target) if isinstance(target, ast.Name) else None
        if variable is None or not depth or variable.scope is not self.program.frame(read):
            return False
        reads = self.program.reads_of(self.program.frame(read), variable.name)
        return all(self._is_shown(r, depth - 1) for r in reads)


def statements_of_each_round(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements that each round runs."""
    found: list[ast.stmt] = []
    for statement in body:
        found.extend(statements_of_each_round(statement.body) if isinstance(statement, ast.With) else [statement])
    return found


_BATCH = ast.Constant(None)
_DEPTH = 4


class Elements:
    """Tells it of expressions in a loop; a starred one stands for its elements."""

    def __init__(self, program: Program, tracer: Tracer, harmless: Harmless, loop: ast.For | ast.AsyncFor) -> None:
        self.program = program
        self.tracer = tracer
        self.harmless = harmless
        self.loop = loop

    def is_number(self, value: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a value is a number, not a tensor of one."""
        if isinstance(value, ast.Starred):
            return isinstance(value.value, ast.Call) and methods.gives_numbers(_method(value.value))
        if self.program.once(Kinds).of(value) == {"number"}:
            return True
        if isinstance(value, ast.Constant):
            return isinstance(value.value, (int, float))
        if isinstance(value, ast.BinOp):
            others = [v for v in (value.left, value.right) if not self.is_number(v, depth)]
            return len(others) < 2 and all(map(self._is_setting, others))
        if isinstance(value, ast.Name):
            given = self._given(value.id)
            return bool(depth and given) and all(self.is_number(v, depth - 1) for v in given)
        if not isinstance(value, ast.Call):
            return False
        called = self.program.called(value)
        if any(map(names.gives_what_it_is_given, called)):
            return all(self.is_number(v, depth) for v in value.args)
        return methods.gives_numbers(_method(value)) or any(map(names.gives_a_number, called))

    def _is_setting(self, factor: ast.expr) -> bool:
        """Whether a factor is none of the loop's values, and no tensor as far as is known: `config["weight"]`."""
        if isinstance(factor, ast.BinOp):
            return all(self.is_number(v) or self._is_setting(v) for v in (factor.left, factor.right))
        around = [factor]
        while isinstance(part := around[-1], (ast.Attribute, ast.Subscript)):
            around.append(part.value)
        keys = [part.slice for part in around if isinstance(part, ast.Subscript)]
        if not isinstance(around[-1], ast.Name) or not all(isinstance(key, ast.Constant) for key in keys):
            return False
        stored = {ast.unparse(n) for n in ast.walk(self.loop) if isinstance(getattr(n, "ctx", None), ast.Store)}
        is_made = any(isinstance(v, Made) for v in self.program.values(factor))
        kinds = self.program.once(Kinds).of(factor)
        return stored.isdisjoint(map(ast.unparse, around)) and not is_made and kinds <= {"number", UNKNOWN}

    def is_plain(self, value: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a value can be handed from process to process: numbers, arrays, tensors."""
        if isinstance(value, ast.Starred):
            return self.is_plain(value.value, depth)
        if self.is_number(value, depth) or isinstance(value, ast.Constant):
            return True
        if isinstance(value, (ast.Tuple, ast.List)):
            return all(self.is_plain(e, depth) for e in value.elts)
        if isinstance(value, ast.BinOp):
            return self.is_plain(value.left, depth) and self.is_plain(value.right, depth)
        if isinstance(value, ast.Name):
            given = self._given(value.id, in_parts=True)
            return bool(depth and given) and all(self.is_plain(v, depth - 1) for v in given)
        if isinstance(value, (ast.Subscript, ast.Attribute)):
            return self.is_plain(value.value, depth)
        return isinstance(value, ast.Call) and self._gives_what_is_plain(value, depth)

    def _gives_what_is_plain(self, call: ast.Call, depth: int) -> bool:
        """Whether a call does: one of a model, of a library for tensors and arrays, or a method of what is plain."""
        if methods.brings_to_the_host(_method(call)) or any(map(names.gives_values, self.program.called(call))):
            return True
        if self.harmless.is_of_module(call):
            return True
        return isinstance(call.func, ast.Attribute) and self.is_plain(call.func.value, depth)

    def _given(self, name: str, *, in_parts: bool = False) -> list[ast.expr]:
        """The values assigned to a variable in a loop, on request in a part of it too; none where some are not known.

        A part of the batch stands for a loader's batches, which came from another process often enough.
        """
        found: list[ast.expr] = []
        for node in ast.walk(self.loop):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                value = self.tracer.assigned(node)
                statement = self.program.statement(node)
                if value is None and in_parts and statement is self.loop:
                    value = _BATCH
                elif value is None and in_parts and isinstance(statement, ast.Assign):
                    value = statement.value
                if value is None:
                    return []
                if not isinstance(value, ast.Name) or value.id != name:
                    found.append(value)
        return found


def _is_detached(value: ast.expr) -> bool:
    """`loss.detach()`, `loss.data`, and of these `.cpu()`."""
    part = value.func if isinstance(value, ast.Call) else value
    return isinstance(part, ast.Attribute) and (methods.leaves_the_graph(part.attr) or _is_detached(part.value))


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
