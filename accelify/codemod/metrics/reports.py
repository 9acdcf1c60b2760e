"""Which values of one rank leave the training though nothing made them everyone's, and what is to be said of each?"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from itertools import takewhile

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods, names
from accelify.codemod.libraries.row import Effect, Trait
from accelify.codemod.metrics.ranks.labels import Given, Mark, Origin
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.metrics.ranks.shards import Loop
from accelify.codemod.metrics.rows.pooling import Pooling
from accelify.codemod.metrics.rows.size_values import SizeValues
from accelify.codemod.metrics.sinks import Sink, Sinks, Way, leaves
from accelify.codemod.metrics.updates import Updating, addition, assigned_to, updating
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Definition, Kind, Variable
from accelify.codemod.semantics.program import COMPREHENSIONS
from accelify.codemod.semantics.scopes import Scope, names_in, returned
from accelify.codemod.semantics.values import Element, External, Generated, Instance, Made, ModuleValue, Value
from accelify.codemod.semantics.visits.first_rounds import set_in_first_round
from accelify.codemod.training.losses import without_gradients
from accelify.codemod.training.origins import Origins
from accelify.codemod.training.roles import Roles

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Round = Loop | ast.FunctionDef | ast.AsyncFunctionDef  # what is run again and again
_DRAWN_INTO = frozenset({Effect.PLOTS, Effect.SHOWS})
_OF_DRAWS = {Mark.DRAW, Mark.PICKED, Mark.CHOSEN, Mark.RUNNING}


class About(Enum):
    """The kind of a value."""

    SUM = "sum"
    LIST = "list"
    GIVEN = "values handed to an object of which nothing is known"
    RUNNING = "running value"
    UNFINISHED = "running value before it is reduced"
    BATCH = "value of a single batch, shown while the loop runs"
    LAST = "value of the last batch"
    SAVED_BY = "value of a single batch that decides whether something is saved"
    DRAWN = "value that is computed from random draws, shown"
    STATE = "state that later steps compute with"
    CARRIED = "value of one batch that the next one's loss is computed from"


_OF_SUMS = frozenset({About.SUM, About.LIST, About.GIVEN, About.RUNNING})
_OF_SOME_BATCHES = frozenset({About.BATCH, About.UNFINISHED, About.DRAWN})


@dataclass(frozen=True, slots=True)
class Report:
    """A value of one rank's own: what it is, where it comes to be or is shown, and its name.

    leaves: where it is shown, saved or passed on. is_of_shard: whether it stands for all batches of one process, or the
    script decides by it; not of what is only shown while the loop runs. is_pooled: whether a state is computed from all
    rows of a batch together, so that ranks have different ones.
    """

    about: About
    node: ast.AST
    text: str
    loop: ast.AST
    leaves: tuple[ast.AST, ...] = ()
    is_of_shard: bool = True
    is_pooled: bool = False

    @property
    def is_of_some_batches(self) -> bool:
        """Whether it is a value of a batch, or of those so far, which is of one process's as well as of another's."""
        return self.about in _OF_SOME_BATCHES or (self.about in {About.LAST, *_OF_SUMS} and not self.is_of_shard)


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
        self.pooling = Pooling(ranks)
        self.sizes = SizeValues(ranks)
        self.origins = Origins(ranks.program, ranks.program.once(Roles), ranks.chains.tracer)
        self._found: dict[tuple[object, ...], Report] = {}
        self._leaves: defaultdict[tuple[object, ...], list[ast.AST]] = defaultdict(list)  # of what was found
        self._shown: defaultdict[tuple[object, ...], list[ast.AST]] = defaultdict(list)  # that show batches
        self._texts: dict[tuple[object, ...], str] = {}  # the name of what is shown there first
        self._beyond: set[tuple[object, ...]] = set()  # what is not only shown while its loop runs
        self._followed: set[tuple[Way, Given]] = set()  # what was said of one call's value is said of all
        # These are asked of an update for each value that it goes into.
        self._running_at, self._put_in = cache(self._find_running_at), cache(self._find_put_in)
        self._is_of_evaluation = cache(self._find_is_of_evaluation)
        self._updated_text = cache(self._find_updated_text)
        self._state: set[ast.AST] = set()  # what later steps compute with, whether that is reported or not

    def find(self) -> list[Report]:
        """The reports, in the order in which the values leave."""
        if self.ranks.rounds:
            for sink, origin in self.leaving():
                self._report(sink, origin)
            for loss in self.losses if not self.ranks.shards.draws else ():
                self._of_state(loss)
        seen = {k for k, r in self._found.items() if r.about in _OF_SUMS and k not in self._beyond}
        found = [
            replace(r, leaves=tuple(self._leaves.get(key, ())), is_of_shard=r.is_of_shard and key not in seen)
            for key, r in self._found.items()
        ]
        found = [self._shown_state(key, r) for key, r in zip(self._found, found, strict=True)]
        found = [r for r in found if r.node not in self._state or r.about in (About.STATE, About.CARRIED)]
        found = [r for r in found if not any(self._is_within(r, other) for other in found)]
        found = [r for r in found if not any(self._is_round(r, other) for other in found)]
        return [r for r in found if not self._is_trained(r)]

    def _shown_state(self, key: tuple[object, ...], report: Report) -> Report:
        """Of a state that later steps compute with, the values of single batches that it goes into, and are shown."""
        shown = tuple(self._shown.get(key, ())) if report.node in self._state else ()
        if not shown:
            return report
        return Report(About.BATCH, shown[0], self._texts[key], report.loop, shown, is_of_shard=False)

    def _is_trained(self, report: Report) -> bool:
        """Whether it is of a model or an optimizer: what their passes change besides is asked of each forward pass."""
        changed = self.ranks.chains.changed_by(report.node) if isinstance(report.node, ast.Call) else [report.node]
        named = [n for n in changed if isinstance(n, ast.expr) and ast.unparse(n) == report.text]
        return bool(named) and all(map(self.ranks.shards.is_alike, named))

    def _is_round(self, report: Report, other: Report) -> bool:
        """Whether a report names an object for its state, `model.loss(x)`, and another one what of it holds that."""
        if report is other or {report.about, other.about} != {About.STATE} or not isinstance(report.node, ast.Call):
            return False
        return self.program.frame(other.node) in self.program.run_through([report.node])

    def _is_within(self, report: Report, other: Report) -> bool:
        """Whether a report is of what a meter keeps, and another one says that of the meter: `meter.update(loss)`."""
        frame, call = self.program.frame(report.node), other.node
        if report is other or not {report.about, other.about} <= _OF_SUMS or not isinstance(call, ast.Call):
            return False
        run = self.program.run_through([call]) if frame is not self.program.frame(call) else ()
        return frame in run and not any(self.program.frame(loss) in run for loss in self.losses)

    @property
    def is_all_drawn(self) -> bool:
        """Whether ranks have nothing of their own but what they draw."""
        return self.ranks.shards.draws and self.ranks.rounds <= set(self.ranks.shards.drawn)

    def leaving(self, is_asked: Callable[[Sink], bool] = lambda sink: True) -> Iterator[tuple[Sink, Origin]]:
        """Some sinks with what makes their values a rank's own; of what its function is given, where it is called."""
        for sink in filter(is_asked, Sinks(self.ranks.chains).find()):
            yield from self._follow(sink)

    def _follow(self, sink: Sink, at: str | None = None) -> Iterator[tuple[Sink, Origin]]:
        own, given = self.ranks.parts_of(sink.value, at)
        for origin in self._origins(sink, own.origins):
            yield sink, origin
        for each in given:
            if (sink.way, each) in self._followed:
                continue
            self._followed.add((sink.way, each))
            for call in self.program.calls_of(each.scope):
                value = self.ranks.chains.given(call, each.scope, each.name)
                for passed in self.ranks.chains.unnamed(call) if value is None else [value]:
                    yield from self._follow(Sink(sink.way, passed, call, sink.end or sink.node), each.at)

    def _origins(self, sink: Sink, origins: frozenset[Origin]) -> Iterator[Origin]:
        """The origins that make the value of a sink a rank's own, as far as that sink matters."""
        running = {o for o in origins if o.mark is Mark.RUNNING}
        yield from sorted(running, key=_by_place)
        if not running and sink.way is not Way.HANDED_OVER:
            found = {o for o in origins if o.mark in (Mark.BATCH, Mark.CHOSEN, Mark.PICKED)}
            if self.ranks.shards.drawn:  # before its loops, all ranks draw alike
                found |= {o for o in origins if o.mark is Mark.DRAW and self._loop_round(o.node) is not None}
            yield from sorted(found, key=_by_place)[:1]

    def _report(self, sink: Sink, origin: Origin) -> None:
        is_drawn = self.is_all_drawn or self.ranks.running.loop_of(origin.node) in self.ranks.shards.drawn
        if sink.way not in (Way.SHOWN, Way.SAVED) and (is_drawn or origin.mark is Mark.DRAW):
            return  # what each rank draws for itself is meant to be its own
        is_mapped = isinstance(origin.node, ast.Call) and "map" in self.program.called(origin.node)
        if isinstance(origin.node, COMPREHENSIONS) or (is_mapped and origin.mark is Mark.RUNNING):
            self._of_pass(sink, origin.node)
            return
        if origin.mark is Mark.RUNNING:
            self._of_running(sink, origin)
            return
        loop, is_of_pass = self._loop_round(sink.node), self._is_of_pass(origin)
        if loop is not None and not is_of_pass:
            if sink.way in (Way.SHOWN, Way.SAVED):
                text = self._named(sink.value, origin)
                about = About.DRAWN if self.is_all_drawn else About.BATCH
                self._add((about, loop), Report(about, sink.node, text, loop), sink)
            elif self._saves(sink.end or sink.node) and not self._looks_for_a_file(sink.value):
                report = Report(About.SAVED_BY, sink.value, ast.unparse(sink.value), loop)
                self._add((About.SAVED_BY, sink.node), report, sink)
        elif not self._is_bound_again(sink, origin) and not self._is_example(sink):
            text = self._named(sink.value, origin)
            is_of_shard = sink.way is Way.DECIDED or origin.mark is Mark.CHOSEN or self._is_yielded(origin, sink)
            is_of_shard = is_of_shard or is_of_pass
            key = (About.LAST, text, self.program.frame(sink.node), is_of_shard)
            about = About.DRAWN if self.is_all_drawn else About.LAST
            self._add(key, Report(about, sink.node, text, origin.node, is_of_shard=is_of_shard), sink)

    def _is_of_pass(self, origin: Origin) -> bool:
        """Whether a value is of a whole pass: of `batches = iter(loader)`, of which a loop asks for each batch."""
        iterator = self.program.iterator(origin.node)
        loops, frame = self.program.loops_round(origin.node), self.program.frame(origin.node)
        if not isinstance(iterator, ast.Name) or not loops or self._loop_round(origin.node) in loops:
            return False
        begins = [d.node for d in self.ranks.chains.definitions(iterator) if d.kind is not Kind.IN_PLACE]
        return bool(begins) and all(
            self.program.frame(n) is frame and not self.program.inside(n, loops[0]) for n in begins
        )

    def _is_yielded(self, origin: Origin, sink: Sink) -> bool:
        """Whether a generator has yielded something of each batch by then: `np.mean(list(steps()))`."""
        made, around = self.program.frame(origin.node), self.program.loops_round(sink.node)
        yields = (n for n in ast.walk(origin.node) if isinstance(n, ast.Yield) and self.program.frame(n) is made)
        taken = (v for loop in around if isinstance(loop, ast.For) for v in self._iterated(loop))
        is_over = self.program.frame(sink.node) is not made and all(
            not isinstance(v, Generated) or v.scope is not made for v in taken
        )
        return is_over and any(yields)

    def _iterated(self, loop: ast.For) -> Collection[Value]:
        return self.program.values(self.ranks.chains.tracer.inside(loop.iter))

    def _is_example(self, sink: Sink) -> bool:
        """Whether tensors of one batch are drawn, `plt.imshow(x[0])`, and not a number, a point of a curve."""
        kinds, call = self.ranks.chains.kinds, sink.end or sink.node
        rows = kinds.called(call) or () if isinstance(call, ast.Call) else ()
        is_drawn = bool(rows) and all(row.effects and row.effects <= _DRAWN_INTO for row in rows)
        return is_drawn and "number" not in kinds.of(sink.value)

    def _is_bound_again(self, sink: Sink, origin: Origin) -> bool:
        """Whether the names by which a value comes are those of a later loop then, which takes a round, as a rule."""
        names = [n for n in ast.walk(sink.value) if isinstance(n, ast.Name) and origin in self.ranks.of(n).origins]
        loops = [[self._binding_loop(d.node) for d in self.ranks.chains.definitions(n)] for n in names]
        return bool(names) and all(any(self._is_between(origin, loop, sink) for loop in found) for found in loops)

    def _binding_loop(self, node: ast.AST) -> ast.For | None:
        """The loop that gives a name its value in each of its rounds, and does not go over data of this rank's own."""
        held = self.program.statement(node)
        loop = (
            held if isinstance(held, ast.For) and self.program.inside(node, held.target) else self.program.parent(held)
        )
        is_unconditional = isinstance(loop, ast.For) and (held is loop or held in loop.body)
        return loop if isinstance(loop, ast.For) and is_unconditional and loop not in self.ranks.rounds else None

    def _is_between(self, origin: Origin, loop: ast.For | None, sink: Sink) -> bool:
        flow = self.ranks.chains.flow(sink.node)
        is_in_file = loop is not None and self.program.path(origin.node) == self.program.path(sink.node)
        return loop is not None and is_in_file and not flow.reaches(origin.node, sink.node, without=[loop.iter])

    def _saves(self, node: ast.AST) -> bool:
        """Whether a condition decides about writing a file."""
        return isinstance(node, ast.If) and bool(self.ranks.chains.effects.of(*node.body).files_written)

    def _looks_for_a_file(self, test: ast.expr) -> bool:
        """`not os.path.exists(folder)`, of a folder that is made then, whatever its name is made of."""
        calls = (self.ranks.chains.kinds.called(n) or () for n in ast.walk(test) if isinstance(n, ast.Call))
        return any(row.has(Trait.LOOKS) for rows in calls for row in rows)

    def _add(self, key: tuple[object, ...], report: Report, sink: Sink) -> None:
        self._found.setdefault(key, report)
        if sink.way in (Way.SHOWN, Way.SAVED, Way.HANDED_OVER):
            self._leaves[key].append(sink.node)

    def _of_pass(self, sink: Sink, collected: ast.AST) -> None:
        """Report what a comprehension or `map` over a sharded loader gives, by the variable that keeps it."""
        statement = self.program.statement(collected)
        targets = statement.targets if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else []
        text = ast.unparse(targets[0] if targets else collected)
        report = Report(About.LIST, collected, text, collected)
        self._add((collected,), report, sink)
        self._beyond.add((collected,))

    def _of_running(self, sink: Sink, origin: Origin) -> None:
        loop = self.ranks.running.loop_of(origin.node)
        if loop is None or self._is_of_evaluation(origin.node):
            return  # of which a note on the evaluation's loop says what each process has
        text = self._updated_text(origin.node)
        if self.is_reduced(origin.node):
            is_beside = self.program.frame(sink.node) is self.program.frame(loop)
            is_over = is_beside and not self.program.inside(sink.node, loop)
            if sink.way in (Way.SHOWN, Way.SAVED) and not is_over:
                self._add((About.UNFINISHED, text, loop), Report(About.UNFINISHED, sink.value, text, loop), sink)
            return
        kind = {Updating.ADDS: About.SUM, Updating.COLLECTS: About.LIST}.get(
            updating(self.ranks.chains, origin.node), About.RUNNING
        )
        if kind is About.RUNNING and not origin.differs and self._is_replaced(origin.node):
            return  # all ranks have the same, and it counts nothing
        if kind is About.LIST and self._is_unknown(origin.node):
            kind = About.GIVEN
        key = (text, loop, self.program.path(origin.node))
        self._add(key, Report(kind, origin.node, text, loop), sink)
        if sink.way is Way.SHOWN or (sink.way is Way.SAVED and self._loop_round(sink.node) is not None):
            self._shown[key].append(sink.node)
            self._texts.setdefault(key, self._named(sink.value, origin))
        is_during = loop in (self._loop_round(sink.node), *self.program.loops_round(sink.node))
        if sink.way is not Way.SHOWN or not (is_during or self._is_curve(sink, origin.node)):
            self._beyond.add(key)

    def _is_curve(self, sink: Sink, update: ast.AST) -> bool:
        """Whether a list of numbers, each of one batch, is drawn point by point: `plt.plot(losses)`."""
        point = update.args[0] if isinstance(update, ast.Call) and len(update.args) == 1 else None
        kinds, call = self.ranks.chains.kinds, sink.end or sink.node
        if point is None or kinds.of(point) != {"number"} or kinds.of(sink.value) != {"list"}:
            return False
        rows = kinds.called(call) or () if isinstance(call, ast.Call) else ()
        is_drawn = bool(rows) and all(Effect.PLOTS in row.effects for row in rows)
        return is_drawn and not self.ranks.of(point).of(Mark.RUNNING)

    def _is_replaced(self, node: ast.AST) -> bool:
        """Whether an attribute gets a value that is not made of its last one: `net.hidden = first(len(x))`."""
        value = assigned_to(self.program, node) if isinstance(node, ast.Attribute) else None
        return value is not None and ast.unparse(node) not in map(ast.unparse, ast.walk(value))

    def _is_unknown(self, update: ast.AST) -> bool:
        """Whether an update is a method of which nothing is known: of a plot, an optimizer or a meter."""
        is_method = isinstance(update, ast.Call) and not self.program.flow.callees.get(update)
        return is_method and isinstance(update, ast.Call) and not self.ranks.chains.kinds.called(update)

    def _of_state(self, loss: ast.expr) -> None:
        """Report what earlier steps put aside for the loss of a later one; a sum that is trained on itself is none."""
        for root, place in self._in_rounds(loss, set()):
            self._of_carried(root, place)
        for origin in sorted((o for o in self.ranks.of(loss).of(Mark.RUNNING) if o.differs), key=_by_place):
            text, around = self._updated_text(origin.node), self.ranks.running.loop_of(origin.node)
            is_known = {(About.CARRIED, text), (About.STATE, text)} & self._found.keys()
            is_state = not is_known and not self._is_sum_of_losses(origin.node) and self._is_kept(origin.node)
            is_state = is_state and not self._begins_anew(origin.node, text) and not self._is_of_sizes(origin.node)
            if is_state and self._is_emptied(self._running_at(origin.node), loss):
                self._state.add(origin.node)
                continue
            if around is not None and is_state:
                at = self.ranks.chains.facts(origin.node).at(origin.node)
                about = About.CARRIED if any(d.kind is Kind.ASSIGNMENT for d in at) else About.STATE
                self._add_state(Report(about, origin.node, text, around), self._running_at(origin.node))
        for root, place in self._in_calls(loss):
            if not self._is_reported(place):
                self._of_carried(root, place, self._is_set_once)

    def _is_reported(self, place: Round) -> bool:
        """Whether a report names the object for its state that a function keeps: `trainer` of `trainer.step(x)`."""
        calls = [r.node for r in self._found.values() if r.about is About.STATE and isinstance(r.node, ast.Call)]
        return any(function.node is place for function in self.program.run_through(calls))

    def _add_state(self, report: Report, definitions: Sequence[Definition]) -> None:
        self._state.add(report.node)
        key = (report.about, report.text)
        if key not in self._found and self._is_of_shard(definitions):
            self._found[key] = replace(report, is_pooled=self.pooling.sets_pooled(report.node))

    def _find_updated_text(self, node: ast.AST) -> str:
        """The name of what an update changes from round to round, and no other argument that it is given."""
        variables = {d.variable for d in self._running_at(node)}
        return updated_text(self.ranks.chains, node, lambda changed: self.ranks.running.root(changed) in variables)

    def _find_running_at(self, node: ast.AST) -> list[Definition]:
        return [d for d in self.ranks.chains.facts(node).at(node) if self.ranks.running.loop_in(d) is not None]

    def _is_of_shard(self, definitions: Sequence[Definition]) -> bool:
        """Whether updates put in more than what the process draws for itself, which is meant to be its own."""
        marks = {origin.mark for origin in self._sources(definitions)}
        return Mark.DRAW not in marks or not marks <= _OF_DRAWS

    def _find_is_of_evaluation(self, node: ast.AST) -> bool:
        """Whether an update puts in only what comes of whole data sets, whose order or items each process draws."""
        sources = self._sources(self._running_at(node))
        drawn = [origin.node for origin in sources if origin.mark is Mark.DRAW]
        is_whole = all(isinstance(n, (ast.For, ast.AsyncFor)) and n not in self.ranks.rounds for n in drawn)
        return bool(drawn) and is_whole and {origin.mark for origin in sources} <= _OF_DRAWS

    def _sources(self, definitions: Sequence[Definition]) -> set[Origin]:
        """What makes the values a rank's own that updates put in, and those that these are made of."""
        queue, seen, sources = [*definitions], set(definitions), set[Origin]()
        while queue:
            found, running = self._put_in(queue.pop())
            sources |= found
            queue += running - seen
            seen |= running
        return sources

    def _find_put_in(self, definition: Definition) -> tuple[frozenset[Origin], frozenset[Definition]]:
        """What makes a value a rank's own that an update puts in, and the running values that this is made of."""
        found = frozenset(o for o in self.ranks.added_by(definition).origins if o.differs)
        nodes = {o.node for o in found if o.mark is Mark.RUNNING}
        return found, frozenset(d for node in nodes for d in self._running_at(node))

    def _begins_anew(self, node: ast.AST, text: str) -> bool:
        """Whether the first round of a loop within the sharded one sets what its later rounds update."""
        inner = takewhile(lambda loop: loop not in self.ranks.rounds, self.program.loops_round(node))
        return any(isinstance(loop, ast.For) and set_in_first_round(loop, text) for loop in inner)

    def _is_emptied(self, updates: Sequence[Definition], loss: ast.expr) -> bool:
        """Whether what updates change begins anew between any two backward passes: `rows = []` after each step."""
        variables = {d.variable for d in updates}
        frames = {self.program.frame(d.node) for d in updates}
        if len(variables) != 1 or len(frames) != 1:
            return False
        at = next(iter(updates)).node
        others = (d for v in variables for d in self.ranks.chains.facts(at).all_of(v) if d not in updates)
        begins = [d.node for d in others if self._begins(d) and self.program.frame(d.node) in frames]
        passes = self._runs(loss, next(iter(frames))) or self._uses(updates, begins)
        flow = self.ranks.chains.flow(at)
        is_again = bool(begins and passes) and all(flow.reaches(each, each) for each in passes)
        return is_again and not any(flow.reaches(a, b, without=begins) for a in passes for b in passes)

    def _runs(self, loss: ast.expr, function: Scope) -> list[ast.AST]:
        """Where a function computes a loss: itself, or by the calls that it makes of other functions."""
        frame = self.program.frame(loss)
        if frame is function:
            return [loss]
        calls = (n for s in function.body for n in walk(s) if isinstance(n, ast.Call))
        return [c for c in calls if self.program.frame(c) is function and frame in self.program.run_through([c])]

    def _uses(self, updates: Sequence[Definition], begins: Sequence[ast.AST]) -> list[ast.AST]:
        """Where the function of updates reads their variable, other than to update it, or to begin it anew."""
        nodes, variable = [*(d.node for d in updates), *begins], updates[0].variable
        reads = (n for s in self.program.frame(nodes[0]).body for n in walk(s) if isinstance(n, ast.Name))
        found = [n for n in reads if isinstance(n.ctx, ast.Load) and self.ranks.chains.variable(n) == variable]
        return [n for n in found if not any(self.program.inside(n, node) for node in nodes)]

    def _begins(self, definition: Definition) -> bool:
        """Whether a definition leaves nothing of what a variable held: `rows = []`, `rows.clear()`."""
        node, kept = definition.node, definition.variable.name
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Attribute) and methods.empties(node.func.attr)
        value = assigned_to(self.program, node) if definition.kind is Kind.ASSIGNMENT else None
        read = (getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(value)) if value is not None else ()
        return value is not None and kept not in read

    def _in_rounds(self, node: ast.expr, seen: set[Scope]) -> Iterator[tuple[ast.expr, Round]]:
        """The sharded loop round an expression; if there is none, its function, and those round the calls of that."""
        around: Loop | None = next((n for n in self.program.loops_round(node) if n in self.ranks.rounds), None)
        frame = self.program.frame(node)
        if around is not None:
            yield node, around
        elif frame not in seen:
            if isinstance(frame.node, FUNCTIONS) and self.ranks.running.loop_that_runs(frame) is not None:
                yield node, frame.node
            behind = set(self.origins.along([node], lambda made: True))
            names = [p.arg for p in frame.parameters if p in behind]
            given = (self.ranks.chains.given(c, frame, n) for c in self.program.calls_of(frame) for n in names)
            for argument in filter(None, given):
                yield from self._in_rounds(argument, seen | {frame})

    def _in_calls(self, loss: ast.expr) -> Iterator[tuple[ast.expr, Round]]:
        """The values that functions of the project's own return, of which a loss is made in each round."""
        for call in self.origins.calls([loss]):
            for function in sorted(
                self.program.flow.callees.get(call, ()), key=lambda f: self.program.position(f.node)
            ):
                if isinstance(function.node, FUNCTIONS) and self.ranks.running.loop_that_runs(function) is not None:
                    yield from ((value, function.node) for value in returned([function]) if value is not None)

    def _of_carried(
        self,
        root: ast.expr,
        place: Round,
        is_meant: Callable[[Definition, Round], bool] = lambda definition, place: True,
    ) -> None:
        """Report the variables that a round gets from the one before, and a loss is computed from.

        place: the loop, or a function that each round of one runs. is_meant: which definitions in it to report.
        """
        queue: list[ast.AST] = [root]
        seen: set[ast.AST] = set()
        while queue:
            for read in self._reads(queue.pop()):
                if read in seen or self.ranks.shards.is_alike(read):
                    continue
                seen.add(read)
                for definition in sorted(self._reaching(read, place), key=lambda d: self.program.position(d.node)):
                    values = list(self._given_by(definition, place))
                    is_of_this = self._is_of_this_round(definition.node, read, place)
                    queue.extend(values if is_of_this else ())
                    is_left = values and (not is_of_this or self._is_set_once(definition, place))
                    is_left = is_left and is_meant(definition, place)
                    if is_left and self._is_own_state(definition, read) and not self._is_emptied([definition], root):
                        self._add_carried(definition, place)

    def _reaching(self, read: ast.expr, place: Round) -> frozenset[Definition]:
        """The definitions that may give a variable its value in a round; no others where each round sets it."""
        definitions = self.ranks.chains.definitions(read)
        if not isinstance(read, ast.Name) or isinstance(place, FUNCTIONS):
            return definitions
        set_now = [d for d in definitions if self._is_of_this_round(d.node, read, place)]
        now, every = [d.node for d in set_now], [d.node for d in definitions]
        is_set = self.ranks.running.is_set_in_each_round(read, now, every, place)
        return frozenset(set_now) if is_set else definitions

    def _is_own_state(self, definition: Definition, read: ast.expr) -> bool:
        """Whether what a definition of an earlier round gives what is read is a rank's own, and kept until then."""
        running = self.ranks.running
        is_left = (
            definition.kind is not Kind.IN_PLACE
            or running.loop_in(definition) is not None
            or (running.replaces_values(definition) and self.ranks.is_own(self._whole(read)))
        )
        node = definition.node
        is_own = is_left and self.ranks.given_by(definition).is_own and self._is_kept(node)
        is_of_loss = self._is_sum_of_losses(node) or self._begins_sum_of_losses(definition, read)
        is_of_data = not is_of_loss and not self._is_of_sizes(node)
        return is_own and is_of_data and not self._asks_for_data(node)

    def _is_of_sizes(self, node: ast.AST) -> bool:
        """Whether an assignment keeps nothing of a batch but what comes of its sizes."""
        is_target = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
        return is_target and self.sizes.is_set(node, assigned_to(self.program, node))

    def _begins_sum_of_losses(self, definition: Definition, read: ast.expr) -> bool:
        """Whether the losses of later rounds are added to a value, `loss = first`, then `loss += other`."""
        value = assigned_to(self.program, definition.node)
        others = self.ranks.chains.definitions(read) - {definition}
        is_added = any(self._adds_losses(d.node) for d in others if d.variable == definition.variable)
        return is_added and value is not None and not self._has_no_graph(value)

    def _whole(self, read: ast.expr) -> ast.expr:
        """`state["weight"]`, where `state` is read."""
        while isinstance(outer := self.program.parent(read), (ast.Attribute, ast.Subscript)) and outer.value is read:
            read = outer
        return read

    def _add_carried(self, definition: Definition, place: Round) -> None:
        is_carried = definition.kind is Kind.ASSIGNMENT and self.program.inside(definition.node, place)
        about = About.CARRIED if is_carried else About.STATE  # or made by a pass before the loop
        loop = self._loop_round(definition.node) or place
        self._add_state(Report(about, definition.node, self._updated_text(definition.node), loop), [definition])

    def _asks_for_data(self, node: ast.AST) -> bool:
        """Whether a statement takes the next batch, `x, y = ahead.next()`: to have it early is no state."""
        return self.program.iterator(getattr(self.program.statement(node), "value", None)) is not None

    def _is_of_this_round(self, node: ast.AST, read: ast.AST, place: Round) -> bool:
        """Whether what a definition gives may be read in the same round of a loop, or run of a function."""
        if not self.program.inside(node, place):
            return False
        head = getattr(place, "target", None) or getattr(place, "test", None)  # a function has none
        return self.ranks.chains.flow(place).reaches(node, read, without=[head] if head is not None else [])

    def _reads(self, node: ast.AST) -> Iterator[ast.expr]:
        """The names and attributes in an expression; not of what gives the next batch."""
        if self.program.iterator(node) is not None:
            return
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield node
        if isinstance(node, ast.Attribute) and self.ranks.running.is_options(node.value):
            return
        for child in ast.iter_child_nodes(node):
            yield from self._reads(child)

    def _is_set_once(self, definition: Definition, place: Round) -> bool:
        """Whether a round sets a variable only where it has no value yet: `if first is None: first = loss.detach()`.

        What each round begins with anew has none of an earlier one: `if x.dim() > 2: x = x.flatten(1)`.
        """
        around = (b for b, _ in self.program.branches_round(definition.node) if self.program.inside(b, place))
        reads = (n for b in around for n in ast.walk(b.test) if isinstance(n, (ast.Name, ast.Attribute)))
        return any(
            definition in self.ranks.chains.definitions(n) and self._is_of_round_before(definition.variable, n, place)
            for n in reads
        )

    def _is_of_round_before(self, variable: Variable, read: ast.expr, place: Round) -> bool:
        """Whether a variable may still have there what it had as a round of a loop, or a run of a function, began."""
        if isinstance(place, FUNCTIONS):
            return variable.is_attribute or variable.scope is None or variable.scope.node is not place
        head = place.test if isinstance(place, ast.While) else place.target
        sets = [d.node for d in self.ranks.chains.facts(read).all_of(variable) if d.kind is not Kind.IN_PLACE]
        is_anew = any(self.program.inside(node, head) for node in sets)
        return not is_anew and self.ranks.chains.flow(place).reaches(head, read, without=sets)

    def _given_by(self, definition: Definition, place: Round) -> Iterator[ast.expr]:
        """The expressions from which a definition in the function of a loop, or in one, makes a value."""
        node = definition.node
        frame = self.program.frame(node)
        if frame.node is not place and frame is not self.program.frame(place):
            return
        if isinstance(node, ast.Call):
            yield from [*node.args, *(k.value for k in node.keywords)]
        elif definition.kind in (Kind.ASSIGNMENT, Kind.AUGMENTED, Kind.IN_PLACE):
            statement = self.program.statement(node)
            value = assigned_to(self.program, node) or getattr(statement, "value", None)
            yield from [value] if isinstance(value, ast.expr) else []

    def _is_sum_of_losses(self, node: ast.AST) -> bool:
        """Whether a sum is of tensors with their graphs, on which a backward pass runs, or a part of it: `loss / n`."""
        return self._adds_losses(node) or self._goes_on_with_loss(node)

    def _adds_losses(self, node: ast.AST) -> bool:
        added = addition(self.ranks.chains, node)
        is_graph = added is not None and not all(map(self._has_no_graph, added.parts))
        return is_graph and without_gradients(self.program, node) is None

    def _goes_on_with_loss(self, node: ast.AST) -> bool:
        """Whether the variable of a backward pass is made of what it was, to which losses were added."""
        value = assigned_to(self.program, node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        if value is None or ast.unparse(node) not in map(ast.unparse, self.losses):
            return False
        parts = (n for n in ast.walk(value) if isinstance(n, (ast.Name, ast.Attribute)))
        before = [n for n in parts if ast.unparse(n) == ast.unparse(node)]
        return any(self._adds_losses(d.node) for n in before for d in self.ranks.chains.definitions(n))

    def _is_kept(self, node: ast.AST) -> bool:
        """Whether an update keeps what it is given: a module has done with it after its forward pass."""
        if not isinstance(node, ast.Call):
            return True
        callees = self.program.flow.callees.get(node, ())
        rows = self.ranks.chains.kinds.called(node) or ()
        is_forward = any(isinstance(v, Instance) for v in self.program.values(node.func))
        return bool(callees and not is_forward) or any(not leaves(row) for row in rows)

    def _has_no_graph(self, node: ast.expr) -> bool:
        kinds = self.ranks.chains.kinds
        calls = (kinds.called(n) or () for n in ast.walk(node) if isinstance(n, ast.Call))
        is_cut = kinds.of(node) == {"number"} or any(r.has(Trait.LEAVES_GRAPH) for rows in calls for r in rows)
        return is_cut or self._is_of_items(node)

    def _is_of_items(self, node: ast.expr, depth: int = 4, seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Whether a library computes a value from nothing else than numbers, zeros and what a loader yields."""
        parts = [n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))]
        kept = [n for n in parts if isinstance(n, ast.Attribute) and self._is_kept_tensor(n)]  # `self.mean`
        read = [*kept, *(n for n in parts if isinstance(n, ast.Name) and all(n is not k.value for k in kept))]
        held = [self.program.values(n) for n in read if self.ranks.chains.kinds.of(n) != {"number"}]
        if not depth or not all(values and all(map(self._is_item, values)) for values in held):
            return False
        given = (d for n in read for d in self.ranks.chains.definitions(n) if d.kind is Kind.ASSIGNMENT)
        made = [v for d in given if (v := assigned_to(self.program, d.node)) is not None and v not in seen]
        return all(self._is_of_items(value, depth - 1, seen.union(made)) for value in made)

    def _is_item(self, value: Value) -> bool:
        """Whether a value has no graph: what a loader yields, or a tensor that is made to hold numbers."""
        if isinstance(value, Made) and names.is_factory(value.name):
            return "requires_grad" not in ast.unparse(self.program.statement(value.node))
        return isinstance(value, (Element, External, ModuleValue))

    def _is_kept_tensor(self, node: ast.Attribute) -> bool:
        """Whether an attribute is one of the object whose method reads it."""
        variable = self.ranks.chains.variable(node)
        return variable is not None and variable.scope is not None

    def _loop_round(self, node: ast.AST) -> Loop | None:
        """The sharded loop during which a node is run."""
        around = next((n for n in self.program.loops_round(node) if n in self.ranks.rounds), None)
        if around is not None:
            return around
        return self.ranks.running.loop_that_runs(self.program.frame(node))

    def _made_text(self, name: ast.Name) -> ast.expr | None:
        """What a text is made of by the one statement that gives it its name."""
        definitions = self.ranks.chains.definitions(name)
        made = [assigned_to(self.program, d.node) for d in definitions if d.kind is Kind.ASSIGNMENT]
        text = made[0] if len(definitions) == len(made) == 1 else None
        return text if text is not None and name.id not in names_in(text) else None

    def _named(self, value: ast.expr, origin: Origin) -> str:
        """The variable in an expression that a value of one rank's own comes from."""
        names = [n for n in ast.walk(value) if isinstance(n, ast.Name) and origin in self.ranks.of(n).origins]
        attributes = [n for n in ast.walk(value) if isinstance(n, ast.Attribute) and origin in self.ranks.of(n).origins]
        texts = [made for n in names if self.ranks.chains.kinds.of(n) == {"string"} and (made := self._made_text(n))]
        if texts:
            return self._named(texts[0], origin)
        if names or attributes:
            return ast.unparse([*names, *attributes][0])
        return f"{ast.unparse(value.func)}(...)" if isinstance(value, ast.Call) else ast.unparse(value)


def updated_text(chains: Chains, node: ast.AST, is_meant: Callable[[ast.expr], bool] = lambda changed: True) -> str:
    """The name of what an update changes: `total` of `total.add_(x)`, of `total.data`, `seen` of `seen[k].append(x)`.

    is_meant: which it is of several arguments that a call changes.
    """
    changed = chains.changed_by(node) if isinstance(node, ast.Call) else []
    target = next(filter(is_meant, changed), changed[0] if changed else node)
    while isinstance(target, ast.Subscript) and isinstance(node, ast.Call):
        target = target.value
    while isinstance(target, ast.Attribute) and methods.is_view(target.attr):
        target = target.value
    return ast.unparse(target)


def _by_place(origin: Origin) -> tuple[int, int]:
    return getattr(origin.node, "lineno", 0), getattr(origin.node, "col_offset", 0)
