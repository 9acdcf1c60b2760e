"""Where are the environments seeded that training asks? Seeded alike, they give all processes the same episodes."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from accelify.codemod.libraries import table
from accelify.codemod.libraries.row import Effect
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import COMPREHENSIONS, Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.loops.nesting import Nesting
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.randomness.draws import asks_environment, is_environment
from accelify.codemod.training.randomness.evaluating_calls import Evaluations
from accelify.codemod.training.roles import Roles


@dataclass(frozen=True, slots=True)
class EnvironmentSeed:
    """What seeds an environment. is_again: whether several are seeded here, or one several times.

    vector: the environment, if it is several in one, which it seeds with this number and those that follow.
    """

    node: ast.expr
    is_again: bool
    vector: ast.expr | None = None


class EnvironmentSeeds:
    """Find them; an environment that is asked in evaluations alone is the same in every process.

    What workers ask theirs for is not known, and so it is taken for training.
    """

    def __init__(
        self, program: Program, roles: Roles, nesting: Nesting, training: Training, beside: Collection[Scope]
    ) -> None:
        self.program = program
        self.beside = beside
        self.nesting = nesting
        self.rounds = {loop for listed in training.loops.values() for loop in listed}
        self.kinds = program.once(Effects).kinds
        self.evaluations = Evaluations(program, roles, training.frames)

    def find(self) -> Iterator[EnvironmentSeed]:
        """The seeds in the order of the text."""
        trained, others = self._asked()
        for call in sorted(self.program.calls, key=self.program.position):
            environment, seed = self._seeded(call)
            if environment is None or seed is None or self.program.frame(call) not in self.program.reachable:
                continue
            name, is_beside = _last_name(environment), self.program.frame(call) in self.beside
            if name in trained or name not in others or is_beside:
                is_vector = "vector_environment" in self.kinds.of(environment)
                yield EnvironmentSeed(seed, self._is_again(call), environment if is_vector else None)

    @property
    def are_complete(self) -> bool:
        """Whether something seeds each environment of a library that training asks: else the system seeds it."""
        seeded = set[str]()
        for call in self.program.calls if self._asked_of_libraries else ():
            environment, seed = self._seeded(call)
            is_whole = isinstance(call.func, ast.Attribute) and call.func.value is environment  # not its spaces alone
            if environment is not None and seed is not None and is_whole:
                seeded.add(_last_name(environment))
        return self._asked_of_libraries <= seeded

    @cached_property
    def _asked_of_libraries(self) -> set[str]:
        """The names of the environments that are asked to train, and are no classes of the project's own."""
        calls = (c for c in self.program.calls if isinstance(c.func, ast.Attribute) and self._trains_by(c))
        own = self.program.flow.callees
        return {_last_name(c.func.value) for c in calls if isinstance(c.func, ast.Attribute) and not own.get(c)}

    def _trains_by(self, call: ast.Call) -> bool:
        """Whether a call asks an environment in rounds of the training."""
        if not asks_environment(self.program, call):
            return False
        return bool(self.rounds & set(self.nesting.stack(call))) and not self.evaluations.hold(call)

    def _asked(self) -> tuple[set[str], set[str]]:
        """The names of the environments that are asked to train, and elsewhere."""
        trained: set[str] = set()
        others: set[str] = set()
        for call in self.program.calls:
            if isinstance(call.func, ast.Attribute) and asks_environment(self.program, call):
                (trained if self._trains_by(call) else others).add(_last_name(call.func.value))
        return trained, others

    def _seeded(self, call: ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
        """`env, 3` of `env.seed(3)`, `env.reset(seed=3)` and `env.action_space.seed(3)`."""
        if not isinstance(call.func, ast.Attribute) or self.program.flow.callees.get(call):
            return None, None
        owner, kind = call.func.value, "environment"
        held = table.member(kind, owner.attr) if isinstance(owner, ast.Attribute) else None
        if held is not None and held.returns == "space":
            owner, kind = owner.value, "space"  # type: ignore[attr-defined]  # an attribute
        row = table.member(kind, call.func.attr)
        if row is None or not (row.seeds or row.has(Effect.SIMULATES)) or not is_environment(self.program, owner):
            return None, None
        given = [k.value for k in call.keywords if k.arg == "seed"] + (call.args[:1] if row.seeds else [])
        seeds = [g for g in given if not isinstance(g, ast.Constant) or isinstance(g.value, int)]
        return owner, next(iter(seeds), None)

    def _is_again(self, call: ast.Call) -> bool:
        frame = self.program.frame(call)
        if frame in self.beside:  # one of several workers, perhaps
            return True
        is_repeated = any(isinstance(a, COMPREHENSIONS) for a in self.program.ancestors(call))
        is_made = frame.kind == "function" and frame.parent is not None and frame.parent.kind == "function"
        return bool(is_repeated or is_made or self.nesting.stack(call) or len(self.program.calls_of(frame)) > 1)


def _last_name(node: ast.expr) -> str:
    """`env` of `self.env` and of `self.env[0]`"""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else ast.unparse(node)
