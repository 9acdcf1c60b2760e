"""Where does a script that names its device compute with tensors on one, and its rewrite with tensors on two?

right = out.cpu().argmax(1) == y        `y` was never moved, and the prepared loader moves it now
if args.gpu: weight = weight.cuda()     the models are on the GPU now, whatever the option says
weight = torch.ones(3).to(device)       with `device="cpu"`, the default of a parameter
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from accelify.codemod.devices.bringing import draws_into
from accelify.codemod.devices.conflicts import Meeting, Meetings, Shapes, compared, listed
from accelify.codemod.devices.destinations import Where
from accelify.codemod.devices.host_reads import is_placed_by_callee
from accelify.codemod.devices.lattice import UNKNOWN, Lattice, Place, Places, on_host
from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import Row, Trait
from accelify.codemod.semantics.effects.kinds import tells_about
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Value

Calls = tuple[ast.Call, ...]
_ROUNDS = 12
_MOST_WAYS = 24  # ways into a function that are distinguished
_DEEP = 3


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of an operation, and, for each of its tensors, the expression that can bring it to the device."""

    places: tuple[tuple[Place, ast.expr | None], ...]

    @property
    def known(self) -> list[Place]:
        return [p for p, _ in self.places if p.where is not Where.UNKNOWN]

    def is_now(self, where: Where) -> bool:
        """Whether all its tensors are in one memory after the rewrite."""
        return bool(self.places) and all(p.where is where for p, _ in self.places)

    def was(self, where: Where) -> bool:
        """Whether they were, in the plain script."""
        return bool(self.places) and all(p.was is where for p, _ in self.places)

    @property
    def moved_along(self) -> Operand:
        """The same, for a model that brought to its device what it was called with in the plain script."""
        was = {Where.HOST: Where.ACCELERATOR}
        return Operand(tuple((replace(p, was=was.get(p.was, p.was)), source) for p, source in self.places))

    @property
    def is_own_batch(self) -> bool:
        """Whether they are parts of batches, maybe of prepared loaders, that were in the host's memory."""
        is_host = any(p.was is Where.HOST for p, _ in self.places)
        return is_host and all(p.is_batch or p.where is Where.HOST for p, _ in self.places)


