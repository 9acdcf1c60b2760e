"""Do the moves of a script stay, and what does it take where its tensors are in two memories?"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from accelify.codemod.devices.arrivals import Arrivals
from accelify.codemod.devices.destinations import Where
from accelify.codemod.devices.host_reads import HostReads
from accelify.codemod.devices.lattice import Lattice
from accelify.codemod.devices.moves import Move, Moves
from accelify.codemod.devices.options import device_on_gpu
from accelify.codemod.devices.own_tensors import Mixing
from accelify.codemod.devices.placed import Own
from accelify.codemod.preparing.placing import EarlyCode
from accelify.codemod.semantics.values import Argument


@dataclass(frozen=True, slots=True)
class Staying:
    """What a script with a GPU of its own does that a prepared loader would change by moving batches.

    read: the batches that it reads in CPU memory, or else what may not be on the device. unmoved: what only a wrapper
    moved, which goes. is_left: whether all of its moves stay, and prepared objects are not moved: not where they come
    too early, nor where the wrapper, or a caller, may have moved the models, too.
    """

    read: tuple[ast.AST, ...]
    unmoved: tuple[ast.AST, ...]
    is_left: bool


def staying_of(
    own: Own, lattice: Lattice, early: EarlyCode, known: Moves, goes: Sequence[Move], stranded: Sequence[ast.Call]
) -> Staying:
    arrivals = Arrivals(lattice, goes)
    trained = own.prepared.preparation.models
    models = [m for m in known.found if m in goes and not own.prepared.is_batch(m.receiver)]
    models += [m for m in known.found if m not in goes and own.program.values(m.receiver) & trained]
    on_host = [*_named_on_host(own, lattice), *_moved_at_times(own, lattice, known, models), *_never_moved(own, known)]
    on_host += _left_on_host(own, lattice)
    unmoved = sorted(arrivals.brought_by_wrapper(), key=own.program.position)
    read = [*arrivals.reads(), *on_host, *own.prepared.left_to_others(), *stranded]
    is_early = any(early.holds(m.call) for m in models)
    is_given = any(isinstance(v, Argument) for v in trained)  # its caller has moved it, to GPU 0 perhaps
    is_left = bool(read) and not is_early and (bool(models) or not (unmoved or is_given))
    return Staying(tuple(sorted(read, key=own.program.position)), tuple(unmoved), is_left)


def _named_on_host(own: Own, lattice: Lattice) -> Iterator[ast.AST]:
    """The reads of models that may be in the CPU's memory, though others are moved."""
    paths = {parsed.path for parsed in own.program.files}
    elsewhere = Moves(own.program, own.roles, own.tracer, own.prepared, paths).found
    moved = {v for m in elsewhere for v in own.program.values(m.receiver)}
    for read, places in lattice.named.items():
        if Where.HOST in places and (len(places) > 1 or moved.isdisjoint(own.program.values(read))):
            yield read


def _moved_at_times(own: Own, lattice: Lattice, known: Moves, models: Sequence[Move]) -> Iterator[ast.AST]:
    """The moves of models that are made under a condition other than that there is a GPU, or to another each round."""
    for move in models:
        asked = (test for test in own.asked_for_a_move(move) if lattice.holds(test) is None)
        is_chosen = any(d is None or not lattice.devices.is_own(d) for d in map(device_on_gpu, asked))
        if is_chosen or (move.device is not None and known.is_of_round(move.device)):
            yield move.call


def _never_moved(own: Own, known: Moves) -> Iterator[ast.AST]:
    """Where models are prepared of which the script's own code makes all and moves none."""
    to_gpu = (m.call for m in known.found if not known.goes_to_cpu(m))
    if any(not any(own.program.branches_round(call)) for call in to_gpu):
        return  # they are there, however they came
    if own.moves_no_model:
        yield from (g.anchor for g in own.prepared.preparation.groups if g.anchor is not None)


def _left_on_host(own: Own, lattice: Lattice) -> Iterator[ast.AST]:
    """The calls that make prepared models in the CPU's memory by the default of a device that their class moves to."""
    program, tracer, homes = own.program, own.tracer, [*_homes(own, lattice)]
    items = (i for i in own.prepared.preparation.items if i.kind == "model")
    for owner, name in {(i.frame.owner(i.text) or i.frame, i.text) for i in items}:
        for write in tracer.writes(owner, name):
            made = tracer.assigned(write) if isinstance(write, ast.Name) else None
            if isinstance(made, ast.Call) and any(_is_left_on_host(own, lattice, made, h) for h in homes):
                reads = (r for r in program.reads_of(owner, name) if program.reaching(r, [write]))
                yield from [] if any(map(own.prepared.may_move, reads)) else [made]


def _is_left_on_host(own: Own, lattice: Lattice, made: ast.Call, parameter: ast.arg) -> bool:
    """Whether a call runs the function of a parameter, and leaves that at its default, the CPU."""
    function = own.program.scope(parameter)
    default = function.defaults.get(parameter.arg)
    if default is None or function not in own.program.flow.callees.get(made, ()):
        return False
    is_default = own.tracer.given(made, function, parameter.arg) is default
    return is_default and {d.now for d in lattice.devices.of(default)} == {Where.HOST}


def _homes(own: Own, lattice: Lattice) -> Iterator[ast.arg]:
    """The parameters of networks that say where they bring themselves, or what they are given."""
    paths = {parsed.path for parsed in own.program.files}
    moves = Moves(own.program, own.roles, own.tracer, own.prepared, paths).found
    inside = (m for m in moves if m.device is not None and lattice.tensors.is_in_model(own.program.frame(m.call)))
    yield from dict.fromkeys(d.given for m in inside for d in lattice.devices.of(m.device) if d.given is not None)


@dataclass(frozen=True, slots=True)
class Together:
    """How the tensors of a script come together that are in two memories once its models are on a device.

    mixed: where those in the CPU's memory may meet those on the device. homemade: what keeps a script that names no
    device on the CPU. from_others: what other code may put on the device. changed_by_arrays: the tensors on the device
    that change with an array, each with the code that changes it.
    """

    mixed: ast.AST | None = None
    homemade: ast.AST | None = None
    changed_by_arrays: Mapping[ast.expr, ast.AST] = field(default_factory=dict)
    from_others: ast.expr | None = None


def together_of(own: Own, lattice: Lattice, undecided: Sequence[ast.expr], *, may_mix: bool) -> Together:
    """The same of a script that has its models on the CPU."""
    host, tensor, from_others = own.program.once(HostReads), own.tensor(), own.given_by_others()
    changed = {t: host.shared[t] for t in lattice.on_device(host.shared)}
    doubts = [tensor, from_others, *undecided, *own.prepared.left_to_others()]
    first = next(filter(None, doubts), None) or Mixing(lattice).first()
    if may_mix and own.has_model and not host.asked and not (changed and tensor is not None):
        return Together(first, None, changed)
    is_left = from_others is None and not own.names_a_device()
    return Together(None, first if is_left else None, changed, from_others)
