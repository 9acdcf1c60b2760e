"""Where do tensors meet that must be on one device, and which of them are in the CPU's memory?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from accelify.codemod.devices.destinations import Where
from accelify.codemod.devices.lattice import UNKNOWN, Lattice, Place, Places
from accelify.codemod.devices.on_device import read_on_cpu
from accelify.codemod.devices.single_tensors import Shapes
from accelify.codemod.devices.unprepared_models import Cold
from accelify.codemod.libraries import names
from accelify.codemod.semantics.values import Instance, Made, Member

_PUTS = ("append", "extend", "insert", "add_scalar", "update", "get", "pop", "format", "write")
_ACROSS = ("copy_", "load_state_dict")  # methods that bring what they get to where they are
_APART = ("torch.save", "torch.nn.init.", "torch.optim.", "torch.utils.data.", "torch.manual_seed", "torch.no_grad")
_HOSTED = ("numpy.", "gym.", "gymnasium.", "PIL.", "cv2.", "json.", "csv.", "pickle.", "imageio.")


@dataclass
class Meeting:
    """What is not as it must be.

    wanted: the tensors that must come to the device, each with the operand that holds it there, if that is one.
    refused: those that something can take on the CPU only. stuck: where it cannot be told. read: the tensors there that
    something reads on the CPU, to which it can bring them.
    """

    wanted: list[tuple[ast.AST, ast.expr | None]] = field(default_factory=list)
    refused: list[ast.AST] = field(default_factory=list)
    stuck: list[ast.expr] = field(default_factory=list)
    read: set[ast.expr] = field(default_factory=set)


class Meetings:
    """Look at all that a program computes."""

    def __init__(self, whereabouts: Lattice) -> None:
        self.whereabouts = whereabouts
        self.shapes = Shapes(whereabouts)
        self.cold = Cold(whereabouts.tensors, whereabouts.tracer)
        self.program = whereabouts.program
        self.roles = whereabouts.roles
        self.tensors = whereabouts.tensors
        self.nodes = [n for n in self._nodes() if self._is_run(n)]

    def _is_run(self, node: ast.AST) -> bool:
        """Whether code is run, and not while a model is built, which is on the CPU until then."""
        frame = self.program.frame(node)
        builds = self.tensors.is_in_model(frame) and self.tensors.sets_up(frame)
        return frame in self.program.reachable and not builds

    def _nodes(self) -> Iterator[ast.Call | ast.BinOp | ast.Compare | ast.AugAssign | ast.Subscript]:
        yield from self.program.calls
        for parsed in self.program.files:
            for node in parsed.parents:
                if isinstance(node, (ast.BinOp, ast.Compare, ast.AugAssign, ast.Subscript)):
                    yield node

    def find(self, brought: Collection[ast.AST]) -> Meeting:
        """What is amiss once some tensors have been brought to the device."""
        self.brought = brought
        self.found = Meeting()
        self.found.wanted += [(c, None) for c in self.tensors.made_in_models() if c not in brought]
        for node in self.nodes:
            if isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, ast.BinOp):
                self._meet([node.left, node.right])
            elif isinstance(node, ast.Compare):
                if not any(isinstance(o, (ast.In, ast.NotIn, ast.Is, ast.IsNot)) for o in node.ops):
                    self._meet([node.left, *node.comparators])
            elif isinstance(node, ast.AugAssign):
                self._added(node)
            elif self.is_there(self.whereabouts.of(node.slice)):
                self._want(node.value)
        return self.found

    def is_there(self, places: Places) -> bool:
        """Whether some of it is on the device by then."""
        return any(map(self._is_there, places))

    def is_all_there(self, places: Places) -> bool:
        """Whether all of it is."""
        return bool(places) and all(map(self._is_there, places))

    def _is_there(self, place: Place) -> bool:
        return place.where is Where.ACCELERATOR or place.origin in self.brought

    # What must be where.

    def _want(self, node: ast.expr, *, strictly: bool = False) -> None:
        for place in self.whereabouts.of(node):
            if place.where is Where.UNKNOWN:
                self.found.stuck += [node] if strictly else []
            elif place.where is Where.HOST and place.origin is not None and place.origin not in self.brought:
                self.found.wanted.append((place.origin, node))

    def _meet(self, operands: list[ast.expr], *, strictly: bool = False) -> None:
        if any(self.is_there(self.whereabouts.of(o)) for o in operands):
            for operand in operands:
                self._want(operand, strictly=strictly or self._is_some_tensor(operand))

    def _is_some_tensor(self, node: ast.expr) -> bool:
        """Whether something is a tensor of which nothing else is known."""
        if self.whereabouts.of(node) != UNKNOWN or self.tensors.is_in_model(self.program.frame(node)):
            return False
        return self.shapes.is_tensor(node)

    def _added(self, node: ast.AugAssign) -> None:
        held, value = self.whereabouts.before(node), self.whereabouts.of(node.value)
        if self.is_there(held | value):
            self._want(node.value)
            self.found.wanted.extend((p.origin, None) for p in held if p.origin is not None and not self._is_there(p))

    def _refuse(self, node: ast.expr) -> None:
        """Note that something on the device is read where only the CPU's memory can be."""
        places = self.whereabouts.of(node)
        if self.is_there(places):
            own = [p.origin for p in places if p.origin in self.brought and p.origin is not None]
            self.found.refused += own
            self.found.stuck += [node] if not own else []

    def _read(self, call: ast.Call, node: ast.expr) -> None:
        if self.is_there(self.whereabouts.of(node)):
            is_receiver = isinstance(call.func, ast.Attribute) and call.func.value is node
            if is_receiver or self.shapes.is_tensor(node):
                self.found.read.add(node)
            else:
                self._refuse(node)

    # Calls.

    def _call(self, call: ast.Call) -> None:
        given = [*call.args, *(k.value for k in call.keywords)]
        called = self.program.called(call)
        is_own = self.tensors.is_in_model(self.program.frame(call))
        self._run(call, given)
        if self.tensors.is_model_call(call):
            for argument in given:
                self._want(argument, strictly=not is_own)
            return
        readable = read_on_cpu(self.program, call)
        for argument in readable:
            self._read(call, argument)
        if self.tensors.is_loss(call):
            self._meet(given, strictly=not is_own)
        elif any(map(names.is_loss, called)) and not is_own:
            for argument in given:
                self._want(argument)
        elif self._feeds_a_loader(call):
            for argument in given:
                self._refuse_what_is_brought(argument)
        elif self._is_hosted(call, called):
            for argument in given:
                if argument not in readable:
                    self._refuse(argument)
        else:
            self._other_call(call, given, called, is_own=is_own)

    def _other_call(self, call: ast.Call, given: list[ast.expr], called: set[str], *, is_own: bool) -> None:
        """Calls that run a part of a model, take a model with what it is run on, or compute."""
        is_part = is_own and any(map(self.roles.is_module, self.program.values(call.func)))
        is_followed = bool(self.program.flow.callees.get(call))
        # `torch.onnx.export(model, x)`, `writer.add_graph(model, x)`
        if is_part or (any(map(self.tensors.is_model, call.args)) and not is_followed):
            for argument in given:
                self._want(argument)
        elif not is_followed:
            self._computed(call, given, called)

    def _run(self, call: ast.Call, given: list[ast.expr]) -> None:
        """Have networks come along that run with what is there."""
        if self.tensors.is_model_call(call) or any(self.is_there(self.whereabouts.of(a)) for a in given):
            made = self.cold.made_at(call)
            self.found.stuck += [call] if made is None else []
            self.found.wanted += [(m, None) for m in made or () if m not in self.brought]

    def _computed(self, call: ast.Call, given: list[ast.expr], called: set[str]) -> None:
        """Functions of torch's, and methods of tensors."""
        if self.tensors.is_creator(call) or any(n.startswith(_APART) for n in called):
            return
        receiver = (
            call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr not in _PUTS + _ACROSS else None
        )
        if any(n.startswith("torch.") for n in called):
            self._meet(given)
        elif receiver is not None and not called and self.whereabouts.of(receiver) - UNKNOWN:
            self._meet([receiver, *given])

    def _refuse_what_is_brought(self, node: ast.expr) -> None:
        places = self.whereabouts.of(node)
        self.found.refused += [p.origin for p in places if p.origin is not None and p.origin in self.brought]

    def _feeds_a_loader(self, call: ast.Call) -> bool:
        """Data sets and loaders, which worker processes read."""
        if any(n.startswith("torch.utils.data.") or names.is_loader(n) for n in self.program.called(call)):
            return True
        made = [v for v in self.program.values(call) if isinstance(v, Instance)]
        return any("Dataset" in base for v in made for base in self.program.flow.external_bases(v.cls))

    def _is_hosted(self, call: ast.Call, called: set[str]) -> bool:
        """Whether a call is to a library that knows of no device, or to an object of such a one."""
        if "numpy.squeeze" in called:
            return False
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_embedding":
            return True  # TensorBoard puts the pictures beside some of its own
        roots = [v.root for v in self.program.values(call.func) if isinstance(v, Member)]
        made = [v.name or "" for v in roots if isinstance(v, Made)]
        return any(n.startswith(_HOSTED) for n in [*called, *made])
