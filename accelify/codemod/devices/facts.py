"""What the rules are told of devices: what is moved, what is brought, and which options chose where."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accelify.codemod.devices.bringing import Bringing, Brought
from accelify.codemod.devices.conflicts import Meetings
from accelify.codemod.devices.cpu_variables import cpu_only
from accelify.codemod.devices.moves import Move, Moves
from accelify.codemod.devices.named_devices import NamedDevices
from accelify.codemod.devices.on_device import OnDevice
from accelify.codemod.devices.options import options_in
from accelify.codemod.devices.own_tensors import Homemade
from accelify.codemod.devices.whereabouts import Whereabouts
from accelify.codemod.preparing.placing import Access
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.preparing.settings import Setting
from accelify.codemod.preparing.tensors import Tensors
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
    the accelerator has the process's own. brought: the tensors that a script which names no device brings to the
    accelerator's, if all are understood; homemade: what such a script gives its models, where they are not. cpu: what
    keeps the script on the CPU, such as an option of its own, as the accelerator gets it. on_device: which tensors are
    on the process's device.
    """

    tracer: Tracer
    known: Moves
    on_device: OnDevice
    moves: tuple[Move, ...]
    needless: frozenset[ast.Call]
    named: tuple[ast.expr, ...]
    brought: Brought
    homemade: ast.expr | None
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
        return cpu_only(self.known.program, self.tracer, statement, [m for m in self.moves if self.is_needless(m)])

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
        on_device = OnDevice(self.program, self.roles, self.tracer, self.prepared)
        return Homemade(on_device, self._tensors(), self.training.backwards).find()

    def _tensors(self) -> Tensors:
        return Tensors(self.program, self.roles, self.prepared)

    def brought(self, access: Access, *, is_settled: bool) -> Brought:
        """What is to be brought; `is_settled` says that the accelerator reaches no further than it does."""
        whereabouts = Whereabouts(self.program, self.roles, self.tracer, self.prepared, self._tensors())
        return Bringing(whereabouts, Meetings(whereabouts), access.at).find(is_settled=is_settled)


def devices_of(
    own: Own, files: frozenset[str], access: Access, tensor: ast.expr | None, cpu: Setting | None, *, by_hand: bool
) -> Devices:
    """The table of some files; `tensor` is one that a script which names no device makes itself."""
    program, tracer = own.program, own.tracer
    known = Moves(program, own.roles, own.prepared, set(files))
    moves = tuple(known.found)
    is_only_named = (m.device is None or own.effects.changes_nothing(m.device) for m in moves)
    needless = frozenset(m.call for m, only in zip(moves, is_only_named, strict=True) if only and known.is_needless(m))
    named: list[ast.expr] = []
    if not by_hand:
        found = NamedDevices(program, tracer, set(files), [m for m in moves if m.call not in needless]).find()
        named = sorted((a for a in found if access.at(a)), key=program.position)
    brought = Brought()
    if tensor is not None:
        brought = own.brought(access, is_settled=True) if own.has_model else Brought(stuck=tensor)
    homemade = tensor if not brought.bringing else None
    on_device = OnDevice(program, own.roles, tracer, own.prepared)
    cpu = Setting(ast.Constant(True)) if homemade is not None else cpu
    return Devices(tracer, known, on_device, moves, needless, tuple(named), brought, homemade, cpu)
