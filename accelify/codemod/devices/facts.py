"""What the rules are told of devices: what is moved, what is brought, and which options chose where."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from accelify.codemod.devices.bringing import Bringing, Brought
from accelify.codemod.devices.conflicts import Meetings
from accelify.codemod.devices.destinations import Destinations, Where
from accelify.codemod.devices.lattice import Lattice
from accelify.codemod.devices.mismatches import Mismatches
from accelify.codemod.devices.moves import Move, Moves
from accelify.codemod.devices.named_devices import NamedDevices
from accelify.codemod.devices.on_device import OnDevice, read_on_cpu
from accelify.codemod.devices.options import CpuSetting, OnGpu, options_in
from accelify.codemod.devices.own_tensors import Homemade
from accelify.codemod.preparing.placing import Access
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.preparing.settings import Setting
from accelify.codemod.preparing.tensors import Tensors
from accelify.codemod.semantics.conditions import Conditions
from accelify.codemod.semantics.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.training.loops import Training
from accelify.codemod.training.roles import Roles


@dataclass(frozen=True, slots=True)
class Devices:
    """The table.

    moves: the calls of the changed files that move something to a device, in the order of the text; needless: those
    that do nothing once what they move is prepared. named: the arguments that are options which name a device, where
    the accelerator has the process's own. lattice: where the tensors live. brought: those that are to come to the
    accelerator's device, if all are understood; homemade: what a script that names no device gives its models, where
    they are not. brought_back: those on the device that are to be read in the host's memory, in the order of the text;
    read_on_host: what is read there only, wherever it is. cpu: what keeps the script on the CPU, such as an option of
    its own, as the accelerator gets it.
    """

    tracer: Tracer
    known: Moves
    lattice: Lattice
    moves: tuple[Move, ...]
    needless: frozenset[ast.Call]
    named: tuple[ast.expr, ...]
    brought: Brought
    homemade: ast.expr | None
    brought_back: tuple[ast.expr, ...]
    read_on_host: frozenset[ast.expr]
    cpu: Setting | None

    def is_needless(self, move: Move) -> bool:
        """Whether a move does nothing once what it moves is prepared."""
        return move.call in self.needless

    def goes_to_cpu(self, move: Move) -> bool:
        """Whether a move brings something to the CPU, whatever the device is."""
        return self.known.goes_to_cpu(move)

    def is_the_cpu(self, variable: str) -> bool:
        """Whether a variable is the CPU, beside another that is the device."""
        return self.known.is_the_cpu(variable)

    def is_for_the_cpu(self, statement: ast.Assign) -> bool:
        """Whether a variable sends something other than training to the CPU: `device = torch.device("cpu")`."""
        return self.known.is_for_the_cpu(statement)

    def ignored_options(self, launch: str, *nodes: ast.AST) -> str:
        """What to say of options that chose a device there, and choose it no more; nothing where all still do."""
        copied = [value for node in nodes for value in self._copied(node)]
        options = sorted({option for node in [*nodes, *copied] for option in options_in(node)})
        if not options or self.cpu is not None:
            return ""
        chooses = "chooses" if len(options) == 1 else "choose"
        return f"{', '.join(options)} no longer {chooses} the device: `{launch} --cpu` or `Accelerator(cpu=True)` does"

    def _copied(self, node: ast.AST) -> Iterator[ast.expr]:
        """What the attributes in some code were given elsewhere, as they are: `self.gpu = args.gpu`."""
        written = self.known.program.attribute_writes
        for read in ast.walk(node):
            for write in written.get(read.attr, ()) if isinstance(read, ast.Attribute) else ():
                value = self.tracer.assigned(write)
                if isinstance(value, ast.Attribute) and ast.unparse(write) == ast.unparse(read):
                    yield value


@dataclass(frozen=True, slots=True)
class Own:
    """The tensors that a script which names no device makes itself, and what it takes to bring them to one."""

    program: Program
    roles: Roles
    tracer: Tracer
    training: Training
    prepared: Prepared
    has_model: bool
    effects: Effects

    def tensor(self) -> ast.expr | None:
        """One that a model gets; None where the script knows of devices."""
        return self._homemade().find()

    def _homemade(self) -> Homemade:
        on_device = OnDevice(self.program, self.roles, self.tracer, self.prepared)
        return Homemade(on_device, self._tensors(), self.training.backwards)

    def _tensors(self) -> Tensors:
        return Tensors(self.program, self.roles, self.prepared)

    def brought(self, access: Access, *, is_settled: bool) -> Brought:
        """What is to be brought; `is_settled` says that the accelerator reaches no further than it does."""
        lattice = self._lattice()
        return Bringing(lattice, Meetings(lattice), access.at).find(is_settled=is_settled)

    def mismatched(self, known: Moves, access: Access, cpu: CpuSetting | None, *, is_settled: bool) -> Placed:
        """What a script that names its device has in the host's memory where its rewrite has the rest on the device."""
        holds = OnGpu(self.program.once(Conditions), self.tracer, cpu.wishes if cpu is not None else frozenset()).holds
        lattice = Lattice(
            *(self.program, self.roles, self.tracer, self.prepared, self._tensors()),
            plain=self._plain(known, holds),
            holds=holds,
            replaced=[b.value for b in known.bindings if access.at(b) and not known.is_for_the_cpu(b)],
        )
        mismatches = Mismatches(lattice)
        found = Bringing(lattice, mismatches, access.at).find(is_settled=is_settled) if self.has_model else Brought()
        return Placed(lattice, replace(found, doubtful=list(mismatches.doubtful)), mismatches.is_tensor)

    def _plain(self, known: Moves, holds: Callable[[ast.expr], bool | None]) -> set[Where]:
        """Where the plain script may have had its models."""
        if not self._homemade().names_a_device():
            return {Where.HOST}
        devices = Destinations(self.program, self.roles, self.tracer, (), holds, lambda node: ())
        found: set[Where] = set()
        for move in known.found:
            if known.is_needless(move) and not self.prepared.is_batch(move.receiver):
                tests = [b.test for b, _ in self.program.branches_round(move.call)]
                found |= {d.was for d in devices.resolved(devices.of(move.device))} & {Where.HOST, Where.ACCELERATOR}
                found |= {Where.HOST} if any(holds(test) is None for test in tests) else set()
        return found or {Where.ACCELERATOR}

    def placed(self, access: Access, tensor: ast.expr | None) -> Placed:
        """The same of a script that names no device, or distributes itself."""
        lattice = self._lattice()
        brought = Brought()
        if tensor is not None:
            brought = self.brought(access, is_settled=True) if self.has_model else Brought(stuck=tensor)
        return Placed(lattice, brought, Mismatches(lattice).is_tensor)

    def _lattice(self) -> Lattice:
        return Lattice(self.program, self.roles, self.tracer, self.prepared, self._tensors())


