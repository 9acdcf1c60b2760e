"""Which loops train, and what do they train on? Where are backward and step?"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import SEEDS, Effect, Role
from accelify.codemod.semantics.call_conditions import Way, Ways
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Kind
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, names_in
from accelify.codemod.semantics.values import (
    Argument,
    Collection,
    Element,
    FunctionValue,
    Generated,
    Instance,
    Made,
    Member,
    Value,
    View,
)
from accelify.codemod.training.experience import Experience, Results
from accelify.codemod.training.gradients.input_gradients import InputGradients
from accelify.codemod.training.losses import losses_of, without_gradients
from accelify.codemod.training.made_anew import Anew, Nested
from accelify.codemod.training.modes import LastModes
from accelify.codemod.training.phases import Phase
from accelify.codemod.training.randomness.draws import draws, function_draws
from accelify.codemod.training.randomness.evaluating_calls import Evaluations
from accelify.codemod.training.randomness.passes import Passes
from accelify.codemod.training.randomness.workers import Workers
from accelify.codemod.training.roles import Roles, stepped
from accelify.codemod.training.row_groups import regroups
from accelify.codemod.training.weights import draws_weights

_MOST_WAYS = 3  # conditions under which one function is followed to its callers
_MOST_NESTS = 16  # of loops round one backward pass
_ARRAYS = frozenset({"tensor", "ndarray"})


@dataclass(frozen=True)
class Data:
    """The data that one training loop learns from.

    kind: `loaders`; `sequence`, a loop over indices, slices or items of the script's own; `random`, drawn anew in each
    step; `pass`, asked for batch by batch from one pass over all data, in an order drawn before; `given`, passed by
    callers that are not known; `full`, the same data in every step, or on all processes. sources: the loaders, the
    sequence, the pass; for `full`, iterators of libraries that are not known. state: what a model hands on from one
    batch to the next, which has to be the one that follows.
    """

    kind: str
    loop: Loop | None = None
    sources: tuple[ast.expr, ...] = ()
    state: ast.expr | None = None

    @property
    def sharded_loop(self) -> Loop | None:
        """The loop each of whose rounds learns from other data, where the script has one."""
        return self.loop if self.kind in ("loaders", "sequence") else None


@dataclass(frozen=True, slots=True)
class Training:
    """The training code of a program.

    backwards, steps: the calls. loops: those round each backward pass, through callers, from the inside out. data: what
    they learn from. frames: the functions on the way to the backward passes. ways: the ways on from each of them, with
    what depends on its parameters. phases: the loops that do more than train, with what tells when they do. nested: the
    backward passes that train something for one batch alone; those within another training are not among `backwards`.
    for_inputs: the passes for the gradients of tensors of a batch, with these, or of layers, which hooks take; not
    among `backwards` either, unless there are no others.
    """

    backwards: tuple[ast.Call, ...]
    steps: tuple[ast.Call, ...]
    loops: Mapping[ast.Call, tuple[Loop, ...]]
    data: tuple[Data, ...]
    frames: frozenset[Scope]
    ways: Mapping[Scope, frozenset[Way]]
    phases: Mapping[ast.AST, Phase] = field(default_factory=dict)
    nested: tuple[Nested, ...] = ()
    for_inputs: Mapping[ast.Call, tuple[ast.expr, ...]] = field(default_factory=dict)

    @property
    def rounds(self) -> frozenset[Loop]:
        """The loops over data."""
        return frozenset(d.loop for d in self.data if d.loop is not None)


class Loops:
    """Find the training code."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.flow = program.flow
        self.ways = Ways(program, tracer)
        self.modes = LastModes(program, roles)
        self.sources = Sources(program, roles, tracer, self.owners)
        self.anew = Anew(program, roles, tracer, self.stack)
        self.passes = Passes(program, self.stack, self.owners)
        self._outputs = Results(program, tracer, self._runs_model)
        self.read: set[ast.Call] = set()  # the backward passes whose gradients are only read

    def find(self) -> Training:
        """The backward passes that the named files may run, and all that hangs on them."""
        backwards: list[ast.Call] = []
        steps: list[ast.Call] = []
        others: list[ast.Call] = []
        reachable = self.program.reachable
        for call in sorted(self.program.calls, key=self.program.position):
            if not isinstance(call.func, ast.Attribute) or self.program.frame(call) not in reachable:
                continue
            if call.func.attr == "backward":
                (backwards if self._is_tensor_backward(call) else others).append(call)
            elif call.func.attr == "step" and self._is_optimizer_step(call):
                steps.append(call)
        left_over = self._left_over(backwards, steps)
        backwards = [b for b in backwards if self.program.frame(b) not in left_over]
        steps = [s for s in steps if self.program.frame(s) not in left_over]
        ways: dict[ast.Call, dict[Scope, set[Way]]] = {backward: {} for backward in backwards}
        loops = {backward: tuple(self.stack(backward, ways[backward])) for backward in backwards}
        self.read = {b for b in backwards if self._is_read(b, loops[b], steps)}
        data = {backward: self._all_data(backward, loops[backward], steps) for backward in backwards}
        nested = tuple(
            self.anew.nested(
                loops, steps, lambda b: data[b][0].sharded_loop, lambda b: any(d.kind == "random" for d in data[b])
            )
        )
        apart = {n.backward: n.steps for n in nested if n.is_within}
        if set(apart) == set(backwards) and not others:  # what lasts has no backward pass
            nested, apart = tuple(replace(n, is_within=False) for n in nested), {}
        for_inputs = self._for_inputs([b for b in backwards if b not in apart], data, steps)
        kept = [b for b in backwards if b not in apart and b not in for_inputs]
        kept = kept or [b for b in backwards if b not in apart]
        merged: dict[Scope, set[Way]] = {}
        for frame, wanted in (pair for backward in kept for pair in ways[backward].items()):
            merged.setdefault(frame, set()).update(wanted)
        learning = [b for b in kept if b not in self.read] or kept
        known = dict.fromkeys(d for backward in learning for d in data[backward])
        return Training(
            backwards=tuple(kept),
            steps=tuple(s for s in steps if not any(s in own for own in apart.values())),
            loops={backward: loops[backward] for backward in kept},
            # The others belong to helpers that nothing calls.
            data=tuple(d for d in known if d.loop is not None) or tuple(known),
            frames=frozenset(merged),
            ways={frame: frozenset(wanted) for frame, wanted in merged.items()},
            nested=nested,
            for_inputs=for_inputs,
        )

    def _for_inputs(
        self, backwards: Sequence[ast.Call], data: Mapping[ast.Call, Sequence[Data]], steps: Sequence[ast.Call]
    ) -> dict[ast.Call, tuple[ast.expr, ...]]:
        """The backward passes that are for the gradients of tensors of a batch alone, with these."""
        rounds = {d.loop for backward in backwards for d in data[backward] if d.loop is not None}
        gradients = InputGradients(self.program, self.roles, self.tracer, steps, rounds)
        found = {backward: gradients.of(backward) for backward in backwards}
        return {backward: tensors for backward, tensors in found.items() if tensors is not None}

    def _is_read(self, backward: ast.Call, loops: Sequence[Loop], steps: Sequence[ast.Call]) -> bool:
        """Whether gradients are only read: no step is taken in a loop that clears them, or reads those of its batch."""
        loop = loops[0] if loops else None
        if loop is None or any(loop in self.stack(step) for step in steps):
            return False
        nodes = [n for n in nodes_in(loop) if isinstance(n, ast.Attribute)]
        owners = [n.value for n in nodes if n.attr == "grad" and isinstance(n.ctx, ast.Load)]
        is_cleared = any(n.attr == "zero_grad" for n in nodes)
        return bool(owners) and (is_cleared or not all(map(self._is_of_parameters, owners)))

    def _is_of_parameters(self, node: ast.expr) -> bool:
        return self.program.once(Effects).kinds.of(node) == {"parameter"}

    def _left_over(self, backwards: list[ast.Call], steps: list[ast.Call]) -> set[Scope]:
        """The functions that take one step for a caller, but that nothing mentions, where other code trains."""
        found = {f for f in map(self.program.frame, backwards) if takes_one_step(self.program, f, steps)}
        found = {f for f in found if self._is_unmentioned(f)}
        return found if any(self.program.frame(s) not in found for s in steps) else set()

    def _is_unmentioned(self, function: Scope) -> bool:
        assert function.parent is not None
        is_decorated = bool(getattr(function.node, "decorator_list", ()))
        is_read = function.is_method or self.program.reads_of(function.parent, function.name)
        value = FunctionValue(function)
        return not (is_decorated or is_read or any(value in held for held in self.flow.values.values()))

    def _is_tensor_backward(self, call: ast.Call) -> bool:
        assert isinstance(call.func, ast.Attribute)
        if any(isinstance(v, FunctionValue) for v in self.program.values(call.func)) or self._gives_something(call):
            return False
        text = ast.unparse(call.func.value)
        return not text.startswith("super()") and not text.endswith("accelerator")

    def _gives_something(self, call: ast.Call) -> bool:
        """Whether what a call returns is kept: `x, log_det = flow.backward(z)`; a tensor's backward gives nothing."""
        parent = self.program.parent(call)
        if not isinstance(parent, ast.Assign):
            return False
        return bool(call.args) or any(isinstance(t, (ast.Tuple, ast.List)) for t in parent.targets)

    def _is_optimizer_step(self, call: ast.Call) -> bool:
        return any(self.roles.is_optimizer(v) for v in self.program.values(stepped(call)))

    # Loops round a place, through callers.

    def stack(self, node: ast.AST, ways: dict[Scope, set[Way]] | None = None) -> list[Loop]:
        """The loops that hold a node, in its function and in those that call it, from the inside out.

        ways: gets the functions on the way, each with the ways that lead on from it.
        """
        found: list[Loop] = []
        seen: set[tuple[Scope, Way]] = set()
        queue: list[tuple[ast.AST, Way]] = [(node, self.ways.begin(node))]
        asking: set[ast.AST] = set()  # what only runs where models train
        while queue:
            current, way = queue.pop(0)
            for loop in self.program.loops_round(current):
                if loop not in found:
                    found.append(loop)
            frame = self._function_round(current)
            if ways is not None:
                ways.setdefault(self.program.frame(current), set()).add(way)
            if frame is not None and sum(f is frame for f, _ in seen) >= _MOST_WAYS:
                way = ()  # conditions upon conditions: any call may get here
            if frame is None or (frame, way) in seen:
                continue
            seen.add((frame, way))
            calls = self.program.calls_of(frame)
            if ways is not None:
                asks = current in asking or self.modes.asks(current)
                evaluating = [c for c in calls if self._evaluates(c, current, asks)]
                calls = [c for c in calls if c not in evaluating] or calls
                asking.update(calls if asks else ())
            longer = ((call, self.ways.through(call, way)) for call in calls)
            queue.extend((call, each) for call, each in longer if each is not None)
            if frame in self.flow.escaped:
                queue.extend((use, self.ways.begin(use)) for use in self._uses_of(frame))
        return found

    def _evaluates(self, call: ast.Call, place: ast.AST, asks: bool) -> bool:
        """Whether a call does not come as far as a backward pass in its function: without gradients, in `eval` mode."""
        is_without = not self._enables_gradients and without_gradients(self.program, call) is not None
        return is_without or self.ways.fails(call, place) or (asks and self.modes.is_in_eval_mode(call))

    @cached_property
    def _enables_gradients(self) -> bool:
        return any(names.enables_gradients(n) for call in self.program.calls for n in self.program.called(call))

    def _function_round(self, node: ast.AST) -> Scope | None:
        scope: Scope | None = self.program.scope(node)
        while scope is not None and scope.kind not in ("function", "lambda"):
            scope = scope.parent
        return scope

    def _uses_of(self, function: Scope) -> Iterator[ast.AST]:
        """Where a closure is mentioned: `optimizer.step(closure)`; not where it is returned to those who call it."""
        assert function.parent is not None
        for read in function.parent.reads.get(function.name, ()):
            if not isinstance(self.program.parent(read), ast.Return) or not self.program.calls_of(function):
                yield read

    def _runs_a_model(self, loop: Loop) -> bool:
        """Whether a model is called in a loop."""
        return any(isinstance(n, ast.Call) and self._runs_model(n) for n in nodes_in(loop))

    def _runs_model(self, call: ast.Call) -> bool:
        return any(map(self.roles.is_model, self.program.values(call.func)))

    def _state(self, loop: Loop) -> ast.Name | None:
        """What a model is called with in a round, and its last call gave: `out, hidden = model(x, hidden)`."""
        for call in self.program.calls:
            if next(iter(self.program.loops_round(call)), None) is not loop or not self._runs_a_model_in(call):
                continue
            arguments = [*call.args, *(k.value for k in call.keywords)]
            given = [n for a in arguments for n in ast.walk(a) if isinstance(n, ast.Name)]
            kept = [n for n in given if self._comes_from(call, n, loop, frozenset())]
            if kept:
                return kept[0]
        return None

    def _runs_a_model_in(self, call: ast.Call) -> bool:
        """Whether a call runs a model, itself or in the functions that it calls."""
        inner = self.program.run_from(self.program.flow.callees.get(call, ()))
        return any(self._runs_model(c) for c in (call, *(c for f in inner for c in self.program.calls_in(f))))

    def _comes_from(self, call: ast.Call, read: ast.Name, loop: Loop, seen: frozenset[ast.AST]) -> bool:
        """Whether a variable may hold a result of a call, or what is made of it, of an earlier round of a loop."""
        for definition in self.program.once(Chains).definitions(read):
            statement = self.program.statement(definition.node)
            if statement is self.program.statement(call):
                return definition.kind is Kind.ASSIGNMENT
            value = getattr(statement, "value", None)
            if statement in seen or not isinstance(value, ast.expr) or not self.program.inside(statement, loop):
                continue
            reads = [n for n in ast.walk(value) if isinstance(n, ast.Name)]
            if any(self._comes_from(call, n, loop, seen | {statement}) for n in reads):
                return True
        return False

    def _is_over_parts_of_a_loss(self, loop: Loop, backward: ast.Call) -> bool:
        """Whether the models ran before a loop, and it goes back through them from one objective after the other."""
        if not all(map(self._outputs.holds, losses_of(self.program, backward) or [backward])):
            return False
        runs = (call for call in self.program.calls if self._runs_model(call))
        return not any(loop in self.stack(call) for call in runs)

    def _clears_without_a_step(self, loop: Loop, steps: Iterable[ast.Call]) -> bool:
        """Whether rounds put their gradients aside for one step after the loop: those of tasks, or of domains."""
        around = [self.stack(step) for step in steps if self.program.frame(step) is self.program.frame(loop)]
        is_cleared = any(isinstance(n, ast.Attribute) and n.attr == "zero_grad" for n in nodes_in(loop))
        return is_cleared and bool(around) and all(loop not in stack for stack in around)

    @staticmethod
    def _is_given(value: Value) -> bool:
        """Whether a value comes from a caller who is not known."""
        while isinstance(value, Member):
            value = value.owner
        return isinstance(value, Argument)

    # Iterables of loops.

    def owners(self, node: ast.expr) -> set[Value]:
        """The objects whose items a loop over an expression yields."""
        found = {v.owner if isinstance(v, Element) else v for v in self._gone_over(node)}
        generated = {v for v in found if isinstance(v, Generated)}
        return (found - generated).union(*(self._handed_on(g, node) for g in generated))

    def _handed_on(self, generated: Generated, node: ast.expr) -> set[Value]:
        """The loaders whose batches a generator yields, if it is given them where it is called; else itself."""
        items = self.flow.elements(generated)
        loaders = {i.owner for i in items if isinstance(i, Element) and self.roles.is_loader(i.owner)}
        ends = [chain[-1] for chain in self.tracer.chains(node)]
        is_given = all(b.kind != "inline" or generated not in self.program.values(b.value) for b in ends if b.value)
        return loaders if loaders and ends and is_given else {generated}

    def _gone_over(self, node: ast.expr) -> set[Value]:
        """What a loop over an expression goes over, without the views of it, as `enumerate` gives one."""
        found, left = set[Value](), dict.fromkeys(self.program.values(node), 4)
        while left:
            value, depth = left.popitem()
            if isinstance(value, View):
                left |= dict.fromkeys(self.flow.view_source(value) if depth > 1 else (), depth - 1)
            else:
                found.add(value)
        return found

    def generators(self, node: ast.expr) -> list[Generated]:
        """The generators that an expression yields from, if they are called where it gets its name."""
        found = {v.owner if isinstance(v, Element) else v for v in self._gone_over(node)}
        made = [b.value for chain in self.tracer.chains(node) for b in chain if b.value is not None]
        held = {v for value in made for v in self._gone_over(value)} if made else found
        return [v for v in found if isinstance(v, Generated) and v in held]

    def yielded_from(self, generator: Scope) -> Iterator[ast.expr]:
        """The loaders from whose batches a generator function makes what it yields, as it names them."""
        for node in ast.walk(generator.node):
            source = node.value if isinstance(node, ast.YieldFrom) else self.program.iterator(node)
            if source is not None and any(self.roles.is_loader(v) for v in self.owners(source)):
                yield source
            elif isinstance(node, (ast.For, ast.AsyncFor)) and self.is_loader_loop(node) and _yields(node):
                yield node.iter

    def is_loader_loop(self, loop: Loop) -> bool:
        """Whether a loop iterates over a loader."""
        return any(map(self.roles.is_loader, self.yielding(loop)))

    def yielding(self, loop: Loop) -> set[Value]:
        """The objects whose items a loop gets, each whole, without those of whose batches it goes over the rows."""
        if not isinstance(loop, (ast.For, ast.AsyncFor)) or self.sources.is_part_of_a_batch(loop):
            return set()
        held = self._gone_over(loop.iter)
        batches = {v.owner for v in held if isinstance(v, Element)} - held
        return self.owners(loop.iter) - batches

    def _all_data(self, backward: ast.Call, loops: Sequence[Loop], steps: list[ast.Call]) -> list[Data]:
        """What a backward pass learns from, in each of the nests of loops that come to it; first what is sharded."""
        found = dict.fromkeys(d for nest in self._nests(loops) for d in self._data(backward, nest, steps))
        return sorted(found, key=lambda d: d.sharded_loop is None)

    def _nests(self, loops: Sequence[Loop]) -> list[list[Loop]]:
        """The loops as they are nested: several callers of one function each have loops, and data, of their own."""
        stacks = {loop: [o for o in self.stack(loop) if o in loops and o is not loop] for loop in loops}
        around = {loop: [o for o in stack if loop not in stacks[o]] for loop, stack in stacks.items()}

        def outwards(loop: Loop) -> Iterator[list[Loop]]:
            nearest = [o for o in around[loop] if not any(o in around[other] for other in around[loop])]
            yield from ([loop, *outer] for o in nearest for outer in outwards(o))
            yield from () if nearest else ([loop],)

        innermost = [loop for loop in loops if not any(loop in outer for outer in around.values())]
        found = [nest for loop in innermost for nest in islice(outwards(loop), _MOST_NESTS)]
        return found if 0 < len(found) < _MOST_NESTS else [list(loops)]

    def _data(self, backward: ast.Call, loops: Sequence[Loop], steps: list[ast.Call]) -> list[Data]:
        for loop in loops:
            if isinstance(loop, ast.For) and self._goes_over_groups(loop) and any(loop in self.stack(s) for s in steps):
                return [Data("sequence", loop, (self.tracer.inside(loop.iter, "reversed"),))]
        of_loaders = [loop for loop in loops if isinstance(loop, ast.For) and self.is_loader_loop(loop)]
        found, drawn = self._of_loaders(backward, loops, of_loaders)
        sharded = [d for d in found if not any(map(self.sources.experience.holds, d.sources))]
        if any(self._adapts(loop, loops, steps) for loop in of_loaders):
            return [Data("full", loops[0])]
        if sharded or drawn or found:
            return self._by_loop(sharded) if sharded else [Data("random", loops[0])]
        for loop in loops:
            source = self.sources.own(loop)
            if source is not None and not self.sources.is_within_a_batch(loop):
                if self.sources.is_own_experience(loop, source[1]):
                    return [Data("random", loops[0])]
                if self.anew.starts_over(loop, self._stepped_in(loop, steps)) or any(self.sources.chosen(loop)):
                    break
                if self._is_over_parts_of_a_loss(loop, backward) or self._clears_without_a_step(loop, steps):
                    continue
                state = self._state(loop) if source[0] == "sequence" else None
                return [Data("full", loop, state=state) if state else Data(source[0], loop, (source[1],))]
        once = self.passes.asked(loops)
        if once is not None:
            return [Data("pass", loops[0], (once,))]
        if self._is_given_batches(backward):
            return [Data("given", loops[0] if loops else None)]
        walked = next((loop for loop in loops if self.sources.walks(loop)), None)
        if walked is not None and not self.sources.experience.asks:
            return [Data("full", walked)]
        if self._draws(loops, backward) or next(Workers(self.program).drawing(), None) is not None:
            kind = "full" if self._draws_a_task(backward, loops, steps) else "random"
            return [Data(kind, loops[0] if loops else None, tuple(self._asked_of_others(loops)))]
        given = next((loop for loop in loops if self._goes_over_given_batches(loop, backward)), None)
        if given is not None:
            return [Data("given", given)]
        return [Data("full", loops[0] if loops else None, tuple(self._asked_of_others(loops)))]

    def _of_loaders(
        self, backward: ast.Call, loops: Sequence[Loop], of_loaders: Sequence[ast.For]
    ) -> tuple[list[Data], list[ast.Call]]:
        """The loaders that loops go over, or ask for a batch, and all calls that ask."""
        found = [Data("loaders", loop, (loop.iter,)) for loop in of_loaders]
        evaluations = Evaluations(self.program, self.roles, [self.program.frame(backward)])
        drawn = [c for c in self._next_calls(loops) if not self._asks_for_a_round_s_own(c) and not evaluations.asks(c)]
        given = None if of_loaders else next(filter(self._is_over_a_given_loader, loops), None)
        if isinstance(given, ast.For) and drawn:
            drawn = [c for c in drawn if given in self.stack(c) or self.program.frame(c) is self.program.frame(given)]
            found.append(Data("loaders", given, (self.tracer.inside(given.iter, "reversed"),)))
        asked = [call for call in drawn if not self._searches(call, loops)]
        found.extend(Data("loaders", loops[0], (_asked_of(call),)) for call in asked)
        return found, drawn

    def _is_over_a_given_loader(self, loop: Loop) -> bool:
        """Whether a loop trains on what callers give that are not known: a loader, as far as anything shows."""
        source = self.sources.own(loop)
        if source is None or source[0] != "loaders":
            return False
        held = self._gone_over(source[1])
        return bool(held) and all(map(self._is_given, held))

    def _by_loop(self, found: Sequence[Data]) -> list[Data]:
        """The loaders of several loops: of the first, of those beside it, and further ones of the first."""
        first, *others = found
        beside = [d for d in others if d.sources and d.loop is not first.loop and not self._holds(d.loop, first.loop)]
        return [first, *beside, *(d for d in others if d.loop is first.loop)]

    def _stepped_in(self, loop: ast.AST, steps: Iterable[ast.Call]) -> list[ast.expr]:
        """The optimizers that a loop steps."""
        return [stepped(s) for s in steps if loop in self.stack(s)]

    def _adapts(self, loop: ast.For, loops: Sequence[Loop], steps: list[ast.Call]) -> bool:
        """Whether each batch of a loop trains for itself: gradients of several batches must not be averaged.

        So does one that functions train which also train what lasts; and one that several steps learn from before the
        weights of before are put back.
        """
        held = self._stepped_in(loop, steps)
        if self.anew.begins(loop, held):
            return self.anew.is_mixed(loop, held)
        return loops.index(loop) > 0 and self.anew.starts_over(loop, held)

    def _draws_a_task(self, backward: ast.Call, loops: Sequence[Loop], steps: list[ast.Call]) -> bool:
        """Whether rounds that start over, or loops round them, draw what the steps have in common: tasks, a split.

        So do those that adapt something beside a training, for which all processes are to draw the same.
        """
        if self.sources.experience.asks:
            return False
        outer = self.anew.started_over(backward, loops, steps)
        if outer is None:
            return False
        if self.anew.is_beside(outer, steps):
            return True
        effects = self.program.once(Effects)
        seeding = (c for c in self.program.calls if effects.of_call(c).effects & SEEDS)
        drawing = (c for c in self.program.calls if draws(self.program, c) and not draws_weights(self.program, c))
        drawn = {outer, *self.stack(outer)} - {loop for c in seeding for loop in self.stack(c)[:1]}
        return any(not drawn.isdisjoint(self.stack(c)[:1]) for c in drawing)

    def _asked_of_others(self, loops: Sequence[Loop]) -> Iterator[ast.expr]:
        """The batches that some loops ask for by `next`, from an iterator neither known nor of the project's own."""
        for call in self.program.calls:
            asked = self.program.iterator(call)
            if not isinstance(asked, (ast.Name, ast.Attribute)) or not any(loop in loops for loop in self.stack(call)):
                continue
            made = [o.root if isinstance(o, Member) else o for o in self.owners(asked)]
            of_others = (
                isinstance(o, Made) and not names.is_counter(o.name) and not self.roles.is_loader(o) for o in made
            )
            if all(of_others):
                yield asked

    def _goes_over_groups(self, loop: ast.For) -> bool:
        """Whether a loop iterates over what a collate function has cut the rows of one batch into."""
        loaders = [v for v in self.owners(loop.iter) if self.roles.is_loader(v)]
        is_within = bool(loaders) and self.sources.is_part_of_a_batch(loop)
        return is_within and all(regroups(self.program, v) for v in loaders)

    def _holds(self, outer: Loop | None, inner: Loop | None) -> bool:
        return outer is not None and inner is not None and self.program.inside(inner, outer)

    def _next_calls(self, loops: Sequence[Loop]) -> list[ast.Call]:
        """`next(iterator)` of a loader, in the loops or in what they call."""
        found = []
        for call in self.program.calls:
            asked = self.program.iterator(call)
            if asked is None or not (self._is_batch(call) or self._numbers(asked) or self._yields_batches(asked)):
                continue
            own = self.program.loops_round(call)
            if own and own[0] not in loops and self._runs_a_model(own[0]):
                continue  # an evaluation, with a loop of its own
            if any(loop in loops for loop in self.stack(call)):
                found.append(call)
        within = [c for c in found if not self._asks_its_own(c)]
        return within or found

    def _is_batch(self, node: ast.expr) -> bool:
        held = [v.owner for v in self.program.values(node) if isinstance(v, Element)]
        return any(self.roles.is_loader(owner) or self._is_given(owner) for owner in held)

    def _numbers(self, asked: ast.expr) -> bool:
        """Whether an iterator gives a loader's batches with their numbers: `enumerate(loader)`."""
        views = [v for v in self.program.values(asked) if isinstance(v, View)]
        return bool(views) and any(map(self.roles.is_loader, self.owners(asked)))

    def _yields_batches(self, asked: ast.expr) -> bool:
        """Whether an iterator is a generator's, which makes what it yields from a loader's batches."""
        made = self.generators(asked)
        return bool(made) and all(any(True for _ in self.yielded_from(g.scope)) for g in made)

    def _searches(self, call: ast.Call, loops: Sequence[Loop]) -> bool:
        """Whether `next(iter(loader))` is asked until enough was found, which no two processes ask equally often."""
        is_anew = self.program.begun(self.program.iterator(call)) is not None
        own = self.program.loops_round(call)
        return is_anew and bool(own) and isinstance(own[0], ast.While) and own[0] not in loops

    def _asks_for_a_round_s_own(self, call: ast.Call) -> bool:
        """Whether each round makes a loader and its data anew and asks it for a batch: a task, which is not divided."""
        loops = self.stack(call)
        loaders = [v for v in self.owners(_asked_of(call)) if self.roles.is_loader(v)]
        return bool(loops and loaders) and all(self.anew.makes_data(loops[0], v) for v in loaders)

    def _asks_its_own(self, call: ast.Call) -> bool:
        """Whether `next` is asked of an object of the project's own, which asks the loaders that it holds."""
        asked = "__next__" if call.args or not isinstance(call.func, ast.Attribute) else call.func.attr
        values = self.program.values(_asked_of(call))
        return any(isinstance(v, Instance) and self.flow.method(v.cls, asked) for v in values)

    def _is_given_batches(self, backward: ast.Call) -> bool:
        """Whether a function that nothing calls runs a model on its parameters, as a loss that trains a critic does."""
        frame = self.program.frame(backward)
        if not frame.is_function or self.flow.callers.get(frame):
            return False
        return any(isinstance(v, Argument) and v.scope is frame for v in self._shown_to_models(frame))

    def _goes_over_given_batches(self, loop: Loop, backward: ast.Call) -> bool:
        """Whether a loop shows a model what it takes from a parameter, or an attribute, that nothing here sets."""
        owners = self.owners(loop.iter) if isinstance(loop, (ast.For, ast.AsyncFor)) else set()
        is_given = bool(owners) and all(map(self._is_given, owners))
        shown = self._shown_to_models(self.program.frame(backward)) if is_given else ()
        return any(isinstance(v, Element) and v.owner in owners for v in shown)

    def _shown_to_models(self, frame: Scope) -> Iterator[Value]:
        """What a function may give to models."""
        for call in filter(self._runs_model, self.program.calls_in(frame)):
            names_read = (n for a in call.args for n in ast.walk(a) if isinstance(n, ast.Name))
            yield from (v for name in names_read for v in self.program.values(name))

    def _draws(self, loops: Sequence[Loop], backward: ast.Call) -> bool:
        """Whether the data of a step are drawn at random or come from an environment."""
        inside, frames = set(loops), [self.program.frame(backward)]
        evaluations = Evaluations(self.program, self.roles, frames, self.read - {backward})
        for call in self.program.calls:
            if (
                draws(self.program, call)
                and self.program.frame(call) in self.program.reachable
                and any(loop in inside for loop in self.stack(call))
                and not evaluations.hold(call)
                and not (self.read and evaluations.asks(call))
            ):
                return True
        frame = self.program.frame(backward)
        is_called_elsewhere = frame.is_function and not self.flow.callers.get(frame)
        return not loops and is_called_elsewhere and function_draws(self.program, frame)


