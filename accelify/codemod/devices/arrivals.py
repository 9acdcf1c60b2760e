"""Does a script that uses a GPU move all of each batch there, before it does anything else with it?

x, y = x.to(device), y.to(device)       then a prepared loader may do it, and the script's own moves go
right = guess.cpu() == y                `y` was never moved: the script's moves stay, and no loader moves anything
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cached_property

from accelify.codemod.devices.destinations import Where
from accelify.codemod.devices.host_reads import HostReads
from accelify.codemod.devices.lattice import Lattice, Place, asks_no_value, is_open
from accelify.codemod.devices.moves import Move, moved_by
from accelify.codemod.devices.rebuilt import rebuilt
from accelify.codemod.libraries import methods, names
from accelify.codemod.preparing.prepared import brings_to_cpu
from accelify.codemod.semantics.scopes import Scope, method_of_call
from accelify.codemod.semantics.values import Value

_CONTAINERS = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.NamedExpr)
_HOLDERS = (ast.For, ast.AsyncFor, ast.comprehension, ast.Assign, ast.AnnAssign, ast.Return, ast.Yield, ast.Expr)


class Arrivals:
    """Follow what prepared loaders yield from there to the moves, which are `gone` once a loader moves its batches."""

    def __init__(self, lattice: Lattice, gone: Collection[Move]) -> None:
        self.lattice = lattice
        self.program = lattice.program
        self.gone = {m.call: m.receiver for m in gone}
        functions = (m.call.func for m in gone)
        self.prepares = {c for f in functions if isinstance(f, ast.Attribute) for c in moved_by(f)[1]}
        containers = (rebuilt(self.program, m.call) for m in gone)
        self.taken_apart = {c.items for c in containers if c is not None}

    def reads(self) -> Iterator[ast.expr]:
        """What is read of batches while it may be in CPU memory still."""
        for parsed in self.program.files:
            for node in parsed.nodes:
                if isinstance(node, ast.expr) and self._arrives(node) and self._is_read(node):
                    yield node
                elif isinstance(node, ast.AugAssign) and any(map(_has_come, self.lattice.before(node))):
                    yield node.target
        for read in self.program.once(HostReads).all:
            if any(map(_may_have_come, self.lattice.of(read))):
                yield read

    def brought_by_wrapper(self) -> Iterator[ast.expr]:
        """What a model gets that was inside a wrapper which brings its inputs to the device, and nothing else does."""
        for call in filter(self._is_wrapped, self.program.calls):
            if self.program.frame(call) in self.program.reachable:
                yield from (n for n in _given(call) if self._arrives(n) or any(map(_stays, self.lattice.of(n))))

    def _is_wrapped(self, call: ast.Call) -> bool:
        is_forward = method_of_call(call) == "forward"
        model = call.func.value if is_forward else call.func  # type: ignore[attr-defined]  # an attribute
        return bool(self.program.values(model) & self._wrapped) and getattr(call.func, "attr", "") != "module"

    @cached_property
    def _wrapped(self) -> frozenset[Value]:
        wrappers = (c for c in self.program.calls if any(map(names.moves_its_inputs, self.program.called(c))))
        return frozenset(v for c in wrappers for v in self.program.values(c))

    @cached_property
    def _moves_batches(self) -> bool:
        """Whether the script moves batches, or parts of them, itself."""
        return any(p.is_batch for moved in self.gone.values() for p in self.lattice.of(moved))

    @cached_property
    def _inside(self) -> frozenset[Scope]:
        """The code that models run: what they are given is where they are."""
        run = {
            c for call in self.program.calls if self._runs_there(call) for c in self.program.flow.callees.get(call, ())
        }
        return frozenset(self.program.run_from(run))

    def _runs_there(self, call: ast.Call) -> bool:
        """Whether a call runs a model that was on the device."""
        if not self.lattice.tensors.is_model_call(call) or self.lattice.is_early(call):
            return False
        return all(p.was is Where.ACCELERATOR for p in self.lattice.of_model(call.func))

    def _arrives(self, node: ast.expr) -> bool:
        """Whether an expression may be (a part of) a batch that a loader brings to the device, and the script did not.

        Not yet, that is: it may do so with this expression.
        """
        user = self.program.parent(node)
        is_no_value = isinstance(user, ast.Call) and user.func is node
        is_stored = isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))
        is_no_value = is_no_value or (isinstance(node, ast.Compare) and asks_no_value(node))
        frame = self.program.frame(node)
        if is_no_value or is_stored or frame not in self.program.reachable or frame in self._inside:
            return False
        answers = ((self.lattice.holds(b.test), is_body) for b, is_body in self.program.branches_round(node))
        if any(holds is not None and holds is not is_body for holds, is_body in answers):
            return False  # where there is no GPU
        return any(map(_has_come, self.lattice.of(node)))

    def _is_there(self, node: ast.expr) -> bool:
        places = self.lattice.of(node)
        return bool(places) and all(p.was is Where.ACCELERATOR for p in places)

    def _is_read(self, node: ast.expr) -> bool:
        """Whether more is done with it than to move it, to take it apart, to pass it on, or to ask what it is.

        Where it meets what was on the device, it was there, too, however it came there.
        """
        user = self.program.parent(node)
        if isinstance(user, ast.Attribute):
            return self._is_member_read(user)
        if isinstance(user, ast.Call):
            return not self._passes_on(user, node)
        if isinstance(user, ast.keyword):
            call = self.program.parent(user)
            return not (isinstance(call, ast.Call) and self._passes_on(call, node))
        if isinstance(user, (ast.Compare, ast.BinOp)):
            operands = [user.left, *(user.comparators if isinstance(user, ast.Compare) else [user.right])]
            is_about = isinstance(user, ast.Compare) and asks_no_value(user)
            return not is_about and not any(self._is_there(n) for n in operands if n is not node)
        if isinstance(user, ast.Subscript):
            return user.slice is node or not self._goes_on(user)
        if isinstance(user, ast.IfExp):
            return user.test is node
        if isinstance(user, ast.Starred):
            return self._is_read(user)
        return not isinstance(user, (*_CONTAINERS, *_HOLDERS)) and node not in self.taken_apart

    def _goes_on(self, node: ast.expr) -> bool:
        """Whether an expression is looked at by itself, or was on the device in the plain script."""
        return self._arrives(node) or self._is_there(node)

    def _is_member_read(self, member: ast.Attribute) -> bool:
        call, name = self.program.parent(member), member.attr
        if methods.is_about(name) or not isinstance(call, ast.Call) or call.func is not member:
            return not methods.is_about(name) and not self._goes_on(member)
        if methods.prepares_a_move(name):
            return call not in self.prepares
        if call in self.gone or brings_to_cpu(call) or methods.is_size(name) or methods.gives_numbers(name):
            return False
        if methods.passes(name) is not None and not call.args:
            return False  # `batch.items()`
        is_same = methods.keeps_values(name) or methods.keeps_memory(name) or methods.moves_to_device(name)
        return not (is_same and self._goes_on(call))

    def _passes_on(self, call: ast.Call, node: ast.expr) -> bool:
        """Whether a call gives a batch to code that is looked at or to what is on the device, or asks what it is."""
        called, callees = self.program.called(call), self.program.flow.callees.get(call)
        if self.lattice.is_early(call):
            return False
        if self.lattice.tensors.is_model_call(call):
            # What the script does not move, where it moves the rest, is there on the CPU: `model(x.cuda(), lengths)`.
            return self._is_wrapped(call) if self._moves_batches else self._runs_there(call)
        if callees:
            taken = [self.lattice.tracer.argument(call, c, p.arg) for c in callees for p in c.parameters]
            return node in taken and not is_open(call)
        is_loss = self.lattice.tensors.is_loss(call)
        if is_loss and any(self._is_there(given) for given in _given(call) if given is not node):
            return True
        if node in self.taken_apart or any(map(names.asks_what_it_is, called)) or any(map(names.is_length, called)):
            return True
        is_same = any(n.startswith("torch.autograd.Variable") or names.iteration(n) for n in called)
        is_whole = any(map(names.makes_a_container, called)) or self._joins_batches(call)
        return is_same or (is_whole and self._goes_on(call))

    def _joins_batches(self, call: ast.Call) -> bool:
        """Whether a call puts parts of a batch together, and nothing else: `torch.cat([views[0], views[1]])`."""
        joined = call.args[0] if call.args and any(map(names.joins_tensors, self.program.called(call))) else None
        return joined is not None and all(map(_has_come, self.lattice.of(joined)))


def _given(call: ast.Call) -> list[ast.expr]:
    given = [*call.args, *(k.value for k in call.keywords)]
    return [n.value if isinstance(n, ast.Starred) else n for n in given]


def _stays(place: Place) -> bool:
    """Whether a tensor is in CPU memory after the rewrite."""
    return place.where is Where.HOST


def _has_come(place: Place) -> bool:
    """Whether a tensor is of a batch that only the loader brings to the device."""
    return place.is_batch and place.was not in (Where.ACCELERATOR, Where.UNKNOWN)


def _may_have_come(place: Place) -> bool:
    """Whether a tensor is of a batch of which only the caller of its function could say where it was."""
    return place.is_batch and place.was is Where.UNKNOWN
