"""What draws random numbers, or asks a simulation, and so gives each process something else?

Which calls in a training loop only evaluate, so that what they draw trains nothing? Which processes and threads draw
beside it, seeded alike for every rank? And which loops ask, batch by batch, for one pass over all data, in an order
that was drawn before? Drawn anew in each step, data may be each process's own. One pass is not: every process would go
over all of it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelify.codemod.libraries import methods, names, table, vocabulary
from accelify.codemod.libraries.row import DRAWS, Effect, Role, Row, Rows
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.kinds import UNKNOWN, Kinds
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, names_in, names_read_in
from accelify.codemod.semantics.values import FunctionValue, Generated, Instance, Made, Value
from accelify.codemod.training.roles import Roles


def draws(program: Program, call: ast.Call) -> bool:
    """Whether a call of a library draws random numbers, samples, or asks an environment for the next observation."""
    if program.flow.callees.get(call):
        return asks_environment(program, call)
    kinds, function = program.once(Effects).kinds, call.func
    rows = kinds.called(call) or (table.members(function.attr) if isinstance(function, ast.Attribute) else ())
    owner = function.value if isinstance(function, ast.Attribute) else function
    is_one_of_many = not kinds.name_of(function) and UNKNOWN in kinds.of(owner)
    drawn = [_draws(row) for row in rows] if not _is_of_fixed_parts(program, owner) else []
    return ((all(drawn) if is_one_of_many else any(drawn)) and bool(rows)) or asks_environment(program, call)


def _is_of_fixed_parts(program: Program, node: ast.expr) -> bool:
    """Whether what is called only runs parts that draw nothing: `Compose([Resize(8), ToTensor()])`."""
    made = [v.node for v in program.values(node) if isinstance(v, Made) and isinstance(v.node, ast.Call)]
    parts = [c.args[0].elts if c.args and isinstance(c.args[0], (ast.List, ast.Tuple)) else [] for c in made]
    if not all(parts) or not made or len(made) < len(program.values(node)):
        return False
    kinds = program.once(Effects).kinds
    rows = [row for elements in parts for part in elements for row in kinds.rows(part, "__call__") or (None,)]
    return all(row is not None and row.is_pure for row in rows)


def _draws(row: Row) -> bool:
    is_model = row.role in (Role.MODEL, Role.LOSS)  # whose weights are drawn
    return bool(row.effects & (DRAWS - {Effect.DRAWS_IN_TRAINING})) and not is_model


def asks_environment(program: Program, call: ast.Call) -> bool:
    """Whether a call asks an environment for the next observation."""
    row = table.member("environment", call.func.attr) if isinstance(call.func, ast.Attribute) else None
    if not isinstance(call.func, ast.Attribute) or row is None or Effect.SIMULATES not in row.effects:
        return False
    kinds = program.once(Effects).kinds.of(call.func.value)
    is_known = any(table.is_kind(kind, "environment") for kind in kinds)
    return is_known or vocabulary.is_environment_name(ast.unparse(call.func.value))


def function_draws(program: Program, function: Scope) -> bool:
    """Whether a function, or one that it calls, draws random numbers."""
    return any(draws(program, call) for f in program.run_from([function]) for call in program.calls_in(f))


class Passes:
    """Find them; `stack` gives the loops round a place, from the inside out, `owners` what an iterator goes over."""

    def __init__(
        self,
        program: Program,
        stack: Callable[[ast.AST], Sequence[ast.AST]],
        owners: Callable[[ast.expr], Collection[Value]],
    ) -> None:
        self.program = program
        self.stack = stack
        self.owners = owners

    def asked(self, loops: Sequence[ast.AST]) -> ast.expr | None:
        """What the innermost of some loops takes the batches of one pass from; None where it takes them otherwise."""
        for source, generator in self.generators(loops):
            if not any(map(self._is_endless, ast.walk(generator.node))) and self._goes_over_an_order(generator):
                return source
        return self._sliced(loops)

    def generators(self, loops: Sequence[ast.AST]) -> Iterator[tuple[ast.expr, Scope]]:
        """The generators of the project's own that some loops ask by `next`, each with the name it has there."""
        for call in filter(self.program.iterator, self.program.calls):
            source = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else call
            made = [o for o in self.owners(source) if isinstance(o, Generated)]
            if made and any(loop in loops for loop in self.stack(call)):
                yield from ((source, o.scope) for o in made)

    def _goes_over_an_order(self, generator: Scope) -> bool:
        """Whether what a generator yields goes by an order that it draws before its loops, or round them."""
        loops = [n for n in ast.walk(generator.node) if isinstance(n, LOOPS) and _yields(n)]
        calls = [c for c in self.program.calls_in(generator) if self._shuffles(c)]
        return any(self._goes_by(loop, call) for loop in loops for call in calls if not self.program.inside(call, loop))

    def _sliced(self, loops: Sequence[ast.AST]) -> ast.expr | None:
        """What a `while` loop takes slices of, in an order that is drawn in each round of a loop round it."""
        inner = loops[0] if loops else None
        if not isinstance(inner, ast.While):
            return None
        frame = self.program.frame(inner)
        for call in self.program.calls_in(frame):
            around = self.program.loops_round(call)
            if inner not in around and any(loop in loops for loop in around) and self._shuffles(call):
                read = self._goes_by(inner, call)
                if read is not None:
                    return read
        return None

    def _goes_by(self, loop: ast.AST, call: ast.Call) -> ast.expr | None:
        """Where a loop reads the order that a call draws, other than to draw from it."""
        assert isinstance(loop, LOOPS)
        ordered = self._ordered(call, loop)
        for node in ast.walk(loop):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in ordered:
                parents = list(self.program.ancestors(node))
                is_asked = isinstance(parents[0], (ast.Subscript, *LOOPS))
                if is_asked and not any(isinstance(a, ast.Call) and draws(self.program, a) for a in parents):
                    return node
        return None

    def _ordered(self, call: ast.Call, loop: ast.AST) -> set[str]:
        """The names of what a call shuffles or gives, and of what is made of it before a loop."""
        found = {a.id for a in call.args if isinstance(a, ast.Name)}
        statement = self.program.statement(call)
        if isinstance(statement, ast.Assign):
            found = {n for t in statement.targets for n in names_in(t)}
        frame = self.program.frame(loop)
        for node in ast.walk(frame.node):
            if isinstance(node, ast.Assign) and names_in(node.value) & found and not self.program.inside(node, loop):
                found |= {n for t in node.targets for n in names_in(t)}
        return found

    def _shuffles(self, call: ast.Call) -> bool:
        """Whether a call draws an order of what it is given, itself or in a function of the project's own."""
        kinds = self.program.once(Effects).kinds
        if any(row.rows is Rows.SHUFFLES for row in kinds.called(call) or ()):
            return True
        run = self.program.run_from(self.program.flow.callees.get(call, ()))
        return any(
            row.rows is Rows.SHUFFLES for f in run for c in self.program.calls_in(f) for row in kinds.called(c) or ()
        )

    @staticmethod
    def _is_endless(node: ast.AST) -> bool:
        """`while True:` round what is yielded."""
        is_endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        return is_endless and _yields(node) and not any(isinstance(n, ast.Break) for n in ast.walk(node))