def takes_one_step(program: Program, function: Scope, steps: Iterable[ast.Call]) -> bool:
    """Whether a function that nothing here calls takes one step with an optimizer that it is given."""
    if function.kind != "function" or program.flow.callers.get(function):
        return False
    own = [s for s in steps if program.frame(s) is function]
    is_given = any(isinstance(v, Argument) for s in own for v in program.values(stepped(s)))
    return is_given and not any(program.loops_round(s) for s in own)


def _asked_of(call: ast.Call) -> ast.expr:
    """The iterator of `next(batches)` or `batches.next()`."""
    if call.args:
        return call.args[0]
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


__all__ = ["LOOPS", "Data", "Loop", "Loops", "Training", "takes_one_step"]


def _yields(loop: ast.For | ast.AsyncFor) -> bool:
    return any(isinstance(n, ast.Yield) for n in ast.walk(loop))


_CALCULATES = (
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Name, ast.Constant, ast.Call, ast.Load),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)
_CHECKS = (ast.If, ast.IfExp, ast.While, ast.Assert)
_SAME = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
_OF_AN_EPOCH = re.compile(r"(per|each|an|one|in|len)_?epoch(?!s)")  # `steps_per_epoch` counts no epochs
Loop = ast.For | ast.AsyncFor | ast.While


