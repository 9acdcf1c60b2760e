"""Does a round of a loop need anything of the one before, or do anything but add to what the loop keeps?"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator

from accelify.codemod.libraries import methods, names
from accelify.codemod.libraries.row import Trait
from accelify.codemod.metrics.rows.elements import Elements
from accelify.codemod.metrics.sums.meter_classes import Meter, Meters
from accelify.codemod.metrics.updates import added_in
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, names_in, names_written_in
from accelify.codemod.training.harmless import Harmless
from accelify.codemod.training.phases import Phase

_ADDS = (ast.Add, ast.Sub)


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
        """The code of a round; of a loop that also trains, only where it does not."""
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
                place = holder_of(node.func.value) if methods.puts_in(node.func.attr) else None
            else:
                target = node.target if isinstance(node, ast.AugAssign) else None
                place = table_of(target) if isinstance(target, ast.Subscript) else None
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
        """The variables, and places under literal keys, that outlive the rounds, in the order of the text."""
        found = [ast.unparse(n) for n in self.nodes() if isinstance(n, (ast.Name, ast.Subscript))]
        kept = self.sums | self.tables | self.lists.keys() | self.meters.keys()
        return [name for name in dict.fromkeys(found) if name in kept]

    def forget(self, names: Iterable[str]) -> None:
        """Leave out sums that nobody asks for."""
        self.sums -= set(names)

    def becomes_a_list(self, name: str) -> None:
        """Know that a variable that is added to is a list: `rows += batch.tolist()`, `losses += [loss]`."""
        self.sums.discard(name)
        added = [s.value for s in added_in(self.loop)[name]]
        self.lists[name] = [
            value.elts[0]
            if isinstance(value, ast.List) and len(value.elts) == 1 and not isinstance(value.elts[0], ast.Starred)
            else ast.copy_location(ast.Starred(value, ast.Load()), value)
            for value in added
        ]

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


def holder_of(place: ast.expr) -> ast.expr:
    """`meters` of the place `meters["loss"]`; any other expression itself."""
    is_at_key = isinstance(place, ast.Subscript) and isinstance(place.slice, ast.Constant)
    return place.value if is_at_key and isinstance(place, ast.Subscript) else place


def table_of(place: ast.expr) -> ast.expr:
    """`sums` of the place `sums["train"]["loss"]`."""
    while isinstance(place, ast.Subscript):
        place = place.value
    return place


def is_in(node: ast.expr, kept: set[str]) -> bool:
    """Whether an expression is a place in one of some variables."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name) and node.id in kept