def _yields(node: ast.AST) -> bool:
    return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(node))


class Evaluations:
    """Tell calls that only evaluate by what they run, and by where their results are read; frames: what trains."""

    def __init__(self, program: Program, roles: Roles, frames: Collection[Scope]) -> None:
        self.program = program
        self.roles = roles
        self.frames = set(frames)

    def hold(self, node: ast.AST, seen: frozenset[Scope] = frozenset()) -> bool:
        """Whether code is only run by such calls."""
        frame = self.program.frame(node)
        calls = self.program.calls_of(frame) if frame.is_function and frame not in seen else []
        return bool(calls) and all(self._evaluates(c) or self.hold(c, seen | {frame}) for c in calls)

    def _evaluates(self, call: ast.Call) -> bool:
        run = self.program.run_from(self.program.flow.callees.get(call, ()))
        if run & self.frames or not any(map(self._runs_a_model, run)):
            return False
        changed = self.program.once(Chains).changed_by(call)
        return all(map(self._is_model, changed)) and not self._is_learned_from(call)

    def _runs_a_model(self, scope: Scope) -> bool:
        functions = (c.func for c in self.program.calls_in(scope))
        return any(self._is_model(f) or self._is_model(getattr(f, "value", f)) for f in functions)

    def _is_model(self, node: ast.expr) -> bool:
        return any(map(self.roles.is_model, self.program.values(node)))

    def _is_learned_from(self, call: ast.Call) -> bool:
        """Whether what a call gives may get to a step, by the variables of its function; what leaves that may."""
        statement = self.program.statement(call)
        names: set[str] = set()
        while True:
            reading = [statement, *(s for s in self._statements(statement) if names_read_in(s) & names)]
            if any(isinstance(s, (ast.Return, ast.Yield)) or self._trains(s) for s in reading):
                return True
            targets = [t for s in reading for t in _targets(s)]
            given = {n for t in targets for n in names_in(t)}
            if any(not isinstance(n, (ast.Name, ast.Tuple, ast.List)) for n in targets):
                return True
            if given <= names:
                return False
            names |= given

    def _statements(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """The statements of the same function that hold no others."""
        for node in ast.walk(self.program.frame(statement).node):
            if isinstance(node, ast.stmt) and not hasattr(node, "body"):
                yield node

    def _trains(self, statement: ast.stmt) -> bool:
        calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
        backward = any(isinstance(c.func, ast.Attribute) and c.func.attr == "backward" for c in calls)
        return backward or any(self.program.run_from(self.program.flow.callees.get(c, ())) & self.frames for c in calls)


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, (ast.AnnAssign, ast.AugAssign)) else []