class Sources:
    """Find it, and what a loop shards; `owners` gives what an expression's items come from."""

    def __init__(
        self, program: Program, roles: Roles, tracer: Tracer, owners: Callable[[ast.expr], set[Value]]
    ) -> None:
        self.program = program
        self.flow = program.flow
        self.roles = roles
        self.tracer = tracer
        self.owners = owners
        self.experience = Experience(program, tracer)

    def own(self, loop: Loop) -> tuple[str, ast.expr] | None:
        """The source of the data of a loop of the script's own, if it is the loop that shards the data."""
        if not isinstance(loop, ast.For):
            return None
        source = self.tracer.inside(loop.iter, "reversed")
        owners = self.owners(source)
        if self.is_part_of_a_batch(loop):
            return None
        if any(isinstance(o, Made) and names.is_counter(o.name) for o in owners):
            text = _OF_AN_EPOCH.sub("", ast.unparse(source).lower())
            if "epoch" in text or "step" in text.split("(")[0]:
                return None
            is_shared = self._picks_data(loop) and not self._leaves_out(loop, names_in(loop.target))
            return ("sequence", source) if is_shared else None
        if isinstance(source, (ast.List, ast.Tuple, ast.Dict, ast.Constant)) or self._is_literal(owners):
            return None
        if any(map(self._is_of_folds, owners)) or self._leaves_out(loop, self._counters(loop)):
            return None
        kind = "sequence" if self._may_be_a_list(source) else self._kind_of(owners)
        return (kind, source) if kind is not None and self._uses_items(loop) else None

    def chosen(self, loop: Loop) -> Iterator[ast.Compare]:
        """What decides by an item's number whether a loop trains on the item: `if k == held_out: continue`.

        By the order of two numbers only `enumerate` tells: a range's or a count's may be where the data, or a run, end.
        """
        counted = set(self._counters(loop))
        ordered = counted - names_in(*(t.target for t in nodes_in(loop) if isinstance(t, ast.AugAssign)))
        ordered = set() if isinstance(loop, ast.For) and self.tracer.is_counter(loop.iter) else ordered
        values = dict(assigned_in(loop))
        for node in (n for n in nodes_in(loop) if isinstance(n, ast.If) and counted):
            leaves = any(isinstance(s, ast.Continue) for s in [*node.body, *node.orelse])
            leaves = leaves and self.program.loops_round(node)[0] is loop
            if leaves or any(isinstance(n, ast.Call) and self._goes_back(n) for n in ast.walk(node)):
                tests = [node.test, *(values[name] for name in names_in(node.test) & values.keys())]
                for test in (n for t in tests for n in ast.walk(t) if isinstance(n, ast.Compare)):
                    numbers = calculated(counted if isinstance(test.ops[0], _SAME) else ordered, loop)
                    if _chooses(test, numbers, leaves=leaves):
                        yield test

    def _counters(self, loop: Loop) -> Iterator[str]:
        """The variables that number a loop's items: of `enumerate(x)`, `range(n)`, `zip(range(n), x)`, `k += 1`."""
        if not isinstance(loop, ast.For):
            return
        for target in (n for n in ast.walk(loop.target) if isinstance(n, ast.Name)):
            if self.tracer.is_numbered(target):
                yield target.id
        for node in loop.body:
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and ast.unparse(node.value) == "1":
                yield node.target.id

    def _goes_back(self, call: ast.Call) -> bool:
        return (isinstance(call.func, ast.Attribute) and call.func.attr == "backward") or self._trains(call)

    def is_own_experience(self, loop: Loop, source: ast.expr) -> bool:
        """Whether what a loop shards is what this process's own environment returned."""
        if not isinstance(loop, ast.For):
            return False
        counters = _with_derived(names_in(loop.target), list(nodes_in(loop)))
        picked = [p.value for node in nodes_in(loop) for p in self._picked(node, counters)]
        return any(map(self.experience.holds, [source, *picked]))

    def walks(self, loop: Loop) -> bool:
        """Whether rounds of a `while` take one piece of data after the other, however long: `x[i : i + n]; i += n`."""
        if not isinstance(loop, ast.While):
            return False
        moved = (n.target for n in nodes_in(loop) if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add))
        ends = (n.test for n in nodes_in(loop) if isinstance(n, ast.If) and isinstance(n.body[-1], ast.Break))
        positions = {n.id for n in moved if isinstance(n, ast.Name)} & names_in(loop.test, *ends)
        picked = [p for node in nodes_in(loop) for p in self._picked(node, positions)] if positions else []
        slices = [p.slice for p in picked if isinstance(p.slice, ast.Slice) and p.slice.lower is not None]
        return any(isinstance(s.lower, ast.Name) for s in slices)

    def is_part_of_a_batch(self, loop: ast.For | ast.AsyncFor) -> bool:
        """Whether a loop iterates over what an outer loop shards: the micro-batches of a batch, its sequences."""
        source = self.tracer.inside(loop.iter, "reversed")
        parts = source.args if isinstance(source, ast.Call) and "zip" in self.program.called(source) else [source]
        held = [self.program.values(_container(part)) for part in parts]
        return all(values and all(isinstance(v, Element) for v in values) for values in held) and bool(held)

    def is_within_a_batch(self, loop: Loop) -> bool:
        """Whether a loop counts parts of what a generator of the project's own yields to a loop round it."""
        for outer in self.program.loops_round(loop):
            if not isinstance(outer, ast.For) or not any(isinstance(o, Generated) for o in self.owners(outer.iter)):
                continue
            made = (
                v for call in self.program.calls if self.program.inside(call, outer) for v in self.program.values(call)
            )
            if not any(map(self.roles.is_optimizer, made)):  # else it yields folds
                return self.own(outer) is not None
        return False

    def _kind_of(self, owners: set[Value]) -> str | None:
        """Whether batches come from an object that can be prepared, or from one whose items are to be sharded."""
        own = [o for o in owners if isinstance(o, Instance) and self._yields(o)]
        if own:
            return "loaders" if all(self._is_counted(o) for o in own) else "sequence"
        are_known = any(map(_is_of_data, owners))  # `prepare` refuses these: `shard` takes them, and a loader, too
        if any(isinstance(o, (Argument, Member)) for o in owners) and not are_known:
            return "loaders"
        return "sequence" if are_known or any(isinstance(o, (Made, Collection, Generated)) for o in owners) else None

    def _yields(self, instance: Instance) -> bool:
        return any(self.flow.method(instance.cls, name) for name in ("__iter__", "__getitem__", "__next__"))

    def _is_counted(self, instance: Instance) -> bool:
        """Whether `prepare` takes it for a source of batches: it can be iterated and counted, but not indexed."""
        iterates, counts, indexes = (
            self.flow.method(instance.cls, name) for name in ("__iter__", "__len__", "__getitem__")
        )
        return iterates is not None and counts is not None and indexes is None

    def _may_be_a_list(self, source: ast.expr) -> bool:
        """Whether a loop goes over a list that the script makes, at times: `prepare` refuses it, `shard` takes both."""
        return any(map(self._is_listed, self.program.values(source)))

    def _is_listed(self, value: Value) -> bool:
        """Whether the script makes a list, apart from one of all batches of what may be a loader."""
        if isinstance(value, Collection):
            return bool(self.flow.elements(value))
        if not isinstance(value, View) or not isinstance(value.node, ast.Call):
            return False
        is_copy = not {"list", "sorted"}.isdisjoint(self.program.called(value.node))
        return is_copy and not any(isinstance(v, (Argument, Member)) for v in self.flow.view_source(value))

    @staticmethod
    def _is_literal(owners: set[Value]) -> bool:
        listed = [o.node for o in owners if isinstance(o, Collection)]
        return bool(listed) and all(
            isinstance(n, (ast.List, ast.Tuple, ast.Dict)) and getattr(n, "elts", getattr(n, "keys", []))
            for n in listed
        )

    def _picks_data(self, loop: ast.For) -> bool:
        """Whether a counter picks data: it indexes or slices something that is read."""
        counters = _with_derived(names_in(loop.target), list(nodes_in(loop)))
        picked = [p for node in nodes_in(loop) for p in self._picked(node, counters) if not self._evaluates(node, loop)]
        if any(self.roles.learns(v) for p in picked for v in self.program.values(p)):
            return False  # which network is trained is no choice of data
        if any(self._is_of_folds(o) for p in picked for o in self.owners(p.value)):
            return False
        results = self._results(loop)
        picked = [p for p in picked if ast.unparse(p.value) not in results]
        return any(not self.program.inside(p, loop) or not self._is_only_shown(p, loop) for p in picked)

    def _results(self, loop: ast.For) -> set[str]:
        """The containers into which a loop puts what its training gives: `losses[i + 1] = losses[i] + train()`."""
        assigned = [n for n in nodes_in(loop) if isinstance(n, ast.Assign)]
        given = [n for n in assigned if any(isinstance(c, ast.Call) and self._trains(c) for c in ast.walk(n.value))]
        return {ast.unparse(t.value) for n in given for t in n.targets if isinstance(t, ast.Subscript)}

    @staticmethod
    def _is_of_folds(owner: Value) -> bool:
        """Whether items are the folds of a cross-validation: nearly all data, on which each process has to train."""
        return isinstance(owner, Made) and names.makes_folds(owner.name)

    def _leaves_out(self, loop: ast.For, counted: Iterable[str]) -> bool:
        """Whether a round takes all rows but those of its number: `x[group != k]`, `x[:k] + x[k + 1 :]`."""
        counted = set(counted)
        derived = _with_derived(counted, list(nodes_in(loop)))
        if _leaves_gap(p for node in nodes_in(loop) for p in self._picked(node, derived)):
            return True
        tests = {n for each in nodes_in(loop) if isinstance(each, _CHECKS) for n in ast.walk(each.test)}
        for node in nodes_in(loop):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotEq) and node not in tests:
                numbers = [s for s in (node.left, *node.comparators) if isinstance(s, ast.Name) and s.id in counted]
                others = [s for s in (node.left, *node.comparators) if not names_in(s) & counted]
                if numbers and others:
                    return True
        return False

    def _evaluates(self, node: ast.AST, loop: ast.For) -> bool:
        """Whether a node of a loop is under a `with torch.no_grad():` that gives the rest of the loop nothing."""
        block = without_gradients(self.program, node)
        if not isinstance(block, ast.With) or not self.program.inside(block, loop):
            return False
        given = {n.id for n in ast.walk(block) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        kept = any(isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) for n in ast.walk(block))
        reads = [n for n in nodes_in(loop) if isinstance(n, ast.Name) and n.id in given and isinstance(n.ctx, ast.Load)]
        later = [n for n in reads if not self.program.inside(n, block)]
        found = (d.node for n in later for d in self.program.definitions(n).definitions(n))
        return not kept and not any(self.program.inside(d, block) for d in found)

    def _picked(self, node: ast.AST, counters: set[str]) -> Iterator[ast.Subscript]:
        """The expressions that a counter indexes or slices, here or in a function that is given it."""
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and names_in(node.slice) & counters:
            yield node
        elif isinstance(node, ast.Call):
            for callee in self.flow.callees.get(node, ()):
                for parameter in callee.parameters:
                    argument = self.tracer.argument(node, callee, parameter.arg)
                    if argument is not None and names_in(argument) & counters:
                        yield from self._indexed_by(callee, parameter.arg)

    @staticmethod
    def _indexed_by(function: Scope, name: str) -> Iterator[ast.Subscript]:
        nodes = list(ast.walk(function.node))
        names = _with_derived({name}, nodes)
        for node in nodes:
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and names_in(node.slice) & names:
                yield node

    def _is_only_shown(self, node: ast.AST, within: ast.AST) -> bool:
        for ancestor in self.program.ancestors(node):
            if ancestor is within:
                return False
            if isinstance(ancestor, ast.JoinedStr):
                return True
            if isinstance(ancestor, ast.Call) and not self.program.inside(node, ancestor.func):
                if self._trains(ancestor) or self._is_asked_for_more(ancestor):
                    return False
                function = ancestor.func
                if isinstance(function, ast.Attribute):
                    is_shown = methods.shows(function.attr) or methods.is_of("string", function.attr)
                    if is_shown or methods.puts_in(function.attr):
                        return True
                elif names.says(ast.unparse(function)) or names.describes(ast.unparse(function)):
                    return True
        return False

    def _is_asked_for_more(self, call: ast.Call) -> bool:
        """Whether a function of the project's own gives something back that is used: `loss = self.step(batch)`."""
        return bool(self.flow.callees.get(call)) and not isinstance(self.program.parent(call), ast.Expr)

    def _trains(self, call: ast.Call) -> bool:
        """Whether a call runs a backward pass in functions of the project's own, whatever these are called."""
        run = self.program.run_through([call])
        calls = (c.func for function in run for c in self.program.calls_in(function))
        return any(isinstance(f, ast.Attribute) and f.attr == "backward" for f in calls)

    def _uses_items(self, loop: ast.For) -> bool:
        targets = [n for n in ast.walk(loop.target) if isinstance(n, ast.Name)]
        held = [v for t in targets for v in self.program.values(t)]
        if any(map(self.roles.learns, held)):
            return False  # a loop over networks, optimizers or weights shards no data
        names = {n.id for n in targets}
        return any(
            isinstance(n, ast.Name)
            and isinstance(n.ctx, ast.Load)
            and n.id in names
            and not self._is_only_shown(n, loop)
            and not self._is_setting(n)
            for n in nodes_in(loop)
        )

    def _is_setting(self, node: ast.expr, depth: int = 3) -> bool:
        """Whether an item only says how to make a network or an optimizer, here or in functions: a learning rate."""
        for call in self.program.ancestors(node):
            if isinstance(call, ast.stmt):
                return False
            if not isinstance(call, ast.Call) or self.program.inside(node, call.func):
                continue
            if any(map(self.roles.learns, self.program.values(call))):
                return True
            reads = [r for f in self.flow.callees.get(call, ()) for r in self._reads_given(f, call, node)]
            return bool(reads) and depth > 0 and all(self._is_setting(r, depth - 1) for r in reads)
        return False

    def _reads_given(self, function: Scope, call: ast.Call, node: ast.expr) -> Iterator[ast.Name]:
        """Where a function reads what a call gives it with an expression; not where it only shows that."""
        given = {p.arg for p in function.parameters if node is self.tracer.argument(call, function, p.arg)}
        for name in given:
            reads = self.program.reads_of(function, name)
            yield from (r for r in reads if not self._is_only_shown(r, function.node))