@dataclass(frozen=True, slots=True)
class Placed:
    """Where tensors live, and those that have to live elsewhere; is_tensor: whether an expression is one tensor."""

    lattice: Lattice
    brought: Brought
    is_tensor: Callable[[ast.expr], bool]


def devices_of(
    own: Own, files: frozenset[str], access: Access, tensor: ast.expr | None, cpu: CpuSetting | None, *, by_hand: bool
) -> Devices:
    """The table of some files; `tensor` is one that a script which names no device makes itself."""
    program, tracer = own.program, own.tracer
    known = Moves(program, own.roles, tracer, own.prepared, files)
    if tensor is None and not by_hand:
        placed = own.mismatched(known, access, cpu, is_settled=True)
    else:
        placed = own.placed(access, tensor)
    lattice, brought = placed.lattice, placed.brought
    moves = tuple(known.found)
    is_only_named = {m.call: m.device is None or own.effects.changes_nothing(m.device) for m in moves}
    goes = (m for m in moves if is_only_named[m.call] and known.is_needless(m))
    needless = frozenset(m.call for m in goes if _has_come(m, placed, own.prepared))
    named: list[ast.expr] = []
    if not by_hand:
        found = NamedDevices(program, tracer, set(files), [m for m in moves if m.call not in needless]).find()
        named = sorted((a for a in found if access.at(a)), key=program.position)
    homemade = tensor if not brought.bringing else None
    read = frozenset(_read_on_host(program))
    own_reads = (t for t in read if program.path(t) in files and lattice.is_there(t) and placed.is_tensor(t))
    back = sorted({*brought.read, *own_reads}, key=program.position)
    setting = Setting(ast.Constant(True)) if homemade is not None else cpu
    return Devices(
        *(tracer, known, lattice, moves, needless, tuple(named), brought, homemade, tuple(back), read, setting)
    )


def _has_come(move: Move, placed: Placed, prepared: Prepared) -> bool:
    """Whether what is moved is still on the device, once some of it is read in the host's memory."""
    return not placed.brought.read or prepared.is_model(move.receiver) or placed.lattice.is_there(move.receiver)


def _read_on_host(program: Program) -> Iterator[ast.expr]:
    for call in program.calls:
        if program.frame(call) in program.reachable:
            yield from read_on_cpu(program, call)
