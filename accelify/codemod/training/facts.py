"""How is the training code run, and on which loaders does a loop train that evaluates others, too?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from accelify.codemod.files.nodes import walk
from accelify.codemod.options import Runtime
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Chain, Tracer
from accelify.codemod.semantics.scopes import Scope, main_guard
from accelify.codemod.semantics.values import Argument, Member
from accelify.codemod.training.experience import Experience
from accelify.codemod.training.loops.training import Data, Training
from accelify.codemod.training.phases import Phase, Phases
from accelify.codemod.training.randomness.loader_draws import LoaderDraws
from accelify.codemod.training.randomness.workers import run_beside
from accelify.codemod.training.roles import Roles, stepped


@dataclass(frozen=True, slots=True)
class Run:
    """How the training code is run.

    leading: the functions and modules that training is called from, on whatever way, and those that train. trained:
    these and all that they are known to run. run: the functions that the changed files may run, and their own. beside:
    those that worker processes may run. experience: what environments told this process, and what was made of it.
    draws_in_its_data: whether a data set draws its items at random.
    ends_apart: whether processes draw what they train on, and one that has ended does not keep the others waiting.
    waits: whether callers who are not known pass an optimizer, what holds it, or the batches of each step.
    is_trial: whether a module tries itself out: it trains under its `__main__` guard alone, on random numbers.
    """

    leading: frozenset[Scope]
    trained: frozenset[Scope]
    run: frozenset[Scope]
    beside: frozenset[Scope]
    experience: Experience
    draws_in_its_data: bool
    ends_apart: bool
    waits: bool
    is_trial: bool

    def may_train(self, program: Program, node: ast.AST) -> bool:
        """Whether the training may run a node: also a method of a network, and a function that is handed on."""
        frame = program.frame(node)
        is_of_network = frame.is_method and frame.parent is not None and program.flow.is_module_class(frame.parent)
        return frame.kind != "function" or is_of_network or frame in self.trained or frame in program.flow.lost

    def starts(self, program: Program, node: ast.AST) -> bool:
        """Whether a script that is started runs a module's own node, not one that it imports, or a worker may import.

        The kernel of a notebook is not one of the processes that train.
        """
        module = program.frame(node)
        guard = main_guard(module)
        leads = any(f in self.leading for c in program.calls_in(module) for f in program.flow.callees.get(c, ()))
        if program.parsed(node).decoded.notebook is not None or not leads:
            return False
        return guard is None or program.inside(node, guard)


def run_of(
    program: Program, roles: Roles, tracer: Tracer, training: Training, files: frozenset[str], runtime: Runtime
) -> Run:
    """How the training code of some files is run."""
    kinds, first = {d.kind for d in training.data}, frozenset(leading(program, training))
    return Run(
        leading=first,
        trained=frozenset(program.run_from(first)),
        run=frozenset(program.run_by(files)),
        beside=run_beside(program, training.frames),
        experience=Experience(program, tracer),
        draws_in_its_data=any(map(LoaderDraws(program, roles).draw_items, program.calls)),
        ends_apart="random" in kinds and "loaders" not in kinds and runtime.has("seed_by_rank"),
        waits=_waits(program, training),
        is_trial=_is_trial(program, training),
    )


def leading(program: Program, training: Training) -> set[Scope]:
    """The functions and modules that training is called from, on whatever way, and those that train."""
    found: set[Scope] = set()
    waiting = [program.frame(b) for b in training.backwards]
    while waiting:
        frame = waiting.pop()
        if frame not in found:
            found.add(frame)
            callers = program.flow.callers.get(frame, ())
            waiting += [*map(program.frame, callers), *([frame.parent] if frame.parent is not None else ())]
    return found


def _waits(program: Program, training: Training) -> bool:
    if not any(training.loops.values()):
        return True
    stepped_on = {v for s in training.steps for v in program.values(stepped(s))}
    return any(isinstance(v.root if isinstance(v, Member) else v, Argument) for v in stepped_on)


def _is_trial(program: Program, training: Training) -> bool:
    if {data.kind for data in training.data} != {"random"}:
        return False
    guards: dict[ast.AST, ast.If | None] = {b: main_guard(program.frame(b).root) for b in training.backwards}
    return all(guard is not None and program.inside(backward, guard) for backward, guard in guards.items())


# Loops that train on some loaders and only evaluate others.


def with_phases(program: Program, tracer: Tracer, training: Training) -> Training:
    """The training code with the conditions under which its loops train, and the loaders that they do that on."""
    found = [_with_phase(program, tracer, training, data) for data in training.data]
    phases: dict[ast.AST, Phase] = {
        data.loop: phase for data, phase in found if phase is not None and data.loop is not None
    }
    return replace(training, data=tuple(data for data, _ in found), phases=phases)


def _with_phase(program: Program, tracer: Tracer, training: Training, data: Data) -> tuple[Data, Phase | None]:
    loop = data.loop
    if data.kind != "loaders" or not isinstance(loop, ast.For) or loop.orelse:
        return data, None
    if [*map(tracer.inside, data.sources)] != [tracer.inside(loop.iter)]:
        return data, None
    phases, calls = Phases(program, tracer), list(_training_calls(program, training, loop))
    phase = phases.of(loop, calls)
    key = None if phase is None else phases.key(phase)
    if phase is not None and key is not None:
        return data, replace(phase, key=key)
    found = None if phase is None else phases.loaders(phase)
    if found is None:
        phase, found = None, phases.by_callers(loop, calls, training.ways)
    trained, evaluated = ({_place(c) for e in listed for c in tracer.chains(e)} for listed in found or ((), ()))
    is_one = any(_may_be_one(a, b) for a in trained for b in evaluated)
    if found is None or not trained or not evaluated or is_one:
        return data, None
    return replace(data, sources=tuple(found[0])), phase


_Place = tuple[ast.AST, tuple[object, ...]]


def _place(chain: Chain) -> _Place:
    """Where a loader has its first name, and the keys under which a container there holds it; None where not known."""
    keys = [getattr(binding.node, "slice", None) for binding in chain if binding.kind == "item"]
    return chain[-1].node, tuple(key.value if isinstance(key, ast.Constant) else None for key in keys)


def _may_be_one(one: _Place, other: _Place) -> bool:
    """Whether two places may hold the same loader."""
    return one[0] is other[0] and (one[1] == other[1] or None in (*one[1], *other[1]))


def _training_calls(program: Program, training: Training, loop: ast.For) -> Iterator[ast.Call]:
    """The backward passes and steps of a loop, and the calls of functions that hold some."""
    trains = [*training.backwards, *training.steps]
    frames = {program.frame(c) for c in trains}
    for node in (n for s in loop.body for n in walk(s)):
        if isinstance(node, ast.Call) and (node in trains or program.run_through([node]) & frames):
            yield node