class Rounds(Remains):
    """Go through a loop's body once, as it runs; what it keeps is known once it was found to be independent."""

    def __init__(
        self,
        program: Program,
        tracer: Tracer,
        harmless: Harmless,
        meters: Meters,
        loop: ast.For,
        phase: Phase | None = None,
    ) -> None:
        super().__init__(program, tracer, loop, phase)
        self.harmless = harmless
        self.meters_of = meters
        still = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Assign) and self._is_still_itself(n)]
        kept = [name for statement in still for name in stored_in(*statement.targets)]
        self.local -= {name for name in kept if stored_in(loop.target, *loop.body).count(name) == kept.count(name)}
        updated = [self.meters_of.updated_by(n) for n in self.nodes() if isinstance(n, ast.Call)]
        places = [holder_of(u[0]) for u in updated if u is not None]
        self.filled |= {p.id for p in places if isinstance(p, ast.Name)} - self.local
        self._running: set[str] = set(self.counters)  # what depends on the rounds before, and is good for showing only

    def are_independent(self) -> bool:
        """Whether no round needs another, so that each may run in another process."""
        defined = set(names_in(self.loop.target)) - self.counters
        return self._run(self.loop.body, defined, inner=False) is not None

    # Statements: what is bound after them, or None where one does more than a round may.

    def _run(self, body: Iterable[ast.stmt], defined: set[str], *, inner: bool) -> set[str] | None:
        now: set[str] | None = defined
        for statement in body:
            now = self._after(statement, now, inner) if now is not None else None
        return now

    def _after(self, statement: ast.stmt, defined: set[str], inner: bool) -> set[str] | None:
        if isinstance(statement, (ast.Pass, ast.Continue)) or (inner and isinstance(statement, ast.Break)):
            return defined
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            return self._assigned(statement, defined)
        if isinstance(statement, ast.AugAssign):
            return self._added(statement, defined)
        if isinstance(statement, ast.Expr):
            return defined if self._is_fine(statement, defined) else None
        if isinstance(statement, ast.If):
            return self._chosen(statement, defined, inner)
        if isinstance(statement, ast.With):
            items = [i.context_expr for i in statement.items]
            if not all(i.optional_vars is None for i in statement.items) or not all(map(self._is_context, items)):
                return None
            return self._run(statement.body, defined, inner=inner)
        if isinstance(statement, ast.For):
            if statement.orelse or self._runs(statement.iter, defined) is not False or self._is_loader(statement.iter):
                return None
            bound = names_in(statement.target)
            return None if self._run(statement.body, defined | bound, inner=True) is None else defined
        if isinstance(statement, ast.Assert):
            return defined if self._runs(statement.test, defined) is False else None
        if isinstance(statement, ast.Delete):
            gone = {t.id for t in statement.targets if isinstance(t, ast.Name)}
            return defined - gone if len(gone) == len(statement.targets) and gone <= defined else None
        return None

    def _assigned(self, statement: ast.Assign | ast.AnnAssign, defined: set[str]) -> set[str] | None:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = set(stored_in(*targets))
        if statement.value is None or self._is_still_itself(statement):
            return defined
        if names & self.sums:
            return defined if self._is_summand(statement.value, defined, names) else None
        runs = self._runs(statement.value, defined)
        if runs is None or not all(self._may_bind(t, defined, runs) for t in targets):
            return None
        if runs:
            self._running |= names
            return defined - names
        self._running -= names
        return defined | names

    def _is_still_itself(self, statement: ast.Assign | ast.AnnAssign) -> bool:
        """`model = model.eval()`."""
        call = statement.value
        targets = [ast.unparse(t) for t in statement.targets] if isinstance(statement, ast.Assign) else []
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return False
        return targets == [ast.unparse(call.func.value)] and self.harmless.sets_eval_mode(call)

    def _may_bind(self, target: ast.expr, defined: set[str], is_running: bool) -> bool:
        if isinstance(target, (ast.Tuple, ast.List)):
            return all(self._may_bind(t, defined, is_running) for t in target.elts)
        if isinstance(target, (ast.Name, ast.Starred)):
            return True
        if isinstance(target, ast.Attribute) and self.harmless.is_shown_on(target.value):
            return True
        if is_running or not is_in(target, self.kept & defined):
            return False
        return all(self._runs(n.slice, defined) is False for n in ast.walk(target) if isinstance(n, ast.Subscript))

    def _added(self, statement: ast.AugAssign, defined: set[str]) -> set[str] | None:
        target = statement.target
        if isinstance(target, ast.Name) and target.id in defined:
            runs = self._runs(statement.value, defined)
            if runs:
                self._running.add(target.id)
            return None if runs is None else defined - {target.id} if runs else defined
        if isinstance(target, ast.Name):
            if target.id in self._running:
                return defined if self._runs(statement.value, defined) is not None else None
            is_sum = target.id in self.sums and isinstance(statement.op, _ADDS)
            return defined if is_sum and self._runs(statement.value, defined) is False else None
        if isinstance(target, ast.Subscript) and self._runs(statement.value, defined) is False:
            places = [n.slice for n in ast.walk(target) if isinstance(n, ast.Subscript)]
            if any(self._runs(p, defined) is not False for p in places):
                return None
            if is_in(target, self.kept & defined):
                return defined
            table = table_of(target)
            if isinstance(table, ast.Name) and isinstance(statement.op, _ADDS) and self.is_outer(table.id):
                self.tables.add(table.id)
                return defined
        return None

    def _is_summand(self, value: ast.expr, defined: set[str], names: set[str]) -> bool:
        """Whether `total = total + x` adds what has nothing to do with the rounds before."""
        assert isinstance(value, ast.BinOp)
        other = value.right if isinstance(value.left, ast.Name) and value.left.id in names else value.left
        return isinstance(value.op, _ADDS) and self._runs(other, defined) is False

    def _is_fine(self, statement: ast.Expr, defined: set[str]) -> bool:
        call = statement.value
        if isinstance(call, ast.Constant):
            return True
        if not isinstance(call, ast.Call):
            return self._runs(call, defined) is False
        if self.harmless.shows(call):
            self.shown.extend(self._running_in(call))
            return True
        if self.phase is not None and self.harmless.clears_gradients(call):
            return True  # as each training round does, too
        updated, function = self.meters_of.updated_by(call), call.func
        if updated is not None and self._is_outer_place(updated[0]):
            return self._metered(call, *updated, defined)
        if isinstance(function, ast.Attribute):
            if methods.extends(function.attr) and self._is_outer_place(function.value):
                return self._collects(call, function, ast.unparse(function.value), defined)
            if self.harmless.changes_own(call, self.kept & defined):
                return self._all_fine([*call.args, *[k.value for k in call.keywords]], defined)
        return self._runs(call, defined) is False

    def _all_fine(self, parts: Iterable[ast.expr], defined: set[str]) -> bool:
        return all(self._runs(p, defined) is False for p in parts)

    def _collects(self, call: ast.Call, function: ast.Attribute, name: str, defined: set[str]) -> bool:
        if len(call.args) != 1 or call.keywords or not self._all_fine(call.args, defined):
            return False
        value = call.args[0]
        self.lists.setdefault(name, []).append(value if function.attr == "append" else ast.Starred(value, ast.Load()))
        return True

    def _is_outer_place(self, place: ast.expr) -> bool:
        holder = holder_of(place)
        return isinstance(holder, ast.Name) and self.is_outer(holder.id)

    def _metered(self, call: ast.Call, receiver: ast.expr, meter: Meter, defined: set[str]) -> bool:
        place = ast.unparse(receiver)
        given = [*call.args, *[k.value for k in call.keywords]]
        is_other = self.meters.get(place, meter) != meter
        elements = Elements(self.program, self.tracer, self.harmless, self.loop)
        is_unclear = not meter.sums and not all(map(elements.is_number, given))
        if is_other or is_unclear or any(isinstance(a, ast.Starred) for a in call.args):
            return False
        runs = [self._runs(a, defined) for a in given]
        if None in runs:
            return False
        if True in runs:  # of the time that a round takes
            self._running.add(place)
            return place not in self.meters
        self.meters[place] = meter
        round_it = self.program.ancestors(call)
        is_always = all(isinstance(a, (ast.Expr, ast.With)) for a in itertools.takewhile(self._is_inner, round_it))
        return place not in self._running and is_always

    def _is_inner(self, node: ast.AST) -> bool:
        return node is not self.loop

    def _chosen(self, statement: ast.If, defined: set[str], inner: bool) -> set[str] | None:
        said = self.phase.said(statement.test) if self.phase is not None else None
        if said is not None:
            return self._run(statement.body if said else statement.orelse, defined, inner=inner)
        runs = self._runs(statement.test, defined)
        if runs is None:
            return None
        if runs:
            self.shown.extend(self._running_in(statement.test))
            return defined if all(map(self._only_shows, [*statement.body, *statement.orelse])) else None
        then = self._run(statement.body, set(defined), inner=inner)
        other = self._run(statement.orelse, set(defined), inner=inner)
        if then is None or other is None:
            return None
        ends = [isinstance(b[-1], ast.Continue) if b else False for b in (statement.body, statement.orelse)]
        return other if ends[0] else then if ends[1] else then & other

    def _only_shows(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.If):
            return all(map(self._only_shows, [*statement.body, *statement.orelse]))
        if isinstance(statement, ast.Assign):  # of what is shown below
            self._running |= set(stored_in(*statement.targets))
            return all(isinstance(t, ast.Name) for t in statement.targets) and self._calls_are_harmless(statement.value)
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or not self.harmless.shows(call):
            return isinstance(statement, ast.Pass)
        self.shown.extend(self._running_in(statement))
        return True

    # Expressions.

    def _runs(self, node: ast.expr, defined: set[str]) -> bool | None:
        """Whether a value depends on the rounds before; None where that cannot be, or where it does more."""
        if not self._calls_are_harmless(node) or any(isinstance(n, (ast.NamedExpr, ast.Await)) for n in ast.walk(node)):
            return None
        calls = (n for n in ast.walk(node) if isinstance(n, ast.Call))
        found = any(names.is_clock(name) for c in calls for name in self.program.called(c))
        for name in self._names(node):
            if name.id in defined and name.id not in self._running:
                continue
            if name.id in self.local and name.id not in self._running | self.clocks | self.counters:
                return None  # of the round before
            found = found or name.id in self.local or self._accumulates(name.id) or name.id in self._running
        return found

    def _is_context(self, node: ast.expr) -> bool:
        """Whether nothing but what runs under it is changed by a context: `torch.no_grad()`."""
        return isinstance(node, ast.Call) and any(map(names.is_context, self.program.called(node)))

    def _accumulates(self, name: str) -> bool:
        return name in self.sums or name in self.filled

    def _calls_are_harmless(self, node: ast.expr) -> bool:
        return all(
            self.harmless.is_call(n) and not any(self._is_loader(a) for a in n.args)
            for n in ast.walk(node)
            if isinstance(n, ast.Call) and ast.unparse(n.func) != "len"
        )

    def _is_loader(self, node: ast.expr) -> bool:
        return any(self.harmless.roles.is_loader(v) for v in self.program.values(node))

    def _names(self, node: ast.AST) -> list[ast.Name]:
        """The function's own variables that are read."""
        return [
            n
            for n in ast.walk(node)
            if isinstance(n, ast.Name)
            and isinstance(n.ctx, ast.Load)
            and self.program.scope(n).owner(n.id) is self.frame
        ]

    def _running_in(self, node: ast.AST) -> list[ast.Name]:
        return [n for n in self._names(node) if n.id in self._running or self._accumulates(n.id)]


def stops(chains: Chains, call: ast.Call) -> list[ast.expr]:
    """After how many items a call ends an iteration: `n` of `islice(loader, n)` and of `zip(range(n), loader)`."""
    stopping = [row for row in chains.kinds.called(call) or () if row.has(Trait.STOPS)]
    if any(row.passes == "zip" for row in stopping):
        called = {a: chains.program.called(a) for a in call.args if isinstance(a, ast.Call) and a.args}
        ranges = [a for a, functions in called.items() if any(map(names.is_range, functions))]
        return [r.args[min(1, len(r.args) - 1)] for r in ranges]
    return [call.args[min(2, len(call.args) - 1)]] if stopping and len(call.args) > 1 else []