def _is_of_data(value: Value) -> bool:
    """Whether a library's call makes data that are no loader, or has read them, or a part of them, from a file."""
    while isinstance(value, (Element, Member)):
        value = value.owner
    row = table.function(value.name) if isinstance(value, Made) else None
    if row is None or row.role is Role.LOADER:
        return False
    return row.has(Effect.READS_FILES) or row.returns in _ARRAYS


def nodes_in(loop: Loop) -> Iterator[ast.AST]:
    """All nodes of a loop's body."""
    for statement in loop.body:
        yield from ast.walk(statement)


def assigned_in(loop: Loop) -> Sequence[tuple[str, ast.expr]]:
    """The variables that get one value in a loop, in order."""
    plain = (n for n in nodes_in(loop) if isinstance(n, ast.Assign) and len(n.targets) == 1)
    return [(n.targets[0].id, n.value) for n in plain if isinstance(n.targets[0], ast.Name)]


def calculated(numbers: set[str], loop: Loop) -> set[str]:
    """Numbers, and the variables that a loop calculates from them."""
    found = set(numbers)
    for name, value in [*assigned_in(loop)] * 2:
        if names_in(value) & found and all(isinstance(n, _CALCULATES) for n in ast.walk(value)):
            found.add(name)
    return found


def _chooses(test: ast.Compare, numbers: set[str], *, leaves: bool) -> bool:
    """Whether a comparison tells one number from others; every n-th round (`k % 4 == 0`) is no choice of items."""
    sides = [test.left, *test.comparators]
    counted = [s for s in sides if names_in(s) & numbers and all(isinstance(n, _CALCULATES) for n in ast.walk(s))]
    others = [s for s in sides if not names_in(s) & numbers]
    if len(counted) != 1 or len(others) != 1:
        return False
    named = names_in(others[0])
    if not named:
        return leaves and isinstance(test.ops[0], _SAME) and isinstance(counted[0], ast.Name)
    every = [n.right for n in ast.walk(counted[0]) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)]
    return not any(named <= names_in(e) for e in every)


