"""Which loops train? The backward passes that the named files may run, and all that hangs on them."""

from __future__ import annotations

import ast
from dataclasses import replace

from accelify.codemod.semantics.call_conditions import Way
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.loops.backward_passes import BackwardPasses
from accelify.codemod.training.loops.iterables import Iterables
from accelify.codemod.training.loops.learning import Learning
from accelify.codemod.training.loops.nesting import Nesting
from accelify.codemod.training.loops.own_data import OwnData
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.made_anew import Anew
from accelify.codemod.training.randomness.passes import Passes
from accelify.codemod.training.roles import Roles


class Loops:
    """Find the training code."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer) -> None:
        self.program = program
        self.roles = roles
        self.nesting = Nesting(program, roles, tracer)
        self.iterables = Iterables(program, roles, tracer)
        self.own_data = OwnData(program, roles, tracer, self.iterables)
        self.anew = Anew(program, roles, tracer, self.nesting.stack)
        self.passes = Passes(program, self.nesting.stack, self.iterables.owners)
        self.backward_passes = BackwardPasses(program, roles, tracer, self.nesting)
        self.learning = Learning(
            program, roles, tracer, self.nesting, self.iterables, self.own_data, self.anew, self.passes
        )

    def migrated(self, library: str) -> Training:
        """The backward passes that go through an accelerator of a library already, with the ways to them alone."""
        called = (c for c in self.program.calls if isinstance(c.func, ast.Attribute) and c.func.attr == "backward")
        run = (c for c in called if self.program.frame(c) in self.program.reachable)
        run = (c for c in run if self.program.parsed(c).run_by == library)
        backwards = sorted(filter(self.backward_passes.is_through_accelerator, run), key=self.program.position)
        ways: dict[Scope, set[Way]] = {}
        loops = {backward: tuple(self.nesting.stack(backward, ways)) for backward in backwards}
        known = {frame: frozenset(wanted) for frame, wanted in ways.items()}
        return Training(tuple(backwards), (), loops, (), frozenset(known), known)

    def find(self) -> Training:
        """The backward passes that the named files may run, and all that hangs on them."""
        backwards: list[ast.Call] = []
        steps: list[ast.Call] = []
        others: list[ast.Call] = []
        reachable = self.program.reachable
        for call in sorted(self.program.calls, key=self.program.position):
            if not isinstance(call.func, ast.Attribute) or self.program.frame(call) not in reachable:
                continue
            if call.func.attr == "backward":
                (backwards if self.backward_passes.is_backward(call) else others).append(call)
            elif call.func.attr == "step" and self.backward_passes.is_step(call):
                steps.append(call)
        left_over = self.backward_passes.left_over(backwards, steps)
        backwards = [b for b in backwards if self.program.frame(b) not in left_over]
        steps = [s for s in steps if self.program.frame(s) not in left_over]
        ways: dict[ast.Call, dict[Scope, set[Way]]] = {backward: {} for backward in backwards}
        loops = {backward: tuple(self.nesting.stack(backward, ways[backward])) for backward in backwards}
        self.learning.frames = {self.program.frame(b) for b in backwards}
        read = self.learning.read = {b for b in backwards if self.backward_passes.is_read(b, loops[b], steps)}
        data = {backward: self.learning.all(backward, loops[backward], steps) for backward in backwards}
        nested = tuple(
            self.anew.nested(
                loops, steps, lambda b: data[b][0].sharded_loop, lambda b: any(d.kind == "random" for d in data[b])
            )
        )
        apart = {n.backward: n.steps for n in nested if n.is_within}
        if set(apart) == set(backwards) and not others:  # what lasts has no backward pass
            nested, apart = tuple(replace(n, is_within=False) for n in nested), {}
        for_inputs = self.backward_passes.for_inputs([b for b in backwards if b not in apart], data, steps)
        outside = (b for b in backwards if not loops[b])
        for_inputs |= {b: () for b in outside if self.backward_passes.is_for_own_tensors(b, steps)}
        kept = [b for b in backwards if b not in apart and b not in for_inputs]
        kept = kept or [b for b in backwards if b not in apart]
        merged: dict[Scope, set[Way]] = {}
        for frame, wanted in (pair for backward in kept for pair in ways[backward].items()):
            merged.setdefault(frame, set()).update(wanted)
        learning = [b for b in kept if b not in read] or kept
        known = dict.fromkeys(d for backward in learning for d in data[backward])
        return Training(
            backwards=tuple(kept),
            steps=tuple(s for s in steps if not any(s in own for own in apart.values())),
            loops={backward: loops[backward] for backward in kept},
            # The others belong to helpers that nothing calls.
            data=tuple(d for d in known if d.loop is not None) or tuple(known),
            frames=frozenset(merged),
            ways={frame: frozenset(wanted) for frame, wanted in merged.items()},
            nested=nested,
            for_inputs=for_inputs,
        )
