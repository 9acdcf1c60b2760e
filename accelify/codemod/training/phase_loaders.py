"""Tell the loaders that a loop trains on from those that it only evaluates, where one loop does both."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.training.loops import Data, Training
from accelify.codemod.training.phases import Phase, Phases


def with_phases(program: Program, tracer: Tracer, training: Training) -> Training:
    """The training code with the conditions under which its loops train, and the loaders that they do that on."""
    found = [_told(program, tracer, training, data) for data in training.data]
    phases: dict[ast.AST, Phase] = {
        data.loop: phase for data, phase in found if phase is not None and data.loop is not None
    }
    return replace(training, data=tuple(data for data, _ in found), phases=phases)


def _told(program: Program, tracer: Tracer, training: Training, data: Data) -> tuple[Data, Phase | None]:
    loop = data.loop
    if data.kind != "loaders" or not isinstance(loop, ast.For) or data.sources != (loop.iter,) or loop.orelse:
        return data, None
    phases = Phases(program, tracer)
    phase = phases.of(loop, list(_training_calls(program, training, loop)))
    if phase is None:
        return data, None
    if phases.is_keyed(phase):
        return data, phase
    found = phases.loaders(phase)
    if found is None:
        return data, None
    trained, evaluated = ({c[-1].node for e in listed for c in tracer.chains(e)} for listed in found)
    if not trained or not evaluated or trained & evaluated:
        return data, None
    return replace(data, sources=tuple(found[0])), phase


def _training_calls(program: Program, training: Training, loop: ast.For) -> Iterator[ast.Call]:
    """The backward passes and steps of a loop, and the calls of functions that hold some."""
    trains = [*training.backwards, *training.steps]
    frames = {program.frame(c) for c in trains}
    for node in (n for s in loop.body for n in ast.walk(s)):
        if isinstance(node, ast.Call) and (
            node in trains or program.run_from(program.flow.callees.get(node, ())) & frames
        ):
            yield node