def _with_derived(names: Iterable[str], nodes: Sequence[ast.AST]) -> set[str]:
    """Names, and those that are calculated from them."""
    found = set(names)
    for _ in range(2):
        for node in nodes:
            if (
                isinstance(node, ast.Assign)
                and len(node.targets) == 1
                and isinstance(node.targets[0], ast.Name)
                and not isinstance(node.value, ast.Call)
                and names_in(node.value) & found
            ):
                found.add(node.targets[0].id)
    return found


def _leaves_gap(picked: Iterable[ast.Subscript]) -> bool:
    """Whether of something all is taken that stands before one place, and all that stands behind another."""
    ends, starts = set(), set()
    for node in picked:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for axis, part in ((n, p) for n, p in enumerate(parts) if isinstance(p, ast.Slice) and p.step is None):
            if part.lower is None and part.upper is not None and not isinstance(part.upper, ast.UnaryOp):
                ends.add((ast.unparse(node.value), axis, ast.unparse(part.upper)))
            elif part.upper is None and part.lower is not None:
                starts.add((ast.unparse(node.value), axis, ast.unparse(part.lower)))
    return any(end[:2] == start[:2] and end[2] != start[2] for end in ends for start in starts)


def _container(node: ast.expr) -> ast.expr:
    """`batch` of `list(batch.keys())`."""
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "values", "items") and not node.args:
            node = node.func.value
        elif isinstance(node.func, ast.Name) and names.is_copy(node.func.id) and len(node.args) == 1:
            node = node.args[0]
        else:
            break
    return node
