"""Which processes and threads draw beside the script, seeded alike for every rank?"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from accelify.codemod.libraries import methods, names
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, names_read_in
from accelify.codemod.semantics.values import FunctionValue
from accelify.codemod.training.randomness.draws import function_draws


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
                for function in self._functions(call):
                    if function_draws(self.program, function) and self._hands_over(function):
                        yield Worker(call, function, dict(self._given(call, function)))

    def seeds(self) -> Iterator[Seed]:
        """The seeds of the random numbers of such workers."""
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
