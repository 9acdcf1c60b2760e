"""All that is prepared: models, optimizers and loaders, grouped into `prepare` statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accelify.codemod.preparing.grouping import Group, Grouper, Item
from accelify.codemod.preparing.objects.bindings import Bindings
from accelify.codemod.preparing.objects.found import Found
from accelify.codemod.preparing.objects.loaders import Loaders
from accelify.codemod.preparing.objects.models import Models
from accelify.codemod.preparing.objects.optimizers import Optimizers
from accelify.codemod.preparing.objects.running_statistics import RunningStatistics
from accelify.codemod.preparing.reach import node_of
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.values import Made, Value
from accelify.codemod.training.loops.training import Data, Training
from accelify.codemod.training.roles import Roles


@dataclass(frozen=True, slots=True)
class Preparation:
    """All that will be prepared: by statements, by wrapping an expression, by sharding a loop's own data."""

    groups: tuple[Group, ...]
    wrapped: tuple[tuple[str, ast.expr], ...]
    sharded: tuple[tuple[Data, ast.expr], ...]
    bare_models: tuple[Item, ...]
    loaders: frozenset[Value]
    models: frozenset[Value]
    obstacles: tuple[tuple[ast.AST, str], ...]

    @property
    def trains_something(self) -> bool:
        """Whether any model or optimizer is prepared, so that gradients agree on all processes."""
        return bool(self._kinds & {"model", "optimizer"})

    @property
    def has_model(self) -> bool:
        """Whether any model is prepared."""
        return "model" in self._kinds

    @property
    def _kinds(self) -> set[str]:
        return {i.kind for i in [*self.items, *self.bare_models]} | {kind for kind, _ in self.wrapped}

    @property
    def items(self) -> list[Item]:
        return [item for group in self.groups for item in group.items]


NOTHING = Preparation((), (), (), (), frozenset(), frozenset(), ())


class Preparer:
    """Decide what to prepare for the training code of a program."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, training: Training) -> None:
        self.program = program
        self.tracer = tracer
        self.training = training
        self.found = Found({node_of(program.frame(b)) for b in training.backwards})
        bindings = Bindings(program, roles, tracer)
        self.models = Models(program, roles, tracer, training, bindings, self.found)
        self.optimizers = Optimizers(program, roles, tracer, training, bindings, self.models, self.found)
        self.statistics = RunningStatistics(program, roles, tracer, training, bindings, self.found)
        self.loaders = Loaders(program, roles, tracer, training, bindings, self.found)

    def prepare(self, shared: Sequence[Data] = ()) -> Preparation:
        """Find the objects and group them; `shared` are further loops that each process takes its shard of."""
        found = self.found
        self.optimizers.find()
        self.models.add_without_name()
        self.statistics.add_switching()
        self.statistics.add_given_anew()
        if not self.training.steps:
            self.models.add_without_optimizer()
        found.needed |= {node_of(i.frame) for i in found.items}
        for data in [*self.training.data, *shared]:
            self.loaders.add(data)
        self.loaders.add_idle()
        bare = [i for i in found.items if not i.assigned]
        grouper = Grouper(self.program, self.training, bare)
        wrapped = tuple((kind, node) for kind, node in found.wrapped if not self._is_made_prepared(node))
        return Preparation(
            groups=tuple(grouper.group([i for i in found.items if i.assigned])),
            wrapped=wrapped,
            sharded=tuple(found.sharded),
            bare_models=tuple(grouper.initialised(i) for i in bare),
            loaders=frozenset(found.loaders),
            models=frozenset(found.models),
            obstacles=(*found.obstacles, *sharded_twice(self.tracer, [s for _, s in found.sharded], found.items)),
        )

    def _is_made_prepared(self, node: ast.expr) -> bool:
        """Whether all that a call of the project's own gives is prepared where it is made."""
        made = {v.node for v in self.program.values(node) if isinstance(v, Made)} - {node}
        return bool(made) and made <= {other for _, other in self.found.wrapped}


def sharded_twice(tracer: Tracer, sources: Sequence[ast.expr], items: Sequence[Item]) -> Iterator[tuple[ast.AST, str]]:
    """The loops over what a generator makes of a loader that is prepared for another loop."""
    loaders = [item for item in items if item.kind == "loader"]
    for source in sources:
        for binding in (b for chain in tracer.chains(source) for b in chain):
            statement = binding.statement if binding.kind != "parameter" else None
            if any((i.text, i.frame, i.statement) == (binding.text, binding.scope, statement) for i in loaders):
                text = binding.text
                yield source, f"`{text}` is sharded by another loop: what is made of it would be sharded twice"