class Mismatches(Meetings):
    """Look at all that a program computes, in each way into the functions that compute it."""

    def __init__(self, lattice: Lattice) -> None:
        super().__init__(lattice)
        self.lattice = lattice
        self.following: dict[ast.Call, ast.Name] = {}
        self.doubtful: dict[ast.expr, None] = {}

    def find(self, brought: Collection[ast.AST]) -> Meeting:
        """The tensors that must come to the device, once some are there, and those to be read in the host's memory."""
        self.brought = brought
        self._read_listed()
        for _ in range(_ROUNDS):
            self.found = Meeting()
            before = len(self.read), len(self.following)
            for node in self.nodes:
                for operands in self._taken_together(node):
                    self._compare(node, operands)
            if (len(self.read), len(self.following)) == before:
                break
        self.found.read.update(self.read)
        self.found.following.update(self.following)
        return self.found

    # Operands on different devices.

    def _taken_together(self, node: ast.AST) -> Iterator[list[Operand]]:
        """The operands of an operation, for each way into its function that makes a difference."""
        parts = self._operands(node)
        symbolic = [self._symbolic(p) for p in parts]
        if sum(bool(s) for s in symbolic) < 2:
            return
        given = {p.origin for s in symbolic for p in s if p.where is Where.GIVEN}
        owners = {self.program.scope(o) for o in given if o is not None}
        if not owners:
            yield [self._operand(p, ()) for p in parts]
            return
        for owner in owners:
            for calls in islice(self._ways(owner, symbolic), _MOST_WAYS):
                yield [self._operand(p, calls) for p in parts]

    def _symbolic(self, part: ast.expr | Places) -> Places:
        return part if isinstance(part, frozenset) else self.lattice.symbolic(part)

    def _ways(self, owner: Scope, symbolic: Sequence[Places], depth: int = _DEEP) -> Iterator[Calls]:
        names = {p.origin.arg for s in symbolic for p in s if isinstance(p.origin, ast.arg)}
        for call in self.lattice.calls_of(owner):
            given = [self.lattice.tracer.argument(call, owner, name) for name in names]
            inner = [self.lattice.symbolic(g) for g in given if g is not None]
            frame = self.program.frame(call)
            outer = [p.origin for s in inner for p in s if p.where is Where.GIVEN and p.origin is not None]
            goes_on = any(self.program.scope(o) is frame for o in outer)
            if goes_on and depth:
                yield from ((*way, call) for way in self._ways(frame, inner, depth - 1))
            else:
                yield (call,)

    def _operand(self, part: ast.expr | Places, calls: Calls) -> Operand:
        if isinstance(part, frozenset):
            return Operand(tuple((p, None) for p in self.lattice.resolved(part, calls)))
        return Operand(tuple(dict.fromkeys(self._sources(part, part, calls))))

    def _sources(self, node: ast.expr, part: ast.expr, calls: Calls) -> Iterator[tuple[Place, ast.expr | None]]:
        """The tensors of an expression, each with the argument that passes it, or the expression itself."""
        for place in self.lattice.symbolic(node):
            owner = self.program.scope(place.origin) if isinstance(place.origin, ast.arg) else None
            if place.where is not Where.GIVEN:
                yield place, part
            elif calls and owner is not None and owner in self.program.flow.callees.get(calls[-1], ()):
                assert isinstance(place.origin, ast.arg)
                given = self.lattice.tracer.given(calls[-1], owner, place.origin.arg)
                if given is None:
                    yield next(iter(UNKNOWN)), part
                elif place.is_named:
                    yield from ((p, part) for p in self.lattice.resolved(frozenset({place}), calls))
                else:
                    operand = Operand(tuple(self._sources(given, given, calls[:-1])))
                    yield from (operand.moved_along if self._moves_its_inputs(calls[-1]) else operand).places
            else:
                yield from ((p, part) for p in self.lattice.resolved(frozenset({place})))

    def _operands(self, node: ast.AST) -> list[ast.expr | Places]:
        """The operands that must be on one device; a model's weights are a place themselves."""
        if isinstance(node, ast.BinOp):
            return [node.left, node.right]
        if isinstance(node, ast.Compare):
            return [*compared(node)]
        if isinstance(node, ast.AugAssign):
            return [self.lattice.before(node), node.value]
        if isinstance(node, ast.Subscript):
            return self._indexed(node)
        return self._of_call(node) if isinstance(node, ast.Call) else []

    def _indexed(self, node: ast.Subscript) -> list[ast.expr | Places]:
        """A tensor in the host's memory, and what picks from it; one on the device is picked from by any."""
        picks = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        whole = self.lattice.of(node.value)
        is_host = bool(whole) and all(p.where is Where.HOST and not self._is_there(p) for p in whole)
        return [node.value, *(p for p in picks if not isinstance(p, ast.Slice))] if is_host else []

    def _of_call(self, call: ast.Call) -> list[ast.expr | Places]:
        given = [e for g in (*call.args, *(k.value for k in call.keywords)) for e in listed(g)]
        if self.lattice.is_early(call):
            return [frozenset({Place(Where.HOST, Where.HOST)}), *given]
        if self.tensors.is_model_call(call):
            met = [g for g in given if not is_placed_by_callee(self.program, self.lattice.tracer, call, g)]
            return [self.lattice.of_model(call.func), *met]
        if self.program.flow.callees.get(call):
            return []
        if self.tensors.is_loss(call):
            return [*given]
        called = self.program.called(call)
        rows = [table.function(n) for n in called]
        if any(_needs_one_device(r) for r in rows):
            return [*given]
        is_method = isinstance(call.func, ast.Attribute) and not called
        if is_method and _needs_one_device(table.member("tensor", call.func.attr)):  # type: ignore[attr-defined]  # checked
            return [call.func.value, *given]  # type: ignore[attr-defined]  # checked
        return []

    # Mismatches.

    def _compare(self, node: ast.AST, operands: list[Operand]) -> None:
        operands = _as_the_plain_script_ran(operands)
        is_model = isinstance(node, ast.Call) and self.tensors.is_model_call(node) and not self.lattice.is_early(node)
        if isinstance(node, ast.Call) and is_model and self._moves_its_inputs(node):
            operands = [o.moved_along for o in operands]
        there = [o for o in operands if o.known and all(map(self._is_there, o.known)) and len(o.known) == len(o.places)]
        astray = [o for o in operands if any(p.where is Where.HOST and not self._is_there(p) for p in o.known)]
        partly = [o for o in astray if any(p.is_batch for p in o.known) and len(o.known) == len(o.places)]
        if self._was_amiss(operands):
            return
        if not there:
            self._settle(node, partly, [o for o in astray if o not in partly])
            return
        if not astray or (not is_model and self._settle(node, there, astray)):
            return
        was_there = any(o.was(Where.ACCELERATOR) for o in there)
        for operand in astray:
            for place, source in operand.places:
                if was_there and place.was is Where.HOST:
                    continue  # the plain script would fail on this way, too
                if place.where is not Where.HOST or self._is_there(place):
                    continue
                if place.origin is not None and not self._is_a_move(place.origin):
                    self.found.wanted.append((place.origin, source))
                elif place.origin is None and source is not None and operand.is_now(Where.HOST):
                    self.doubtful[source] = None  # an argument or a default says the host's memory

    def _settle(self, node: ast.AST, there: list[Operand], others: list[Operand]) -> bool:
        """Whether batches and what meets them come together: beside the batches, or in the host's memory."""
        return bool(there) and (self._follow(node, others) or self._read_on_host(node, there, others))

    def _follow(self, node: ast.AST, astray: list[Operand]) -> bool:
        """Whether all that stays behind can be made where the tensor is whose size it gets: `torch.zeros(len(y))`."""
        places = {p for o in astray for p in o.known if not self._is_there(p)}
        found = {p.origin: self._sized_as(p.origin, node) for p in places if isinstance(p.origin, ast.Call)}
        if not found or None in found.values() or any(p.origin not in found for p in places):
            return False
        for origin, tensor in found.items():
            assert tensor is not None
            self.following[origin] = tensor
            self.lattice.bring(origin, self.lattice.symbolic(tensor))
        return True

    def _sized_as(self, origin: ast.Call, node: ast.AST) -> ast.Name | None:
        """`y` of `torch.zeros(y.shape[0], 4)`, if `y` is what it meets."""
        if not self.tensors.takes_a_device(origin) or draws_into(self.program, origin):
            return None
        met = [p for p in self._operands(node) if isinstance(p, ast.expr) and isinstance(_first_name(p), ast.Name)]
        for read in (n for n in ast.walk(origin) if isinstance(n, ast.Name)):
            user = self.program.parent(read)
            is_tensor = (isinstance(user, ast.expr) and tells_about(user)) or self.shapes.is_tensor(read)
            if is_tensor and any(_first_name(p).id == read.id and self._is_same(p, read) for p in met):  # type: ignore[attr-defined]  # a name
                return read
        return None

    def _read_on_host(self, node: ast.AST, there: list[Operand], others: list[Operand]) -> bool:
        """Whether batches that are on the device, or may be, can be read in the host's memory, where the rest is."""
        is_host = all(o.is_now(Where.HOST) and not any(map(self._is_there, o.known)) for o in others)
        if not others or not is_host or any(not o.is_own_batch or self._is_changed(node, o) for o in there):
            return False
        for operand in there:
            self._bring_back(operand)
        return True

    def _moves_its_inputs(self, call: ast.Call) -> bool:
        """Whether a model that is called was inside a wrapper that brings there what it gets."""
        held = self.program.values(call.func.value if _is_forward(call) else call.func)  # type: ignore[attr-defined]  # checked
        return bool(held & self._wrapped) and getattr(call.func, "attr", "") != "module"

    @cached_property
    def _wrapped(self) -> frozenset[Value]:
        wrappers = (c for c in self.program.calls if any(map(names.moves_its_inputs, self.program.called(c))))
        return frozenset(v for c in wrappers for v in self.program.values(c))

    def _is_changed(self, node: ast.AST, operand: Operand) -> bool:
        """Whether an operand is changed in place, so that a copy in the host's memory will not do."""
        return any(source is not None and self._changes(node, source) for _, source in operand.places)

    def _changes(self, node: ast.AST, source: ast.expr) -> bool:
        if isinstance(node, ast.AugAssign) or self._is_receiver_in_place(source):
            return not (isinstance(node, ast.AugAssign) and self.program.inside(source, node.value))
        call = self.program.parent(source)
        call = self.program.parent(call) if isinstance(call, ast.keyword) else call
        if not isinstance(call, ast.Call) or call is node:
            return False
        for function in self.program.flow.callees.get(call, ()):
            named = (p.arg for p in function.parameters)
            taken = [n for n in named if self.lattice.tracer.argument(call, function, n) is source]
            if any(self._is_receiver_in_place(r) for n in taken for r in self.program.reads_of(function, n)):
                return True
        return False

    def _is_receiver_in_place(self, node: ast.expr) -> bool:
        """`x` of `x.sub_(mean)` and of `x[0] = 1`."""
        parent = self.program.parent(node)
        if isinstance(parent, ast.Subscript) and parent.value is node:
            return isinstance(parent.ctx, ast.Store)
        call = self.program.parent(parent) if isinstance(parent, ast.Attribute) else None
        if not isinstance(parent, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not parent:
            return False
        row = table.member("tensor", parent.attr)
        return row is not None and "self" in row.mutates

    @staticmethod
    def _is_a_move(origin: ast.AST) -> bool:
        """`x.to(device)`, of which a note says that its device has to be the accelerator's."""
        is_method = isinstance(origin, ast.Call) and isinstance(origin.func, ast.Attribute)
        return is_method and origin.func.attr == "to"  # type: ignore[attr-defined]  # checked

    @staticmethod
    def _was_amiss(operands: list[Operand]) -> bool:
        """Whether the plain script would have failed by what is known of it: then something is known wrongly."""
        return any(o.was(Where.ACCELERATOR) for o in operands) and any(o.was(Where.HOST) for o in operands)

    def _bring_back(self, operand: Operand) -> None:
        for _, source in operand.places:
            if source is None or source in self.read or source in self.doubtful:
                continue
            if not self.is_tensor(source):
                self.doubtful[source] = None
                continue
            self.read[source] = None
            self.lattice.bring(source, on_host(source))

    def is_tensor(self, node: ast.expr) -> bool:
        """Whether an expression is one tensor, by itself or by what is done to the same value elsewhere."""
        parent = self.program.parent(node)
        if self.host.is_asked_about(node):
            return False
        if self.shapes.is_tensor(node) or (isinstance(parent, ast.Attribute) and parent.attr == "numpy"):
            return True
        if isinstance(parent, ast.Call) and self._gives_a_type(parent, node) and self.shapes.is_collated(node):
            return True
        if self.shapes.may_be_array(node):
            return False
        return self._is_shown(node, _is_of_tensors)

    def is_always_tensor(self, node: ast.expr) -> bool:
        """Whether an expression is one tensor in every call, or would be read by what takes no array and no number."""
        parent = self.program.parent(node)
        if isinstance(parent, ast.Attribute) and parent.attr == "numpy":
            return True
        if isinstance(parent, ast.Call) and self._gives_a_type(parent, node):
            return True
        if self._proven.is_tensor(node) or self._proven.is_collated(node):
            return True
        is_own = any(parsed.path == self.program.path(node) for parsed in self.program.named)
        return is_own and self._is_shown(node, methods.moves)

    @cached_property
    def _proven(self) -> Shapes:
        return Shapes(self.lattice, is_strict=True)

    def _gives_a_type(self, call: ast.Call, node: ast.expr) -> bool:
        """Whether a type of tensors gets it, `torch.LongTensor(x)`, which takes numbers, and no text."""
        return node in call.args and any(names.memory_of_type(n) is not None for n in self.program.called(call))

    def _is_same(self, a: ast.expr, b: ast.expr) -> bool:
        """Whether two expressions that are spelled alike may have one value: `y` is another after `y = f(y)`."""
        first, second = (self.program.definitions(n).definitions(_first_name(n)) for n in (a, b))
        return not first or not second or not first.isdisjoint(second)

    def _is_shown(self, node: ast.expr, shows: Callable[[str], bool]) -> bool:
        """Whether a loss in the same function gets a value, or a method that shows a tensor is called on it."""
        calls = self.program.calls_in(self.program.frame(node))
        shown = [s for call in calls for s in self._shown_as_tensors(call, shows)]
        text = ast.unparse(node)
        return any(ast.unparse(s) == text and self._is_same(s, node) for s in shown)

    def _shown_as_tensors(self, call: ast.Call, shows: Callable[[str], bool]) -> list[ast.expr]:
        """The arguments that a call shows to be tensors."""
        if self.tensors.is_loss(call):
            return call.args
        is_own = isinstance(call.func, ast.Attribute) and shows(call.func.attr)
        return [call.func.value] if is_own else []  # type: ignore[attr-defined]  # checked


def _first_name(node: ast.expr) -> ast.expr:
    """`batch` of `batch["y"].data`"""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node


def _as_the_plain_script_ran(operands: list[Operand]) -> list[Operand]:
    """The operands without what would have stopped the plain script: beside a batch in the host's memory, the GPU's."""
    if not any(o.was(Where.HOST) and all(p.is_batch for p in o.known) for o in operands):
        return operands
    ran = [Operand(tuple((p, source) for p, source in o.places if p.was is not Where.ACCELERATOR)) for o in operands]
    return [r if r.places else o for r, o in zip(ran, operands, strict=True)]


def _is_of_tensors(method: str) -> bool:
    return methods.shows_a_tensor(method) or methods.moves(method) or method == "type"


def _is_forward(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "forward"


def _needs_one_device(row: Row | None) -> bool:
    if row is None:
        return False
    return row.has(Trait.ONE_DEVICE) or (row.rows is not None and row.rows.value == "concatenates")
