"""Which code do processes and threads beside the script run, and what do they draw, seeded alike for every rank?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import DRAWS, SEEDS, Effect
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Constant, FunctionValue, Instance, Made
from accelify.codemod.training.randomness.draws import asks_environment, function_draws

_COMMON = DRAWS - {Effect.DRAWS_GIVEN, Effect.DRAWS_SYSTEM}  # drawn from the random states that all code shares
_NUM_WORKERS = 5  # the place of `num_workers` among the arguments of a loader
_ITEMS = ("__getitem__", "__getitems__", "__iter__")


@dataclass(frozen=True, slots=True)
class Worker:
    """A function that one call starts beside the script. given: its arguments, by the names of the parameters."""

    call: ast.Call
    function: Scope
    given: Mapping[str, ast.expr]


@dataclass(frozen=True, slots=True)
class Seed:
    """The seed of a worker, where it has one. is_drawn: at random, so that no two workers have the same."""

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
                for function in self.started(call):
                    if function_draws(self.program, function) and self._hands_over(function):
                        yield Worker(call, function, dict(self._given(call, function)))

    def started(self, call: ast.Call) -> list[Scope]:
        """The functions that a call starts beside the script."""
        target = next((k.value for k in call.keywords if k.arg == "target"), None)
        return [v.scope for v in self.program.values(target) if isinstance(v, FunctionValue)]

    def threads(self) -> Iterator[ast.Call]:
        """Where threads begin that draw, for what they hand over, from the random numbers of the script, unseeded."""
        effects = self.program.once(Effects)
        for call, function in self._begun():
            drawn = effects.of_function(function).effects
            if drawn & _COMMON and not drawn & (SEEDS - {Effect.SEEDS_GIVEN}) and self._hands_over(function):
                yield call

    def _begun(self) -> Iterator[tuple[ast.Call, Scope]]:
        """The calls that begin threads, `thread.start()`, each with the function that runs in it."""
        kinds, flow = self.program.once(Effects).kinds, self.program.flow
        for call in (c for c in self.program.calls if isinstance(c.func, ast.Attribute)):
            if not any(row.has(Effect.STARTS) for row in kinds.called(call) or ()):
                continue
            for value in self.program.values(call.func.value) if isinstance(call.func, ast.Attribute) else ():
                if isinstance(value, Made) and isinstance(value.node, ast.Call) and kinds.of(value.node) == {"thread"}:
                    yield from ((call, function) for function in self.started(value.node))
                bases = flow.external_bases(value.cls) if isinstance(value, Instance) else ()
                run = flow.method(value.cls, "run") if isinstance(value, Instance) else None
                if run is not None and any(table.kind_made_by(base) == "thread" for base in bases):
                    yield call, run

    def seeds(self) -> Iterator[Seed]:
        """The seeds of the random numbers of such workers."""
        for worker in self.drawing():
            for scope in self.program.run_from([worker.function]):
                for call in self.program.calls_in(scope):
                    called = self.program.called(call)
                    if call.args and any(names.is_seed(n) or names.makes_generator(n) for n in called):
                        read = [worker.given[n] for n in self._asked(worker, call.args[0]) if n in worker.given]
                        yield from (Seed(node, self._is_drawn(node)) for node in read)

    def _asked(self, worker: Worker, seed: ast.expr) -> set[str]:
        """The parameters of a worker that a seed is worked out from, also in an object that it makes."""
        read = (n for n in ast.walk(seed) if isinstance(n, (ast.Name, ast.Attribute)))
        ends = [chain[-1] for n in read for chain in self.program.once(Tracer).chains(n)]
        return {end.text for end in ends if end.kind == "parameter" and end.scope is worker.function}

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
        return any(isinstance(c.func, ast.Attribute) and methods.hands_over(c.func.attr) for c in calls)

    def _is_drawn(self, seed: ast.expr) -> bool:
        value = self.program.once(Tracer).only_value(seed) if isinstance(seed, ast.Name) else None
        return self.program.once(Effects).of(value or seed).draws


def asks_environments(program: Program) -> bool:
    """Whether processes beside the script ask environments, for what it then gets from them: `remote.recv()`."""
    workers = Workers(program)
    targets = (c for c in program.calls if any(map(names.runs_beside, program.called(c))))
    started = [f for call in targets for f in workers.started(call)]
    scopes = (s for built in program.flow.bindings.values() for s in built.root.walk())
    started += [s for s in scopes if s.name == "run" and _is_called_beside(program, s)]
    return any(asks_environment(program, c) for s in program.run_from(started) for c in program.calls_in(s))


def run_beside(program: Program, trains: Collection[Scope]) -> frozenset[Scope]:
    """The functions that worker processes may run: their own, data sets', what pools and environments are given.

    That is what is handed on to code that we do not see, if no other call of it is known. None that trains: the
    launcher starts its processes.
    """
    scopes = [s for built in program.flow.bindings.values() for s in built.root.walk()]
    given = (s for s in scopes if s.kind == "lambda" or s in program.flow.lost)
    given = (s for s in given if not program.flow.callers.get(s))
    run = (program.run_from(_runs(program, f)) for f in given)
    found = {f for functions in run if functions.isdisjoint(trains) for f in functions}
    return frozenset(found | program.run_from(s for s in scopes if _is_called_beside(program, s)))


def _runs(program: Program, function: Scope) -> list[Scope]:
    """A function, or a lambda and all that it calls."""
    calls = [n for n in ast.walk(function.node) if isinstance(n, ast.Call)] if function.kind == "lambda" else []
    return [function, *(f for call in calls for f in program.flow.callees.get(call, ()))]


def _is_called_beside(program: Program, function: Scope) -> bool:
    """Whether a function is a method that a loader's workers call of a data set, or the `run` of a process."""
    if not function.is_method or function.parent is None:
        return False
    if function.name == "run":
        return any(map(names.runs_beside, program.flow.external_bases(function.parent)))
    return function.name in _ITEMS and is_of_data(program, function) and program.once(has_workers)


def is_worker_code(program: Program, node: ast.AST) -> bool:
    """Whether code is a data set's, and runs in the loader's worker processes."""
    return is_of_data(program, program.frame(node)) and program.once(has_workers)


def is_of_data(program: Program, frame: Scope) -> bool:
    """Whether a function is one of a data set's."""
    while frame.parent is not None:
        if frame.kind == "class" and program.flow.is_dataset_class(frame):
            return True
        frame = frame.parent
    return False


def has_workers(program: Program) -> bool:
    """Whether loaders may have workers, as they have if any are asked for, or where no loader is to be seen."""
    loaders = [c for c in program.calls if any(map(names.is_loader, program.called(c)))]
    given = [k.value for c in program.calls for k in c.keywords if k.arg == "num_workers"]
    given += [c.args[_NUM_WORKERS] for c in loaders if len(c.args) > _NUM_WORKERS]
    is_open = any(k.arg is None for c in loaders for k in c.keywords)
    return is_open or not loaders or not all(program.values(n) == {Constant(0)} for n in given)
