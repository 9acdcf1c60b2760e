"""Which values of a script of several processes are one process's own: computed from the batches of its shard?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property

from accelify.codemod.checks.loaders import Loaders
from accelify.codemod.checks.processes import Processes
from accelify.codemod.checks.training import Trained
from accelify.codemod.libraries import table, vocabulary
from accelify.codemod.libraries.row import Role
from accelify.codemod.metrics.facts import ranks_by_hand
from accelify.codemod.metrics.ranks.labels import Mark, Origin
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.metrics.ranks.shards import Shards
from accelify.codemod.metrics.reports import Reports
from accelify.codemod.metrics.sinks import Sink
from accelify.codemod.semantics.values import Constant, Made, Member, Value
from accelify.codemod.training.roles import Roles

Loop = ast.For | ast.AsyncFor
_ALIKE = frozenset({Role.OPTIMIZER, Role.SCHEDULER, Role.SCALER, Role.LOADER, Role.SAMPLER, Role.DATASET})


class RankValues:
    """Find the sharded loops of a program, and what comes from their batches."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.program = processes.program
        self.loaders = self.program.once(Loaders)
        self.roles = self.program.once(Roles)
        self.trained = processes.once(Trained)
        self.prepares = set(self.trained.prepares)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The loops over batches of a shard: those of loaders that are prepared, or have a sampler that shards."""
        nodes = (n for parsed in self.program.files for n in parsed.nodes if isinstance(n, (ast.For, ast.AsyncFor)))
        found = {n for n in nodes if self._is_sharded(set(self.loaders.iterables.owners(n.iter)))}
        return tuple(sorted(found, key=self.program.position))

    def _is_sharded(self, values: set[Value]) -> bool:
        """Whether some values are loaders that yield a shard, and nothing else."""
        made = [v for v in values if not isinstance(v, Constant)]
        sampled, plain = self.sampled, set(self.loaders.calls_of_loaders)
        if any(map(self._is_prepared, made)):  # under the name that the loader had before
            return all(self._is_prepared(v) or (isinstance(v, Made) and v.node in plain) for v in made)
        return bool(made) and all(isinstance(v, Made) and v.node in sampled for v in made)

    def is_sharded_by_then(self, loop: Loop) -> bool:
        """Whether the loader of a loop is seen to come from a `prepare`, or to have a sampler, where it stands."""
        parts = (n for source in self.trained.sources(loop.iter) for n in ast.walk(source))
        return any(part in self.prepares or part in self.sampled for part in parts)

    @cached_property
    def sampled(self) -> set[ast.AST]:
        """The loaders whose sampler shards their data, wherever there are several processes."""
        sure = (each for each in self.loaders.sampled if self._is_always_made(each.sampler))
        return {loader for sampled in sure for loader in sampled.loaders}

    def _is_always_made(self, sampler: ast.Call) -> bool:
        """Whether a sampler is there wherever there are several processes, as far as the conditions round it say."""
        tests = self.processes.tests_before(sampler)
        parts = (p for t in tests for p in (t.values if isinstance(t, ast.BoolOp) else [t]))
        return all(vocabulary.may_ask_for_rank(ast.unparse(part)) for part in parts)

    def _is_prepared(self, value: Value) -> bool:
        owner = value.owner if isinstance(value, Member) else value
        return isinstance(owner, Made) and owner.node in self.prepares

    @cached_property
    def ranks(self) -> Ranks:
        """The rank of every value; what the script reduces itself is the same on all ranks afterwards."""
        shards = Shards(self.loops, (), self._is_sharded_loader, self.is_alike)
        return ranks_by_hand(self.processes.chains, shards)

    def _is_sharded_loader(self, node: ast.expr) -> bool:
        return self._is_sharded(set(self.program.values(node)))

    def is_alike(self, node: ast.expr) -> bool:
        """Whether an expression is what all processes have alike, whatever it is used for: a model, an optimizer."""
        held = [v for v in self.program.values(node) if not isinstance(v, Constant)]
        return (bool(held) and all(map(self._is_in_training, held))) or self.roles.adds_up_itself(node)

    def _is_in_training(self, value: Value) -> bool:
        row = table.function(value.name) if isinstance(value, Made) and value.name else None
        is_known = row is not None and row.role in _ALIKE
        return is_known or self._is_prepared(value) or self.roles.is_model(value) or self.roles.is_module(value)

    def is_of_last_batch(self, test: ast.expr) -> bool:
        """Whether a condition is about the last batch of this process, and no sum or list of its shard."""
        rank, texts = self.ranks.of(test), map(ast.unparse, self.trained.sources(test))
        is_batch = rank.is_own and bool(rank.of(Mark.BATCH)) and not rank.of(Mark.RUNNING)
        return is_batch and not any(map(vocabulary.may_be_reduced, texts)) and not _asks_for_none(test)

    def leaving(self, is_asked: Callable[[Sink], bool] = lambda sink: True) -> Iterator[tuple[Sink, Origin]]:
        """Where values of one process leave their loop, each with what makes it that process's own."""
        if self.loops:
            yield from Reports(self.ranks, lambda node: False).leaving(lambda s: self._is_outside(s) and is_asked(s))

    def _is_outside(self, sink: Sink) -> bool:
        return not any(loop in self.loops for loop in self.program.loops_round(sink.node))

    def is_computed_from(self, sink: Sink, origin: Origin) -> bool:
        """Whether a value is worked out from what an update changes; not if that only decides when it is."""
        frame, names = self.program.frame(origin.node), {last(n) for n in ast.walk(origin.node)} - {""}
        for part in (n for source in self.trained.sources(sink.value) for n in ast.walk(source)):
            callees = self.program.flow.callees.get(part, ()) if isinstance(part, ast.Call) else ()
            if last(part) in names or (callees and frame in self.program.run_from(callees)):
                return True
        return False

    # Values that the script may reduce in ways that are not followed.

    def may_be_reduced(self, sink: Sink, origin: Origin) -> bool:
        """Whether a value, or what it is worked out from, goes through something that may reduce it."""
        texts = {last(n) for root in (sink.value, origin.node) for n in ast.walk(root)} - {""}
        return not texts.isdisjoint(self._reduced)

    @cached_property
    def _reduced(self) -> set[str]:
        """The last names of all that is given to collectives, or to functions whose names speak of it."""
        found: set[str] = set()
        for call in self.program.calls:
            rows = self.processes.chains.kinds.called(call) or ()
            is_collective = any(row.role is Role.COLLECTIVE for row in rows)
            if is_collective or (not rows and vocabulary.may_be_reduced(ast.unparse(call.func))):
                parts = (n for given in call.args for source in self.trained.sources(given) for n in ast.walk(source))
                found |= {last(n) for n in ast.walk(call)} | set(map(last, parts))
                statement = self.program.statement(call)
                if isinstance(statement, ast.Assign):
                    found |= {last(n) for target in statement.targets for n in ast.walk(target)}
        return found - {""}


def _asks_for_none(test: ast.expr) -> bool:
    return any(isinstance(n, ast.Constant) and n.value is None for n in ast.walk(test))


def last(node: ast.AST) -> str:
    """The last name of a variable or an attribute; empty for anything else."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
