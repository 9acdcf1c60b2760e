"""Where do models run, and what are they given: batches, or a state that the batch before has left?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Kind
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Constant, Value
from accelify.codemod.training.loops.bodies import Loop, nodes_in
from accelify.codemod.training.randomness.evaluating_calls import Evaluations
from accelify.codemod.training.roles import Roles


class ModelRuns:
    """Find the calls of models in loops and functions."""

    def __init__(self, program: Program, roles: Roles) -> None:
        self.program = program
        self.roles = roles

    def is_one(self, call: ast.Call) -> bool:
        return any(map(self.roles.is_model, self.program.values(call.func)))

    def are_in(self, loop: Loop) -> bool:
        """Whether a model is called in a loop."""
        return any(isinstance(n, ast.Call) and self.is_one(n) for n in nodes_in(loop))

    def are_run_by(self, call: ast.Call) -> bool:
        """Whether a call runs a model, itself or in the functions that it calls."""
        inner = self.program.run_from(self.program.flow.callees.get(call, ()))
        return any(self.is_one(c) for c in (call, *(c for f in inner for c in self.program.calls_in(f))))

    def state(self, loop: Loop, evaluations: Evaluations) -> ast.Name | None:
        """What a model is called with in a round, and its last call gave: `out, hidden = model(x, hidden)`.

        The best score so far is none, though an evaluation is given it and gives it back: no step learns from it.
        """
        for call in self.program.calls:
            if next(iter(self.program.loops_round(call)), None) is not loop or not self.are_run_by(call):
                continue
            arguments = [*call.args, *(k.value for k in call.keywords)]
            given = [n for a in arguments for n in ast.walk(a) if isinstance(n, ast.Name)]
            kept = [n for n in given if not self._learns(n) and self._comes_from(call, n, loop)]
            if kept and evaluations.is_learned_from(call):
                return kept[0]
        return None

    def _learns(self, read: ast.Name) -> bool:
        """Whether a variable holds a model or an optimizer, which every step changes and no batch hands on."""
        held = [v for v in self.program.values(read) if v != Constant(None)]
        return bool(held) and all(self.roles.is_model(v) or self.roles.is_optimizer(v) for v in held)

    def _comes_from(self, call: ast.Call, read: ast.Name, loop: Loop) -> bool:
        """Whether a variable may hold a result of a call, or what is made of it, of an earlier round of a loop."""
        chains, made_by = self.program.once(Chains), self.program.statement(call)
        queue, seen = [read], set[ast.AST]()
        while queue:
            for definition in chains.definitions(queue.pop()):
                statement = self.program.statement(definition.node)
                if statement is made_by and definition.kind is Kind.ASSIGNMENT:
                    return True
                if statement is made_by:
                    break
                value = getattr(statement, "value", None)
                if statement in seen or not isinstance(value, ast.expr) or not self.program.inside(statement, loop):
                    continue
                seen.add(statement)
                queue += [n for n in ast.walk(value) if isinstance(n, ast.Name)]
        return False

    def shown(self, frame: Scope) -> Iterator[Value]:
        """What a function may give to models."""
        yield from (v for read in self.reads(frame) if isinstance(read, ast.Name) for v in self.program.values(read))

    def reads(self, frame: Scope) -> Iterator[ast.Name | ast.Attribute]:
        """The variables and attributes that a function reads for the arguments of models."""
        for call in filter(self.is_one, self.program.calls_in(frame)):
            for argument in (*call.args, *(k.value for k in call.keywords)):
                yield from (n for n in ast.walk(argument) if isinstance(n, (ast.Name, ast.Attribute)))
