"""The model of a script: tables of facts, each computed by its topic before any rule reads them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from accelify.codemod.devices.facts import Devices
from accelify.codemod.distributed.findings import Distribution
from accelify.codemod.edits.values import Insert
from accelify.codemod.files_written.facts import Written
from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.steps.counts import StepCounts
from accelify.codemod.metrics.steps.limits import Limits
from accelify.codemod.options import Options
from accelify.codemod.precision.precision import Precision
from accelify.codemod.preparing.batch_sizes import BatchSizes
from accelify.codemod.preparing.objects.preparation import Preparation
from accelify.codemod.preparing.parallel_wrappers import Question
from accelify.codemod.preparing.placing import Access
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.preparing.reach import Reach
from accelify.codemod.preparing.seeds import Seeds
from accelify.codemod.preparing.wrapping import Wrapping
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.facts import Run
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.roles import Roles


@dataclass(frozen=True, slots=True)
class Script:
    """A program with a training loop: rules read it, and never trace a name themselves.

    files: those that change for the training: with a backward pass, a prepared object, or a way of the accelerator.
    wrapping: where a model has been replaced by its wrapper, for a runtime that wraps it. wrappers: the
    `DataParallel(model)` calls of these files, and of what builds their models; left_wrapped: all others;
    needed_wrappers: those of the project's own that cannot go; unwrapped: the choices that are none once these are
    gone, each with whether its body is what is done. for_one_gpu: the comparisons that one GPU, or two, decides, each
    with whether a process, which has one, meets it. batch_sizes: where the sizes of the training batches are written.
    seeds: where the processes may begin to draw random numbers of their own. distribution: how the script distributes
    itself; None where it does not. migrated: the files with the training code, where all of it has been migrated
    before; they stay as they are.
    """

    program: Program
    roles: Roles
    tracer: Tracer
    options: Options
    files: frozenset[str]
    training: Training
    run: Run
    preparation: Preparation
    prepared: Prepared
    wrapping: Wrapping | None
    wrappers: tuple[ast.Call, ...]
    left_wrapped: tuple[ast.Call, ...]
    needed_wrappers: tuple[ast.Call, ...]
    unwrapped: Mapping[Question, bool]
    for_one_gpu: Mapping[ast.Compare, bool]
    batch_sizes: BatchSizes
    seeds: Seeds
    access: Access
    devices: Devices
    precision: Precision | None
    metrics: Metrics
    step_counts: StepCounts
    limits: Limits
    written: Written
    effects: Effects
    distribution: Distribution | None = None
    migrated: frozenset[str] = frozenset()

    @property
    def reach(self) -> Reach:
        """The way of the accelerator through the program."""
        return self.access.reach

    @property
    def can_agree(self) -> bool:
        """Whether one process can give all others what it decides or draws."""
        return self.options.runtime.has("broadcast_object_list") and not (self.is_by_hand or self.run.ends_apart)

    @property
    def divides_batches(self) -> bool:
        """Whether the processes divide all batches, so that each has some rows of every one."""
        return self.options.keep_global_batch and not self.preparation.sharded

    def path(self, node: ast.AST) -> str:
        """The file that a node stands in."""
        return self.program.path(node)

    def accelerator(self, node: ast.AST) -> str | None:
        """The expression for the accelerator at a node; None where it does not reach."""
        return self.access.at(node)

    def state(self, node: ast.AST) -> str:
        """An expression for the process's place in the world: the accelerator, or one that works anywhere."""
        return self.accelerator(node) or f"{self.options.runtime.module}.PartialState()"

    def place(self, node: ast.AST) -> str:
        """The same for its numbers alone, where it must not join the others: in a worker process, or too early.

        There an accelerator stands alone.
        """
        if self.is_beside(node) and self.options.runtime.has("Environment"):
            return f"{self.options.runtime.module}.Environment.read()"
        return self.teller(node)

    def teller(self, node: ast.AST) -> str:
        """What tells at a node which process this is: the accelerator, the library, or the environment alone."""
        is_apart = self.accelerator(node) is None and not self.written.guarding.asking.holds(node)
        if is_apart and self.options.runtime.has("Environment"):
            return f"{self.options.runtime.module}.Environment.read()"
        return self.state(node)

    def is_beside(self, node: ast.AST) -> bool:
        """Whether a worker process may run some code."""
        return self.program.frame(node) in self.run.beside

    def library_import(self, node: ast.AST, speaker: str) -> tuple[Insert, ...]:
        """The import that what is asked at a node needs; none where that is the accelerator."""
        libraries = {self.options.runtime.functions, self.options.runtime.module}
        asked = [library for library in libraries if f"{speaker}.".startswith(f"{library}.")]
        root = self.program.frame(node).root
        return tuple(self.access.import_edit(root, f"import {library}") for library in sorted(asked)[-1:])

    def changes_nothing(self, node: ast.expr) -> bool:
        """Whether an expression may go: nothing is different after it was evaluated but that it gave a value."""
        return self.effects.changes_nothing(node)

    @property
    def is_by_hand(self) -> bool:
        """Whether the script says already what each process does: files, sums and evaluations are its own affair."""
        return self.distribution is not None and self.distribution.tells_processes_apart

    @property
    def handed(self) -> frozenset[tuple[Scope, str]]:
        """The parameters that only pass on what the accelerator knows: a precision, or the number of a process."""
        found = set(self.precision.parameters) if self.precision is not None else set()
        return frozenset(found | (self.distribution.parameters if self.distribution is not None else set()))
