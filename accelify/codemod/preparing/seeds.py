"""After which statement may the processes draw random numbers of their own, with all that starts equal built before?

What the script seeds later, on the way to its training, would let all processes draw alike again.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import SEEDS, Effect, Trait
from accelify.codemod.preparing.grouping import Group
from accelify.codemod.preparing.reach import Reach
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.outcomes import compared, truth
from accelify.codemod.semantics.program import COMPREHENSIONS, LOOPS, Program
from accelify.codemod.semantics.scopes import Scope, names_in
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.randomness.kept_draws import KeptDraws
from accelify.codemod.training.randomness.rows_in_turn import InTurn, RowsInTurn
from accelify.codemod.training.randomness.workers import Workers
from accelify.codemod.training.weights import draws_weights

_DEPTH = 4
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SEEDS_ALL = SEEDS - {Effect.SEEDS_GIVEN}  # not a generator of the script's own


@dataclass(frozen=True, slots=True)
class Seeded:
    """A statement that seeds what every process draws from.

    is_drawn_from: whether the training data of a step are drawn before it is through, so that nothing after it helps.
    """

    statement: ast.stmt
    is_drawn_from: bool


class Seeds:
    """Find the place outside what builds several agents in turn, of which the later ones would start apart."""

    def __init__(self, program: Program, training: Training, reach: Reach, groups: Sequence[Group]) -> None:
        self.program = program
        self.reach = reach
        self.groups = groups
        self.training = {loop for listed in training.loops.values() for loop in listed}
        self.steps = {loop for listed in training.loops.values() for loop in listed[:1]}
        self.backwards = training.backwards
        self.drawing = {program.frame(d.loop) for d in training.data if d.kind == "random" and d.loop is not None}
        self.effects = program.once(Effects)
        self.kept_draws = KeptDraws(program, training)
        self.rows_in_turn = RowsInTurn(program, training)

    @cached_property
    def is_by_rank(self) -> bool:
        """Whether the script seeds torch by the rank, so that no two processes draw alike."""
        given = [
            call.args[0]
            for call in self.program.calls
            if call.args and self.effects.of_call(call).effects & {Effect.SEEDS_TORCH}
            if self.program.frame(call) in self.program.reachable and not self.program.flow.callees.get(call)
        ]
        return bool(given) and all(map(self.differs, given))

    def differs(self, seed: ast.expr) -> bool:
        """Whether a seed is another number in each process."""
        conditions = self.program.once(Conditions)
        worlds = [next(iter(worlds_where(p, True, True))) for p in (Process.MAIN, Process.OTHER)]
        main, other = (conditions.outcome(seed, world) for world in worlds)
        return truth(compared(ast.Eq(), main, other)) is False

    @cached_property
    def places(self) -> list[Seeded]:
        """The statements after which all that starts equal is built, one for each way to build it, and later seeds."""
        groups = [g for g in self.groups if self._is_of_a_drawing_script(g)] or self.groups
        last = {g.frame.root: g for g in groups}  # of each script that trains
        chosen = [g for g in groups if any(i.kind == "optimizer" for i in g.items)] or list(last.values())
        prepared = dict.fromkeys(self.after(g.anchor) for g in chosen if g.anchor is not None)
        built = list(dict.fromkeys(self.behind_samples(self.behind_weights(s)) for s in prepared))
        later = (each for s in built for each in self.again(s))
        again = list(dict.fromkeys(place for each in later for place in self._behind_return(each, _DEPTH)))
        found = dict.fromkeys([*(Seeded(s, is_drawn_from=False) for s in built), *again])
        return [each for each in found if not any(self._follows(each.statement, o.statement) for o in found)]

    def _is_of_a_drawing_script(self, group: Group) -> bool:
        """Whether one of the files runs what is prepared together, and a loop whose data are drawn at random."""
        return any(group.frame in run and not run.isdisjoint(self.drawing) for run in self._runs)

    @cached_property
    def _runs(self) -> list[set[Scope]]:
        return [self.program.run_by([parsed.path]) for parsed in self.program.files]

    def _follows(self, first: ast.stmt, later: ast.stmt) -> bool:
        """Whether one statement is run after another in any case, before any training is."""
        block = self.program.block(first)
        if later not in block or block.index(later) <= block.index(first):
            is_sure = isinstance(self.program.parent(later), (ast.Module, *_DEFINITIONS))
            return is_sure and later in self._before_training(first, _DEPTH)
        return not any(map(self.trains, block[block.index(first) + 1 : block.index(later)]))

    def after(self, statement: ast.stmt, depth: int = _DEPTH) -> ast.stmt:
        """The statement itself, or the one that runs it for the last time."""
        frame = self.program.frame(statement)
        if not depth or frame.kind != "function":
            return statement
        calls = self.program.flow.callers.get(frame, set())
        round_them = [self._whole(call) for call in calls]
        if not calls or len({self.program.frame(c) for c in calls}) > 1:
            return statement
        last = self.program.last(round_them)
        if (
            any(self._trains_before(s, last) for s in round_them)
            or self.reach.expression(self.program.frame(last)) is None
            or self.trains(last)
        ):
            return statement
        outer = self.after(last, depth - 1)
        is_repeated = len(calls) > 1 or any(self._repeats(call, last) for call in calls)
        return outer if outer is not last or is_repeated else statement

    def _whole(self, call: ast.Call) -> ast.stmt:
        """The statement of a call with the loops round it that only build."""
        found = self.program.statement(call)
        for loop in self.program.loops_round(call):
            if loop in self.training:
                break
            found = loop
        return found

    def _repeats(self, call: ast.Call, whole: ast.stmt) -> bool:
        if isinstance(whole, LOOPS):
            return True
        return any(isinstance(a, COMPREHENSIONS) for a in self.program.ancestors(call) if self.program.inside(a, whole))

    def _trains_before(self, first: ast.stmt, last: ast.stmt) -> bool:
        """Whether something is trained after the one statement, and before the other is through."""
        if first is last:
            return False
        block = self.program.block(first)
        if last not in block:
            return True
        between = block[block.index(first) : block.index(last)]
        return any(node in self.training for s in between for node in ast.walk(s))

    # What is drawn alike after the models are built.

    def behind_weights(self, statement: ast.stmt) -> ast.stmt:
        """The statement itself, or the next behind all that draw weights before the training: those of a teacher."""
        way = self._before_training(statement, _DEPTH)
        drawing = [at for at, s in enumerate(way) if draws_weights(self.program, s)]
        behind = way[drawing[-1] :] if drawing else []
        return next((s for s in behind if self.reach.expression(self.program.frame(s)) is not None), statement)

    @cached_property
    def _kept(self) -> frozenset[ast.Call]:
        return frozenset(self.kept_draws.find())

    def behind_samples(self, statement: ast.stmt) -> ast.stmt:
        """The statement itself, or the last that draws samples for all of the training, with no other draws between."""
        found = statement
        for each in self._before_training(statement, _DEPTH) if self._kept else ():
            if self.kept_draws.draws_others(each, self._kept):
                break
            is_sample = any(self.program.statement(c) is each for c in self._kept)
            found = each if is_sample and self.reach.expression(self.program.frame(each)) is not None else found
        return found

    def samples_apart(self) -> list[ast.Call]:
        """What draws samples for all of a training when the processes draw random numbers of their own."""
        places = [place.statement for place in self.places]
        later = (c for c in self._kept if any(self._is_behind(c, p) for p in places))
        return sorted(later, key=self.program.position)

    def rows_alike(self) -> list[InTurn]:
        """The rows that all processes take at the same time: nothing draws their order behind the places."""
        places = [place.statement for place in self.places]
        found = self.rows_in_turn.find() if places else []
        return [each for each in found if not any(self._is_behind(c, p) for c in each.before for p in places)]

    def drawn_before(self) -> list[tuple[ast.Call, ast.stmt]]:
        """Where threads begin that draw training data before the places, each with one: all processes draw alike."""
        places = [place.statement for place in self.places]
        threads = sorted(set(Workers(self.program).threads()), key=self.program.position) if places else []
        return [(c, places[0]) for c in threads if not any(self._is_behind(c, p) for p in places)]

    def _is_behind(self, call: ast.Call, place: ast.stmt) -> bool:
        return not self.program.inside(call, place) and self.program.may_follow(call, place)

    def _before_training(self, statement: ast.stmt, depth: int) -> list[ast.stmt]:
        """The statements that are run after one and before a loop trains."""
        way, is_over = self._to_training(list(self._after(statement)), depth)
        call = self._only_call(self.program.frame(statement))
        if not is_over and call is not None and depth:
            rest, is_over = self._to_training(list(self._called_after(call)), depth)
            outer = [] if is_over else self._before_training(self.program.statement(call), depth - 1)
            way = [*way, *rest, *outer]
        return way

    def _to_training(self, statements: Sequence[ast.stmt], depth: int) -> tuple[list[ast.stmt], bool]:
        """Those of some statements that are run before a loop trains, and whether one does."""
        found: list[ast.stmt] = []
        for statement in statements:
            if not self.trains(statement):
                found.append(statement)
                continue
            inner = [] if isinstance(statement, LOOPS) else list(_inside(statement))
            if not inner and not isinstance(statement, LOOPS) and depth:
                inner = [s for f in self._run_by(statement, []) if self._only_call(f) is not None for s in f.body]
            return [*found, *self._to_training(inner, depth - 1)[0]], True
        return found, False

    def _only_call(self, function: Scope) -> ast.Call | None:
        """The call of a function that is called from one place, once in each run."""
        calls = self.program.flow.callers.get(function, set()) if function.kind == "function" else set()
        call = next(iter(calls), None)
        return call if call is not None and len(calls) == 1 and not self._repeats(call, self._whole(call)) else None

    # What is drawn or seeded later.

    def weights_apart(self) -> Iterator[ast.stmt]:
        """What draws weights that nothing prepares or loads, when the processes draw random numbers of their own."""
        later = [s for place in self.places for s in self._until_trained(place.statement)]
        later += [loop for place in self.places for loop in self._rounds(place.statement, _DEPTH)]
        found = dict.fromkeys(s for each in later for s in self._drawing(each, _DEPTH))
        yield from (s for s in found if not any(map(self._is_replaced, _targets(s))) and not self._is_prepared_below(s))

    def weights_in_rounds(self, loops: Iterable[ast.AST]) -> Iterator[ast.stmt]:
        """What draws weights in rounds of sharded loops, where each process draws random numbers of its own."""
        rounds = (loop for loop in loops if isinstance(loop, ast.stmt))
        found = dict.fromkeys(s for loop in rounds for s in self._drawing(loop, _DEPTH))
        yield from (s for s in found if not any(map(self._is_replaced, _targets(s))))

    def _rounds(self, statement: ast.stmt, depth: int) -> Iterator[ast.stmt]:
        """The loops that come to a statement again, and do not seed anew."""
        yield from (loop for loop in self.program.loops_round(statement) if not self._seeds(loop))
        frame = self.program.frame(statement)
        for call in self.program.flow.callers.get(frame, ()) if depth and frame.kind == "function" else ():
            yield from self._rounds(self.program.statement(call), depth - 1)

    def _drawing(self, statement: ast.stmt, depth: int) -> Iterator[ast.stmt]:
        """The innermost statements inside one that draw weights, where training goes on or models are prepared."""
        if isinstance(statement, _DEFINITIONS) or not draws_weights(self.program, statement):
            return
        inner = list(_inside(statement))
        preparing = {self.program.frame(g.anchor) for g in self.groups if g.anchor is not None}
        run = [f for f in self._run_by(statement, inner) if depth]
        is_set_up = self.trains(statement) or not preparing.isdisjoint(self.program.run_from(run))
        deeper = [*inner, *(s for f in run if is_set_up for s in f.body)]
        for each in deeper:
            yield from self._drawing(each, depth - 1)
        if not deeper:
            yield statement

    def _is_replaced(self, target: ast.expr) -> bool:
        """Whether the weights of what a statement makes are prepared, or loaded or copied from others."""
        text, chains = ast.unparse(target), self.program.once(Chains)
        changing = (c for c in self.program.calls if self.program.flow.callees.get(c) or self._loads(c))
        is_changed = any(text in map(ast.unparse, chains.changed_by(c)) for c in changing)
        return is_changed or any(i.text == text for g in self.groups for i in g.items)

    def _is_prepared_below(self, statement: ast.stmt) -> bool:
        """Whether a statement draws the weights of models that are prepared behind it: `net.apply(init)`."""
        chains, below = self.program.once(Chains), set(self._after(statement))
        calls = (n for n in ast.walk(statement) if isinstance(n, ast.Call))
        drawn = [self._gone_over(node) for call in calls for node in chains.changed_by(call)]
        prepared = [i.text for g in self.groups if g.anchor in below for i in g.items if i.kind == "model"]
        return bool(drawn) and all(any(f"{text}.".startswith(f"{model}.") for model in prepared) for text in drawn)

    def _gone_over(self, node: ast.expr) -> str:
        """An expression; for what a loop binds, that which it goes over: `net.parameters()` of `for p in ...: p`."""
        loops = (a for a in self.program.ancestors(node) if isinstance(a, ast.For))
        return ast.unparse(next((loop.iter for loop in loops if names_in(node) & names_in(loop.target)), node))

    def _loads(self, call: ast.Call) -> bool:
        """`target.load_state_dict(...)`"""
        rows = self.program.once(Chains).kinds.called(call) or ()
        return any(row.has(Trait.REPLACES) for row in rows)

    def again(self, statement: ast.stmt) -> Iterator[Seeded]:
        """The seeding on the way from a statement to the end of the training, except in the training loops."""
        for each in self._until_trained(statement):
            yield from self._seeded(each, _DEPTH)

    def _behind_return(self, seeded: Seeded, depth: int) -> Iterator[Seeded]:
        """The place itself; for `return begin(agent)`, behind which nothing runs, where the function is called."""
        if seeded.is_drawn_from or not isinstance(seeded.statement, ast.Return):
            yield seeded
            return
        for call in self.program.calls_of(self.program.frame(seeded.statement)) if depth else ():
            yield from self._behind_return(Seeded(self.program.statement(call), is_drawn_from=False), depth - 1)

    def _until_trained(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements after one, up to the last that trains."""
        later = list(self._later(statement, _DEPTH))
        last = max((at for at, s in enumerate(later) if self.trains(s)), default=-1)
        return later[: last + 1]

    def _later(self, statement: ast.stmt, depth: int) -> Iterator[ast.stmt]:
        """The statements after one, in its block, in those round it, and where its function is called."""
        yield from self._after(statement)
        frame = self.program.frame(statement)
        for call in self.program.flow.callers.get(frame, ()) if depth and frame.kind == "function" else ():
            yield from self._called_after(call)
            yield from self._later(self.program.statement(call), depth - 1)

    def _after(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """The statements after one of the same function."""
        node: ast.AST | None = statement
        while isinstance(node, ast.stmt) and not isinstance(node, _DEFINITIONS):
            block = self.program.block(node)
            yield from block[block.index(node) + 1 :]
            node = self.program.parent(node)
            node = self.program.parent(node) if isinstance(node, ast.ExceptHandler) else node

    def _called_after(self, call: ast.Call) -> Iterator[ast.stmt]:
        """What the statement of a call runs once the call is through: `Learner().train()`, `with Learner() as one:`."""
        statement = self.program.statement(call)
        for node in self.program.ancestors(call):
            if node is statement:
                break
            if isinstance(node, ast.Call):
                yield from (s for callee in self.program.flow.callees.get(node, ()) for s in callee.body)
        yield from _inside(statement)

    def trains(self, node: ast.AST) -> bool:
        """Whether running a statement trains something."""
        if isinstance(node, _DEFINITIONS):
            return False
        frames = {self.program.frame(b) for b in self.backwards}
        return any(
            call in self.backwards or bool(self.program.run_through([call]) & frames)
            for call in ast.walk(node)
            if isinstance(call, ast.Call)
        )

    def _seeded(self, statement: ast.stmt, depth: int) -> Iterator[Seeded]:
        """The innermost statements inside one that seed, where training goes on between them."""
        if not self._seeds(statement) or isinstance(statement, _DEFINITIONS):
            return
        if not self.trains(statement):
            yield from self._seeding(statement)
            return
        inner = list(_inside(statement))
        for each in inner:
            yield from self._seeded(each, depth)
        for callee in self._run_by(statement, inner) if depth else ():
            for each in callee.body:
                yield from self._seeded(each, depth - 1)

    def _seeds(self, node: ast.AST) -> bool:
        return bool(self.effects.of(node).effects & _SEEDS_ALL)

    def _seeding(self, statement: ast.stmt) -> Iterator[Seeded]:
        """A statement that does not train; seeds that stand in a loop of the training themselves can be changed."""
        calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
        round_it = set(self.program.loops_round(statement))
        if round_it & self.training and any(names.is_seed(n) for c in calls for n in self.program.called(c)):
            return
        yield Seeded(statement, bool(round_it & self.steps) and self.effects.of(statement).draws)

    def _run_by(self, statement: ast.stmt, inner: Collection[ast.stmt]) -> Iterator[Scope]:
        """The functions that a statement itself calls, but for the statements inside it."""
        for call in (n for n in ast.walk(statement) if isinstance(n, ast.Call)):
            if not any(self.program.inside(call, s) for s in inner):
                yield from self.program.flow.callees.get(call, ())


def _inside(statement: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a statement's own blocks."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler):
            yield from child.body


def _targets(statement: ast.stmt) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else []
