"""Which optimizers are made anew in each round of a loop, with all that they train?

Folds and seeds begin a training anew. An optimizer that belongs to one batch alone (over an adversarial perturbation, a
latent code, the copy of a network that adapts to one task) stands inside the training of something that lasts: what it
trains is this process's own, and none of it is prepared. So is what a call makes and trains for the data that it is
given, where the program trains something that lasts elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from accelify.codemod.libraries import methods
from accelify.codemod.semantics.conditions import Conditions
from accelify.codemod.semantics.program import COMPREHENSIONS, Program
from accelify.codemod.semantics.provenance import Binding, Chain, Tracer
from accelify.codemod.semantics.scopes import Scope, assigned_targets, method_of_call
from accelify.codemod.semantics.values import (
    ClassValue,
    Element,
    FunctionValue,
    Instance,
    Made,
    Member,
    Parameters,
    Value,
)
from accelify.codemod.training.origins import Origins
from accelify.codemod.training.randomness.draws import draws
from accelify.codemod.training.roles import Roles, stepped
from accelify.codemod.training.weights import draws_weights, written_by_hand

Round = ast.AST | Scope  # one of a loop, or a call of a function


@dataclass(frozen=True, slots=True)
class Nested:
    """A backward pass some of whose optimizers are made anew in each round of a loop, or by each call of a function.

    steps: those that follow it. is_within: whether it trains nothing else, in a loop or a program that also steps an
    optimizer that lasts longer than a round. is_mixed: whether some of the steps train what lasts.
    """

    backward: ast.Call
    steps: tuple[ast.Call, ...]
    is_within: bool
    is_mixed: bool


class Anew:
    """Tell it by where the optimizers that step in a loop, and what they train, are made.

    `stack` gives the loops that hold a place, through callers, from the inside out.
    """

    def __init__(
        self, program: Program, roles: Roles, tracer: Tracer, stack: Callable[[ast.AST], Sequence[ast.AST]]
    ) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.stack = stack
        self.origins = Origins(program, roles, tracer)
        self._made: dict[Value, tuple[list[ast.Call], list[ast.Call]]] = {}

    def begins(self, round_: ast.AST, stepped: Iterable[ast.expr]) -> bool:
        """Whether each round of a loop, or of a comprehension, trains what it makes itself.

        stepped: the optimizers that it steps. Those that come to their step on other ways than through the loop are not
        its own: functions may train several networks.
        """
        makers = self._makers({v for node in stepped for v in self._held_in(round_, node)})
        calls = [call for made in makers for call in made]
        is_own = bool(calls) and all(made and all(self._is_in(c, round_) for c in made) for made in makers)
        return is_own and all(self._is_given_own(call, round_, through=True) for call in calls)

    def starts_over(self, round_: ast.AST, stepped: Sequence[ast.expr]) -> bool:
        """Whether no round goes on with the training of the round before.

        It makes the networks, or puts weights back into all of them: those of a checkpoint, or new ones.
        """
        return self.begins(round_, stepped) or self._puts_back(round_, stepped)

    def started_over(self, backward: ast.Call, loops: Sequence[ast.AST], steps: Sequence[ast.Call]) -> ast.AST | None:
        """The innermost of the loops and comprehensions round a backward pass that starts over in each round."""
        around = (r for r in self._around(backward) if not isinstance(r, Scope))
        rounds = [r for r in around if r in loops or isinstance(r, COMPREHENSIONS)]
        return next((r for r in rounds if self.starts_over(r, [stepped(s) for s in steps if self._is_in(s, r)])), None)

    def is_mixed(self, round_: ast.AST, stepped: Iterable[ast.expr]) -> bool:
        """Whether the steps of a round are taken by code that also steps optimizers elsewhere."""
        held = ((self._held_in(round_, n), self.program.values(n)) for n in stepped)
        return any(inside != set(filter(self.roles.is_optimizer, values)) for inside, values in held)

    def is_beside(self, round_: ast.AST, steps: Iterable[ast.Call]) -> bool:
        """Whether rounds that start over are run beside the training of something that lasts longer."""
        others = (s for s in steps if self._is_run(s))
        return any(not self.begins(round_, [stepped(s)]) or self.is_mixed(round_, [stepped(s)]) for s in others)

    def _is_in(self, node: ast.AST, round_: Round) -> bool:
        is_loop = not isinstance(round_, (Scope, *COMPREHENSIONS))
        return round_ in (self.stack(node) if is_loop else self._around(node))

    def _is_given_own(self, call: ast.Call, round_: Round, *, through: bool = False) -> bool:
        """Whether all that an optimizer is given to train, as far as that is known, is made in each round.

        through: whether only what comes to the optimizer through the rounds counts, where there is more.
        """
        makers = self._makers(self._given(call))
        if all(made and all(self._is_in(c, round_) for c in made) for made in makers):
            return True
        given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "params")]
        return bool(given) and all(self._is_of_own_network(g, round_, through=through) for g in given)

    def _held_in(self, round_: ast.AST, node: ast.expr) -> set[Value]:
        """The optimizers that an expression may hold in the rounds of a loop round it."""
        found = {v for v in self.program.values(node) if self.roles.is_optimizer(v)}
        chains = self.tracer.chains(node) if len(found) > 1 else []
        inside = {v for c in self._through(round_, node, chains) for v in self.program.values(c[-1].value)}
        return found - ({v for c in chains for v in self.program.values(c[-1].value)} - inside)

    def _through(self, round_: Round, node: ast.expr, chains: list[Chain]) -> list[Chain]:
        """The ways back from an expression that come through a loop round it."""
        return [c for c in chains if self._is_in((node, *self.tracer.calls(c, node))[-1], round_)]

    def _puts_back(self, round_: ast.AST, stepped: Sequence[ast.expr]) -> bool:
        calls = [c for c in self._putting_back if self.stack(c)[:1] == [round_] and self._is_sure(c, round_)]
        if not calls:
            return False
        makers = self._makers({v for node in stepped for v in self._held_in(round_, node)})
        networks = [n for made in makers for call in made for n in self._networks_given(call)]
        if not stepped:
            run = (call.func for call in self.program.calls if round_ in self.stack(call))
            networks = [f for f in run if any(map(self.roles.is_model, self.program.values(f)))]
        given = [{chain[-1].node for chain in self.tracer.chains(n)} for n in networks]
        back = {chain[-1].node for c in calls for n in self._putting_back[c] for chain in self.tracer.chains(n)}
        return bool(given) and all(ends & back for ends in given)

    def _rounds_of_copies(self, rounds: Sequence[ast.AST], steps: Sequence[ast.Call]) -> Sequence[ast.AST]:
        """The rounds that begin with another network's weights, and those round them.

        `fast.load_state_dict(net.state_dict())`, before `fast` learns one task
        """
        for place, round_ in enumerate(rounds if steps else ()):
            copied = [c for c in self._putting_back if self.stack(c)[:1] == [round_] and _takes_state(c)]
            is_first = any(self._comes_before(c, s) for c in copied for s in steps)
            if is_first and self._puts_back(round_, [stepped(s) for s in steps]):
                return [] if any(map(self._goes_into_weights, copied)) else rounds[place:]
        return []

    def _goes_into_weights(self, copied: ast.Call) -> bool:
        """Whether what a copy learns is put into the weights of a network, by hand: `p.add_(diff[name])`."""
        held = {v for node in self._putting_back[copied] for v in self.program.values(node)}
        run = self.program.run_from(map(self.program.frame, (copied, *self.stack(copied))))
        given = [v for _, values in written_by_hand(self.program, run) for v in values]
        direct = {w for g in given for n in ast.walk(g) for w in self.program.values(n) if isinstance(w, Parameters)}
        asked = [c.func for c in self.origins.calls(given) if isinstance(c.func, ast.Attribute)]
        owners = [f.value for f in asked if methods.gives_state(f.attr) or methods.gives_parameters(f.attr)]
        found = {v.owner for v in direct}.union(*map(self.program.values, owners))
        return not held.isdisjoint(found)

    def _comes_before(self, call: ast.Call, other: ast.Call) -> bool:
        is_near = self.program.frame(call) is self.program.frame(other)
        return is_near and self.program.control_flow(call).dominates(call, other)

    def _networks_given(self, call: ast.Call) -> Iterator[ast.expr]:
        """`net` of `SGD(net.parameters())` and of `SGD([{"params": net.parameters()}])`."""
        asked = (n.func for a in _arguments(call) for n in ast.walk(a) if isinstance(n, ast.Call))
        return (f.value for f in asked if isinstance(f, ast.Attribute) and methods.gives_parameters(f.attr))

    def _is_sure(self, call: ast.Call, loop: ast.AST) -> bool:
        """Whether each round of a loop makes a call: no condition inside the loop decides about it."""
        return not any(self.program.inside(b, loop) for b, _ in self.program.branches_round(call))

    @cached_property
    def _putting_back(self) -> dict[ast.Call, list[ast.expr]]:
        """The calls that give networks other weights: `net.load_state_dict(w)`, `net.apply(init)`, `init(net)`."""
        found = {}
        for call in self.program.calls:
            owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
            if method_of_call(call) == "load_state_dict":
                found[call] = owner
            elif isinstance(self.program.parent(call), ast.Expr):
                given = [n for n in (*owner, *call.args) if any(map(self.roles.is_model, self.program.values(n)))]
                if given and draws_weights(self.program, call):
                    found[call] = given
        return found

    def makes_data(self, loop: ast.AST, loader: Value) -> bool:
        """Whether each round of a loop makes a loader, and makes or draws the data set that it is given."""
        made = [call for calls in self._makers([loader]) for call in calls]
        given = [next((k.value for k in c.keywords if k.arg == "dataset"), c.args[0] if c.args else c) for c in made]
        is_made = bool(made) and all(loop in self.stack(c) for c in made)
        return is_made and all(self._is_made_anew(g, loop) or self._is_drawn_anew(g, loop) for g in given)

    def _is_made_anew(self, data: ast.expr, loop: ast.AST) -> bool:
        calls = self._makers(self.program.values(data))
        return bool(calls) and all(each and all(loop in self.stack(c) for c in each) for each in calls)

    def _is_drawn_anew(self, data: ast.expr, loop: ast.AST) -> bool:
        """Whether each round draws which rows a tensor, or a list, has: `rows[torch.randperm(len(rows))[:8]]`."""
        behind = self.origins.along_results([data], lambda node: True)
        drawn = (n for n in behind if isinstance(n, ast.Call) and draws(self.program, n))
        return any(loop in self.stack(call) for call in drawn)

    def nested(
        self,
        loops: Mapping[ast.Call, Sequence[ast.AST]],
        steps: Sequence[ast.Call],
        sharded_by: Callable[[ast.Call], ast.AST | None],
        draw: Callable[[ast.Call], bool],
    ) -> Iterator[Nested]:
        """The backward passes that train for one batch or one call alone.

        sharded_by: the loop that shards a pass's data. draw: whether its steps draw their data at random.
        """
        around = {step: self.stack(step) for step in steps}
        own_steps = {backward: self._steps_of(backward, loops, steps) for backward in loops}
        for backward, outer in loops.items():
            own = own_steps[backward]
            source = sharded_by(backward)
            # A loop over data inside a round trains as others do, only several times.
            rounds = outer[: outer.index(source) + 1] if source in outer else outer
            copied = self._rounds_of_copies(rounds, own)
            beside = [s for s in steps if s not in own and any(r in around[s] for r in copied)]
            copied = copied if any(not self.begins(r, [stepped(s)]) for s in beside for r in copied) else []
            brief = {r: [s for s in own if r in copied or self._is_for_one_round(s, r)] for r in rounds}
            rounds = [r for r in rounds if brief[r]]
            lasting = {s for r in rounds for s in steps if r in around[s] and not self.begins(r, [stepped(s)])}
            lasting -= set(own) if copied else set()
            if lasting or source in rounds:
                is_mixed = any(set(own) - set(brief[r]) for r in rounds)
                elsewhere = ((b, [s for s in listed if s not in own]) for b, listed in own_steps.items())
                is_within = bool(lasting) or any(self._lasts(listed, sharded_by(b)) for b, listed in elsewhere)
                yield Nested(backward, own, is_within and not is_mixed, is_mixed)
            elif (function := self._trains_for_a_call(backward, own)) is not None:
                others = {
                    s for b, listed in own_steps.items() if not self._trains_for_a_call(b, listed) for s in listed
                }
                is_within = any(self._is_run(s) and function not in self._around(s) for s in others)
                if is_within or (draw(backward) and self.program.calls_of(function)):
                    yield Nested(backward, own, is_within, False)

    def _lasts(self, steps: Iterable[ast.Call], source: ast.AST | None) -> bool:
        """Whether steps, in a loop over data, are of an optimizer that no round of it makes anew."""
        return source is not None and any(self._is_run(s) and not self.begins(source, [stepped(s)]) for s in steps)

    def _trains_for_a_call(self, backward: ast.Call, steps: Sequence[ast.Call]) -> Scope | None:
        """A function each call of which makes all that a pass trains, for the data that it is given.

        No script calls it that is known, or again and again with data drawn anew.
        """
        frames = [r for r in self._around(backward) if isinstance(r, Scope)]
        for frame in frames if steps else ():
            calls = self.program.calls_of(frame)
            if all(self._is_for_one_round(s, frame) for s in steps) and (not calls or self._draws_anew(calls)):
                learned = self.origins.of(self.origins.learned(frame, backward))
                if any(isinstance(o, ast.arg) and self.program.frame(o) is frame for o in learned):
                    return frame
        return None

    def _draws_anew(self, calls: Iterable[ast.Call]) -> bool:
        """Whether calls that are made again and again get data drawn for each of them."""
        for call in calls:
            rounds = self._around(call)
            given = self.origins.of(_arguments(call))
            drawn = [o for o in given if isinstance(o, ast.Call)]
            if any(not isinstance(r, Scope) and r in self._around(d) for d in drawn for r in rounds):
                return True
        return False

    def _is_run(self, node: ast.AST) -> bool:
        """Whether a script of the program runs some code."""
        frame = self.program.frame(node)
        return frame.kind == "module" or bool(self.program.calls_of(frame))

    def _around(self, node: ast.AST) -> list[ast.AST | Scope]:
        """The loops, comprehensions and functions that hold a node, also through callers, from the inside out."""
        found: dict[ast.AST | Scope, None] = {}
        queue = [node]
        while queue:
            node = queue.pop(0)
            frame = self.program.frame(node)
            found |= dict.fromkeys(self.program.loops_round(node))
            found |= dict.fromkeys(a for a in self.program.ancestors(node) if isinstance(a, COMPREHENSIONS))
            if frame.is_function and frame not in found:
                found[frame] = None
                queue += [*self.program.calls_of(frame), *([frame.node] if self._is_inner(frame) else ())]
        return list(found)

    @staticmethod
    def _is_inner(function: Scope) -> bool:
        return function.parent is not None and function.parent.frame.is_function

    def _steps_of(
        self, backward: ast.Call, backwards: Iterable[ast.AST], steps: Sequence[ast.Call]
    ) -> tuple[ast.Call, ...]:
        """The steps that a backward pass may lead to, without another pass in between."""
        frame = self.program.frame(backward)
        closed = [s for s in steps for a in s.args if FunctionValue(frame, None) in self.program.values(a)]
        flow = self.program.control_flow(backward)
        others = [b for b in backwards if b is not backward and self.program.frame(b) is frame]
        return tuple(closed) or tuple(
            s for s in steps if self.program.frame(s) is frame and flow.reaches(backward, s, without=others)
        )

    def _is_for_one_round(self, step: ast.Call, round_: Round) -> bool:
        """Whether a step's optimizer and all that it trains are made in each round of a loop, or by each call."""
        makers = self._makers(v for v in self.program.values(stepped(step)) if self.roles.is_optimizer(v))
        return bool(makers) and all(
            made and all(self._is_made_by(c, round_) and self._trains_own(c, round_) for c in made) for made in makers
        )

    def _is_made_by(self, node: ast.AST, round_: Round) -> bool:
        """Whether code runs in a loop; or in a function, and no attribute keeps what it makes."""
        if not isinstance(round_, Scope):
            return self._is_in(node, round_)
        targets = assigned_targets(self.program.statement(node))
        return self._is_in(node, round_) and not any(isinstance(t, ast.Attribute) for t in targets)

    def _trains_own(self, call: ast.Call, round_: Round) -> bool:
        """Whether an optimizer gets nothing to train but what each round makes: networks, or `[tensors]`."""
        given = next((k.value for k in call.keywords if k.arg == "params"), call.args[0] if call.args else None)
        owners = self.roles.parameter_owners(self.program.values(given)) if given is not None else set()
        if makers := self._makers(owners):
            is_all = all(made and all(self._is_made_by(c, round_) for c in made) for made in makers)
            return is_all or (given is not None and self._is_of_own_network(given, round_))
        listed = list(_listed(given)) if isinstance(given, (ast.List, ast.Tuple)) else []
        return bool(listed) and all(self._is_own_tensor(each, round_) for each in listed)

    def _is_of_own_network(self, given: ast.expr, round_: Round, *, through: bool = False) -> bool:
        """Whether `net.parameters()` are those of a network that each round makes, as others of its class are not."""
        asked = given.func if isinstance(given, ast.Call) else None
        if not isinstance(asked, ast.Attribute) or not methods.gives_parameters(asked.attr):
            return False
        chains = self.tracer.chains(asked.value)
        chains = (through and self._through(round_, asked.value, chains)) or chains
        ends = [chain[-1] for chain in chains]
        return bool(ends) and all(self._is_made_in(e, round_) and self._constructs(e.value) for e in ends)

    def _constructs(self, node: ast.expr | None) -> bool:
        is_class = isinstance(node, ast.Call) and any(isinstance(v, ClassValue) for v in self.program.values(node.func))
        return is_class or any(isinstance(v, Made) and v.node is node for v in self.program.values(node))

    def _is_own_tensor(self, node: ast.expr, round_: Round) -> bool:
        """Whether each round makes a tensor, or takes it from a batch."""
        values = self.program.values(node)
        if values and all(isinstance(v, Element) for v in values):
            return True
        ends = [chain[-1] for chain in self.tracer.chains(node)]
        return bool(ends) and all(self._is_made_in(end, round_) for end in ends)

    def _is_made_in(self, binding: Binding, round_: Round) -> bool:
        return binding.kind in ("assign", "inline") and self._is_made_by(binding.node, round_)

    def _makers(self, values: Iterable[Value]) -> list[list[ast.Call]]:
        """For each of some values that the script may hold, the calls that make it; none if it comes from elsewhere."""
        makers = [self._made_by(value) for value in values]
        found = [run for calls, run in makers if run or not calls]
        # Where no options that are known lead to any of them, they are asked about all the same.
        return found or [calls for calls, _ in makers]

    def _made_by(self, value: Value) -> tuple[list[ast.Call], list[ast.Call]]:
        """The calls that make a value, and those of them that some options run."""
        if value not in self._made:
            calls, conditions = list(self._calls_making(value)), self.program.once(Conditions)
            self._made[value] = calls, [call for call in calls if conditions.worlds(call)]
        return self._made[value]

    def _calls_making(self, value: Value) -> Iterator[ast.Call]:
        while isinstance(value, Member):
            value = value.owner  # the part of a network is made with it
        if isinstance(value, Made) and isinstance(value.node, ast.Call):
            yield value.node
        elif isinstance(value, Instance):
            for call in self.program.calls:
                callees = self.program.flow.callees.get(call, ())
                is_method = isinstance(call.func, ast.Attribute) and any(f.parent is not value.cls for f in callees)
                if value in self.program.values(call) and not is_method:
                    yield call

    def _given(self, call: ast.Call) -> set[Value]:
        """The parameters that an optimizer is given to train."""
        return set().union(*(self.roles.parameter_owners(self.program.values(g)) for g in _arguments(call)))


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(k.value for k in call.keywords)]


def _listed(given: ast.expr) -> Iterator[ast.expr]:
    """The tensors that an optimizer is given one by one: `[x, y]`, `[{"params": x}, {"params": [y]}]`."""
    if isinstance(given, (ast.List, ast.Tuple)):
        yield from (tensor for each in given.elts for tensor in _listed(each))
    elif isinstance(given, ast.Dict):
        groups = zip(given.keys, given.values, strict=True)
        trained = (v for k, v in groups if isinstance(k, ast.Constant) and k.value == "params")
        yield from (tensor for each in trained for tensor in _listed(each))
    else:
        yield given


def _takes_state(call: ast.Call) -> bool:
    """Whether a call is given the weights that a network has: `net.state_dict()`, or a copy of them."""
    asked = (n.func for a in call.args for n in ast.walk(a) if isinstance(n, ast.Call))
    return any(isinstance(f, ast.Attribute) and methods.gives_state(f.attr) for f in asked)
