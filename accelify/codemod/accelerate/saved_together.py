"""How can all processes come to a call that the main process alone comes to?

    if accelerator.is_main_process:              if step % 100 == 0:
        if step % 100 == 0:                          if accelerator.is_main_process:
            os.makedirs(folder)           ->             os.makedirs(folder)
            accelerator.save_state(folder)           accelerator.save_state(folder)

The condition on the process goes from round the call to the statements beside it, so that these stay the main
process's, but for the assignments that the call needs. What decides whether and how the call is made must be the same
on all processes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from accelify.codemod.accelerate.uses import AccelerateUses
from accelify.codemod.libraries.accelerate import WAITS_HERE
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.metrics.ranks.shards import Shards
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.scopes import names_read_in, names_written_in


@dataclass(frozen=True, slots=True)
class Together:
    """The condition that goes, and what it has besides the process; what then asks for the process by itself."""

    guard: ast.If
    process: ast.expr
    rest: tuple[ast.expr, ...]
    runs: tuple[tuple[ast.stmt, ...], ...]


@dataclass(frozen=True, slots=True)
class _Way:
    """From a call out to its guard: the blocks, each with the statement of the way, and the conditions that stay."""

    guard: ast.If
    process: ast.expr
    blocks: tuple[tuple[list[ast.stmt], ast.stmt], ...]
    tests: tuple[ast.expr, ...]
    rest: tuple[ast.expr, ...]

    @property
    def beside(self) -> Iterator[ast.stmt]:
        """The other statements of the blocks."""
        return (s for block, own in self.blocks for s in block if s is not own)


class SavedTogether:
    """Ask a program for it: `program.once(SavedTogether)`."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._uses = program.once(AccelerateUses)
        self._conditions = program.once(Conditions)
        self._effects = program.once(Effects)
        loops = [n for p in program.files for n in p.nodes if isinstance(n, LOOPS) and self._is_over_data(n)]
        prepared = self._uses.is_prepared
        self._ranks = Ranks(program.once(Chains), Shards(loops, (), is_loader=prepared, is_alike=prepared))

    def _is_over_data(self, loop: ast.AST) -> bool:
        over = getattr(loop, "iter", None)
        return over is not None and any(isinstance(n, ast.expr) and self._uses.is_prepared(n) for n in ast.walk(over))

    def of(self, call: ast.Call) -> Together | None:
        """How; None where moving the condition is not enough, or not known to be right."""
        statement = self.program.parent(call)
        way = self._way(statement) if isinstance(statement, ast.Expr) else None
        needed = self._needed(way, call) if way is not None else None
        if way is None or needed is None or self._uses.is_on_main_alone(way.guard):
            return None
        decide = [*way.tests, *call.args, *(k.value for k in call.keywords), *(n.value for n in needed)]
        runs = tuple(self._runs(way, needed))
        if any(map(self._ranks.is_own, decide)) or not all(self._may_stay(s) for run in runs for s in run):
            return None
        return Together(way.guard, way.process, way.rest, runs)

    def _way(self, statement: ast.stmt) -> _Way | None:
        blocks, tests = [], []
        while isinstance(outer := self.program.parent(statement), ast.If):
            blocks.append((self.program.block(statement), statement))
            process, rest = self._parted(outer.test)
            tests += rest
            if process is not None:
                is_plain = statement in outer.body and not outer.orelse and not self._is_elif(outer)
                return _Way(outer, process, tuple(blocks), tuple(tests), tuple(rest)) if is_plain else None
            statement = outer
        return None

    def _is_elif(self, node: ast.If) -> bool:
        outer = self.program.parent(node)
        return isinstance(outer, ast.If) and outer.orelse == [node]

    def _parted(self, test: ast.expr) -> tuple[ast.expr | None, list[ast.expr]]:
        """The part of a condition that lets the main process alone through, and the other parts."""
        parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        alone = [part for part in parts if self._conditions.truth_in(part, worlds_where(Process.OTHER)) is False]
        if len(alone) != 1 or self._conditions.truth_in(alone[0], worlds_where(Process.MAIN)) is not True:
            return None, parts
        return alone[0], [part for part in parts if part is not alone[0]]

    def _needed(self, way: _Way, call: ast.Call) -> list[ast.Assign] | None:
        """The assignments beside a call that it needs; None where it needs more than such."""
        found: list[ast.Assign] = []
        names = {name for node in (call, *way.tests) for name in names_read_in(node)}
        while more := [s for s in way.beside if s not in found and names & names_written_in(s)]:
            for statement in more:
                if not isinstance(statement, ast.Assign) or not self._effects.of(statement.value).only_reads:
                    return None
                found.append(statement)
                names |= names_read_in(statement.value)
        return found

    @staticmethod
    def _runs(way: _Way, needed: list[ast.Assign]) -> Iterator[tuple[ast.stmt, ...]]:
        on_all = [*needed, *(own for _, own in way.blocks)]
        for block, _ in way.blocks:
            for is_on_all, run in groupby(block, on_all.__contains__):
                if not is_on_all:
                    yield tuple(run)

    def _may_stay(self, statement: ast.stmt) -> bool:
        """Whether a statement may be left to the main process: it goes on to the call, and does not wait for others."""
        waits = any(n in self._waiting for n in ast.walk(statement))
        return not waits and not self._effects.of(statement).leaves

    @property
    def _waiting(self) -> set[ast.Call]:
        return set(self._uses.calls_of(*WAITS_HERE))