@dataclass(frozen=True, slots=True)
class Worker:
    """A function that one call starts beside the script. given: its arguments, by the names of the parameters."""

    call: ast.Call
    function: Scope
    given: Mapping[str, ast.expr]


@dataclass(frozen=True, slots=True)
class Seed:
    """What a worker is seeded with, where it is given. is_drawn: at random, so that no two workers have the same."""

    node: ast.expr
    is_drawn: bool


class Workers:
    """Find those that hand something to the script: `Process(target=sample, args=(queue, seed))`."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def drawing(self) -> Iterator[Worker]:
        """Those that draw random numbers, and put something into what they are given."""
        for call in self.program.calls:
            is_run = self.program.frame(call) in self.program.reachable
            if is_run and any(map(names.runs_beside, self.program.called(call))):
                for function in self._functions(call):
                    if function_draws(self.program, function) and self._hands_over(function):
                        yield Worker(call, function, dict(self._given(call, function)))

    def seeds(self) -> Iterator[Seed]:
        """What such workers are given that seeds their random numbers."""
        for worker in self.drawing():
            for scope in self.program.run_from([worker.function]):
                for call in self.program.calls_in(scope):
                    if call.args and any(map(names.is_seed, self.program.called(call))):
                        read = [worker.given[n] for n in names_read_in(call.args[0]) if n in worker.given]
                        yield from (Seed(node, self._is_drawn(node)) for node in read)

    def _functions(self, call: ast.Call) -> list[Scope]:
        target = next((k.value for k in call.keywords if k.arg == "target"), None)
        return [v.scope for v in self.program.values(target) if isinstance(v, FunctionValue)]

    def _given(self, call: ast.Call, function: Scope) -> Iterator[tuple[str, ast.expr]]:
        for keyword in call.keywords:
            if keyword.arg == "args" and isinstance(keyword.value, (ast.Tuple, ast.List)):
                listed = function.parameters[1:] if function.is_method else function.parameters
                yield from zip((p.arg for p in listed), keyword.value.elts, strict=False)
            elif keyword.arg == "kwargs" and isinstance(keyword.value, ast.Dict):
                keys = zip(keyword.value.keys, keyword.value.values, strict=True)
                yield from ((str(k.value), v) for k, v in keys if isinstance(k, ast.Constant))

    def _hands_over(self, function: Scope) -> bool:
        calls = (c for scope in self.program.run_from([function]) for c in self.program.calls_in(scope))
        return any(isinstance(c.func, ast.Attribute) and methods.puts_in(c.func.attr) for c in calls)

    def _is_drawn(self, seed: ast.expr) -> bool:
        value = self.program.once(Tracer).only_value(seed) if isinstance(seed, ast.Name) else None
        return self.program.once(Effects).of(value or seed).draws


def late_parameters(program: Program) -> Iterator[ast.Call]:
    """The calls that make parameters, or layers, which a forward pass puts into its model."""
    scopes = [s for parsed in program.files for s in program.flow.bindings[parsed.path].root.walk()]
    classes = [s for s in scopes if s.kind == "class" and program.flow.is_module_class(s)]
    forwards = [method for cls in classes if (method := program.flow.method(cls, "forward")) is not None]
    run = program.run_from(forwards) & program.run_from(s for s in scopes if program.may_run(s))
    for method in (s for s in scopes if s.is_method and s in run and s.name != "__init__"):
        yield from (c for c in program.calls_in(method) if _makes_weights(program, c) and _is_kept(program, method, c))


def _makes_weights(program: Program, call: ast.Call) -> bool:
    rows = program.once(Kinds).called(call) or ()
    return any(row.returns == "parameter" for row in rows) or any(map(names.is_module, program.called(call)))


def _is_kept(program: Program, method: Scope, call: ast.Call) -> bool:
    """Whether a method puts what a call makes into a model: `self.w = p`, `self.register_parameter("w", p)`."""
    for node in ast.walk(method.node):
        places: list[ast.expr] = []
        given: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            places, given = [t.value for t in node.targets if isinstance(t, ast.Attribute)], [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and methods.puts_in(node.func.attr):
            places, given = [node.func.value], node.args
        owners = [v for place in places for v in program.values(place) if isinstance(v, Instance)]
        if any(program.flow.is_module_class(owner.cls) for owner in owners):
            values = (value for each in given for value in program.values(each))
            if any(isinstance(value, Made) and value.node is call for value in values):
                return True
    return False
