"""Tell the loaders that a loop trains on from those that it only evaluates, where one loop does both."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.training.loops import Data, Training
from accelify.codemod.training.phases import Phases


def tell_phases(program: Program, tracer: Tracer, training: Training) -> None:
    """Note in the training code the conditions under which its loops train, and the loaders that they do that on."""
    training.data = [_told(program, tracer, training, data) for data in training.data]


def _told(program: Program, tracer: Tracer, training: Training, data: Data) -> Data:
    loop = data.loop
    if data.kind != "loaders" or not isinstance(loop, ast.For) or data.sources != (loop.iter,) or loop.orelse:
        return data
    phases = Phases(program, tracer)
    phase = phases.of(loop, list(_training_calls(program, training, loop)))
    if phase is None:
        return data
    if phases.is_keyed(phase):
        training.phases[loop] = phase
        return data
    found = phases.loaders(phase)
    if found is None:
        return data
    trained, evaluated = ({c[-1].node for e in listed for c in tracer.chains(e)} for listed in found)
    if not trained or not evaluated or trained & evaluated:
        return data
    training.phases[loop] = phase
    return replace(data, sources=tuple(found[0]))


def _training_calls(program: Program, training: Training, loop: ast.For) -> Iterator[ast.Call]:
    """The backward passes and steps of a loop, and the calls of functions that hold some."""
    trains = [*training.backwards, *training.steps]
    frames = {program.frame(c) for c in trains}
    for node in (n for s in loop.body for n in ast.walk(s)):
        if isinstance(node, ast.Call) and (
            node in trains or program.run_from(program.flow.callees.get(node, ())) & frames
        ):
            yield node
