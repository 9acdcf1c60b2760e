"""Where do tensors meet that must be on one device, and which of them are in the CPU's memory?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from accelify.codemod.devices.destinations import Where
from accelify.codemod.devices.host_reads import HostReads
from accelify.codemod.devices.lattice import UNKNOWN, Lattice, Place, Places, on_host
from accelify.codemod.libraries import methods, names, table, vocabulary
from accelify.codemod.libraries.row import Trait
from accelify.codemod.preparing.grouping import Group
from accelify.codemod.preparing.tensors import Tensors
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.provenance import Binding, Tracer
from accelify.codemod.semantics.scopes import Scope, returned
from accelify.codemod.semantics.values import Element, Instance, Made, Member, Value


@dataclass
class Meeting:
    """The tensors that are not where they must be.

    wanted: the tensors that must come to the device, each with the operand that holds it there, if that is one.
    refused: those that something can take on the CPU only. stuck: where the device is unknown. read: the tensors that
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
        self.host = whereabouts.program.once(HostReads)
        self.roles = whereabouts.roles
        self.tensors = whereabouts.tensors
        self.read: dict[ast.expr, None] = {}
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
        """The conflicts once some tensors have been brought to the device."""
        self.brought = brought
        self._read_listed()
        self._read_beside_arrays()
        shared = (t for t in self.host.shared if self.is_there(self.whereabouts.of(t)))
        self.found = Meeting(read=set(self.read), stuck=[*self.host.asked, *shared])
        self.found.wanted += [(c, None) for c in self.tensors.made_in_models() if c not in brought]
        for node in self.nodes:
            if isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, ast.BinOp):
                self._meet([node.left, node.right])
            elif isinstance(node, ast.Compare):
                self._meet(compared(node))
            elif isinstance(node, ast.AugAssign):
                self._added(node)
            elif self.is_there(self.whereabouts.of(node.slice)):
                self._want(node.value)
        return self.found

    def _read_listed(self) -> None:
        """Bring back what is put into lists that are read in the host's memory: it is there for all who read them."""
        for node in sorted(self.host.listed, key=self.program.position):
            if self.whereabouts.may_be_there(node, self.brought) and self.is_tensor(node):
                self._read_back(node)

    def _read_beside_arrays(self) -> None:
        """Bring back what meets what NumPy made of tensors: `np.argmax(out, axis=1) == y`."""
        for node in self.nodes:
            operands = _operands(node) or [] if isinstance(node, (ast.BinOp, ast.Compare)) else []
            arrays = [o for o in operands if self._is_array(o)]
            for operand in operands if arrays else ():
                if operand not in arrays and self.is_there(self.whereabouts.of(operand)) and self.is_tensor(operand):
                    self._read_back(operand)

    def _read_back(self, node: ast.expr) -> None:
        self.read[node] = None
        self.whereabouts.bring(node, on_host(node))

    def is_tensor(self, node: ast.expr) -> bool:
        """Whether an expression is one tensor."""
        return self.shapes.is_tensor(node)

    def is_always_tensor(self, node: ast.expr) -> bool:
        """Whether an expression is one tensor in every call, or is asked for its array."""
        parent = self.program.parent(node)
        if isinstance(parent, ast.Attribute) and parent.attr == "numpy":
            return True
        if self.host.is_asked_about(node):
            return False
        return self._proven.is_tensor(node) or self._proven.is_collated(node)

    @cached_property
    def _proven(self) -> Shapes:
        return Shapes(self.whereabouts, is_strict=True)

    def is_there(self, places: Places) -> bool:
        """Whether some of it is on the device by then."""
        return any(map(self._is_there, places))

    def is_all_there(self, places: Places) -> bool:
        """Whether all of it is."""
        return bool(places) and all(map(self._is_there, places))

    def _is_there(self, place: Place) -> bool:
        return place.where is Where.ACCELERATOR or place.origin in self.brought

    # The requirements of code.

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

    def _is_array(self, node: ast.expr) -> bool:
        """Whether something is what NumPy made of tensors: of an array, and a tensor, in the host's memory."""
        made = [p.origin for p in self.whereabouts.of(node)]
        return bool(made) and all(isinstance(m, ast.Call) and self.host.is_of_arrays(m) for m in made)

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
        read = self.host.of(call)
        for argument in read:
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
                if not any(node in read for node in ast.walk(argument)):
                    self._refuse(argument)
        else:
            self._other_call(call, given, called, is_own=is_own)

    def _other_call(self, call: ast.Call, given: list[ast.expr], called: Collection[str], *, is_own: bool) -> None:
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

    def _computed(self, call: ast.Call, given: list[ast.expr], called: Collection[str]) -> None:
        """Functions of torch's, and methods of tensors."""
        if self.tensors.is_creator(call):
            return
        computes = isinstance(call.func, ast.Attribute) and methods.computes(call.func.attr)
        receiver = call.func.value if computes else None  # type: ignore[attr-defined]  # an attribute
        if any(n.startswith("torch.") for n in called):
            if all(map(names.may_compute, called)):
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

    def _is_hosted(self, call: ast.Call, called: Collection[str]) -> bool:
        """Whether a call is to a library that knows of no device, or to an object of such a one."""
        if any(map(names.leaves_to_argument, called)) or any(map(names.takes_text, called)):
            return False
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_embedding":
            return True  # TensorBoard puts the pictures beside some of its own
        roots = [v.root for v in self.program.values(call.func) if isinstance(v, Member)]
        made = [v.name or "" for v in roots if isinstance(v, Made)]
        return any(map(vocabulary.is_on_host, [*called, *made]))


_DEPTH = 6
_COLLATE_FN = 6  # its place among the parameters of `DataLoader`


class Shapes:
    """Decided by how a value is made, and by how it is used.

    is_strict: by what holds whoever calls a function that other programs import, too, and what arrays do not have.
    """

    def __init__(self, whereabouts: Lattice, *, is_strict: bool = False) -> None:
        self.whereabouts = whereabouts
        self.is_strict = is_strict
        self.program = whereabouts.program
        self.tracer = whereabouts.tracer
        self.tensors = whereabouts.tensors

    def is_tensor(self, node: ast.expr | None, depth: int = _DEPTH) -> bool:
        """Whether an expression is one tensor."""
        if node is None or not depth or self.whereabouts.is_text(node):
            return False
        if (operands := _operands(node)) is not None:
            return any(self.is_tensor(o, depth - 1) for o in operands)
        if isinstance(node, ast.Subscript):
            is_one = not isinstance(node.slice, ast.Slice) and not self.may_be_array(node)
            is_item = is_one and self._has_such_items(node.value, node.slice)
            is_item = is_item or (isinstance(node.slice, ast.Tuple) and self._is_of_a_model(node.value))
            return is_item or self.is_tensor(node.value, depth - 1) or self._is_a_part(node)
        if isinstance(node, ast.Attribute):
            if methods.is_tensor_of(node.attr):
                return self.is_tensor(node.value, depth - 1)
            written = self.program.attribute_writes.get(node.attr, ())
            return bool(written) and all(self.is_tensor(self.tracer.assigned(w), depth - 1) for w in written)
        if isinstance(node, ast.Call):
            return self._is_made_one(node, depth)
        if not isinstance(node, ast.Name):
            return False
        owner = self.program.scope(node).owner(node.id)
        writes = [] if owner is None else self.program.reaching(node, self.tracer.writes(owner, node.id))
        if any(isinstance(self.program.parent(w), ast.AugAssign) for w in writes):
            writes = [w for w in writes if not self._gives_a_number(w)]  # `total = 0`, to which tensors are added
        return bool(writes) and owner is not None and all(self.holds_one(owner, w, depth) for w in writes)

    def may_be_array(self, node: ast.expr) -> bool:
        """Whether some of what an expression may hold is an array: of `parts[key] = np.pad(parts[key], 1)`."""
        made = (v.name for v in self.program.values(node) if isinstance(v, Made))
        is_made = any(name is not None and vocabulary.takes_arrays(name) for name in made)
        return is_made or "ndarray" in self.program.once(Kinds).of(node)

    def _gives_a_number(self, write: ast.AST) -> bool:
        value = self.tracer.assigned(write) if isinstance(write, ast.Name) else None
        return isinstance(value, ast.Constant) and isinstance(value.value, (int, float))

    def _is_made_one(self, call: ast.Call, depth: int) -> bool:
        if self.tensors.is_creator(call):
            return True
        callees = self.program.flow.callees.get(call)
        if callees:
            return all(self.is_tensor(r, depth - 1) for r in returned(callees))
        if self.tensors.is_loss(call):
            return True
        called = self.program.called(call)
        rows = [table.function(n) for n in called]
        is_joined = any(r is not None and r.returns == "tensor" and r.has(Trait.ONE_DEVICE) for r in rows)
        if is_joined or any(map(_is_variable, called)):
            return True
        if any(map(names.leaves_to_argument, called)):
            return self.is_tensor(call.args[0] if call.args else None, depth - 1)
        is_torch = any(n.startswith("torch.") and n.rpartition(".")[2].islower() for n in called)
        if is_torch or any(r is not None and r.returns == "tensor" for r in rows):
            is_one = any(map(names.takes_a_tensor, called)) and any(map(self._is_of_a_model, call.args[:1]))
            return is_one or any(self.is_tensor(a, depth - 1) for a in call.args)
        held = self.program.values(call.func)
        if self.tensors.is_model_call(call) or any(map(_gives_one, held)):
            return all(map(_gives_one, held))
        if not isinstance(call.func, ast.Attribute) or called or methods.gives_no_tensor(call.func.attr):
            return False
        is_of_tensors = table.member("tensor", call.func.attr) is not None
        if self._shows_one(call.func) or (is_of_tensors and self._is_of_a_model(call.func.value)):
            return True
        return self.is_tensor(call.func.value, depth - 1)

    def _shows_one(self, method: ast.Attribute) -> bool:
        """Whether nothing but a tensor has a method: `detach`; a module has some of them."""
        is_one = methods.shows_a_tensor(method.attr) and table.member("ndarray", method.attr) is None
        return is_one and not any(map(self.tensors.roles.is_module, self.program.values(method.value)))

    def _is_of_a_model(self, node: ast.expr) -> bool:
        """Whether something is what a prepared model gives, or a part of it."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        return isinstance(node, ast.Call) and self.tensors.is_model_call(node)

    def holds_one(self, owner: Scope, write: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether a binding gives its name a tensor."""
        if isinstance(write, ast.arg):
            if self._may_be_imported(owner):
                return False
            if self._is_given_one(owner, write.arg, write):
                return True
            calls = self.program.flow.callers.get(owner, ())
            return bool(calls) and all(
                self.is_tensor(self.tracer.argument(c, owner, write.arg), depth - 1) for c in calls
            )
        if not isinstance(write, ast.Name):
            return False
        value = self.tracer.assigned(write) or self._gone_over(write)
        loop = self.program.parent(write)
        if isinstance(loop, ast.AugAssign):
            value = loop.value
        if value is not None and self.is_tensor(value, depth - 1):
            return True
        if value is None and isinstance(loop, (ast.Tuple, ast.List)) and self._is_part_of_one(write, loop, depth - 1):
            return True
        if self._is_of_tensors(write):
            return True
        return not (value is not None and self.may_be_array(value)) and self._is_given_one(owner, write.id, write)

    def _may_be_imported(self, function: Scope) -> bool:
        """Whether programs that are not read may call a function with what this one does not."""
        return self.is_strict and all(parsed.path != self.program.path(function.node) for parsed in self.program.named)

    def _gone_over(self, write: ast.Name) -> ast.expr | None:
        """What a loop's variable gets the rows of: `x` for `row` of `for k, (row, y) in enumerate(zip(x, ys))`."""
        path, holder = self.program.binding(write)
        is_loop = isinstance(holder, (ast.For, ast.AsyncFor, ast.comprehension))
        over = holder.iter if is_loop else None  # type: ignore[union-attr]  # a loop
        while isinstance(over, ast.Call):
            passed = self.whereabouts.gone_over_by(over, path)
            if passed is None or passed[0] is over:
                break
            over, path = passed
        return over if not path else None

    def _is_from_elsewhere(self, owner: Scope, write: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether what a binding gives its name may be what unknown code returns: a tensor, or an array."""
        if isinstance(write, ast.arg):
            given = [self.tracer.argument(c, owner, write.arg) for c in self.program.flow.callers.get(owner, ())]
        else:
            given = [self.tracer.assigned(write)] if isinstance(write, ast.Name) else []
        return any(self._is_of_unknown_code(g, depth) for g in given)

    def _is_of_unknown_code(self, node: ast.expr | None, depth: int) -> bool:
        if isinstance(node, ast.Name) and depth:
            owner = self.program.scope(node).owner(node.id)
            writes = [] if owner is None else self.program.reaching(node, self.tracer.writes(owner, node.id))
            return owner is not None and any(self._is_from_elsewhere(owner, w, depth - 1) for w in writes)
        if not isinstance(node, ast.Call) or self.program.flow.callees.get(node):
            return False
        called = self.program.called(node)
        if isinstance(node.func, ast.Attribute) and not called:  # a method: of what?
            return self._is_of_unknown_code(node.func.value, depth)
        return any(table.function(n) is None and not n.startswith("torch.") for n in called)

    def _is_part_of_one(self, write: ast.Name, targets: ast.Tuple | ast.List, depth: int) -> bool:
        """Whether a name gets a part of what a call gives, as of `lengths, order = torch.sort(lengths)`."""
        statement, at = self.program.statement(write), targets.elts.index(write)
        call = statement.value if isinstance(statement, ast.Assign) and targets in statement.targets else None
        if not isinstance(call, ast.Call) or methods.gives_no_tensor(getattr(call.func, "attr", "")):
            return False
        parts = [
            r.elts[at] if isinstance(r, ast.Tuple) and len(r.elts) == len(targets.elts) else r
            for r in returned(self.program.flow.callees.get(call, ()))
        ]
        return all(self.is_tensor(part, depth) for part in parts) if parts else self._is_made_one(call, depth)

    def _is_of_tensors(self, write: ast.Name) -> bool:
        """Whether a name gets a part of a batch of a data set that is known to yield tensors."""
        return not self.whereabouts.is_batch(write) and self._is_from(write, self._has_tensors)

    def _is_a_part(self, node: ast.Subscript) -> bool:
        """`batch[0]` of such a batch."""
        return isinstance(node.slice, ast.Constant) and self._is_batch_of(node.value, self._has_tensors)

    def _is_batch_of(self, whole: ast.expr, is_such: Callable[[ast.expr | None], bool]) -> bool:
        """Whether a name has a batch of such a loader."""
        owner = self.program.scope(whole).owner(whole.id) if isinstance(whole, ast.Name) else None
        if not isinstance(whole, ast.Name) or owner is None:
            return False
        writes = self.program.reaching(whole, self.tracer.writes(owner, whole.id))
        return bool(writes) and all(
            isinstance(w, ast.Name) and self.whereabouts.is_batch(w) and self._is_from(w, is_such) for w in writes
        )

    def _is_from(self, write: ast.Name, is_such: Callable[[ast.expr | None], bool]) -> bool:
        """Whether what a name gets comes from loaders of some kind."""
        source = self._source(write)
        chains = self.tracer.chains(source) if source is not None else []
        return bool(chains) and all(is_such(chain[-1].value) for chain in chains)

    def _source(self, write: ast.Name) -> ast.expr | None:
        """The loader, or the iterator over it, of whose batch a name gets a part."""
        statement = self.program.statement(write)
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            return statement.iter
        value = statement.value if isinstance(statement, ast.Assign) else None
        if isinstance(value, ast.Call):
            return self.program.iterator(value)
        whole = [p.origin for p in self.whereabouts.of(value) if self.whereabouts.is_batch(p.origin)]
        return self._source(whole[0]) if len(whole) == 1 and isinstance(whole[0], ast.Name) else None

    def is_collated(self, node: ast.expr | None, depth: int = _DEPTH) -> bool:
        """Whether an expression is a part of a batch that torch collates itself: a tensor, if it is of numbers."""
        if isinstance(node, ast.Subscript):
            return isinstance(node.slice, ast.Constant) and self._is_batch_of(node.value, self._collates_several)
        owner = self.program.scope(node).owner(node.id) if isinstance(node, ast.Name) and depth else None
        if owner is None or not isinstance(node, ast.Name):
            return False
        writes = self.program.reaching(node, self.tracer.writes(owner, node.id))
        return bool(writes) and all(self._gets_collated(owner, w, depth) for w in writes)

    def _gets_collated(self, owner: Scope, write: ast.AST, depth: int) -> bool:
        if isinstance(write, ast.arg):
            calls = self.program.flow.callers.get(owner, ()) if not self._may_be_imported(owner) else ()
            given = [self.tracer.argument(c, owner, write.arg) for c in calls]
            return bool(given) and all(self.is_collated(g, depth - 1) for g in given)
        path, holder = self.program.binding(write) if isinstance(write, ast.Name) else ((), None)
        if isinstance(holder, ast.Assign) and isinstance(holder.value, (ast.Name, ast.Subscript)):
            whole = holder.value
            return self._is_batch_of(whole, self._collates_several) if path else self.is_collated(whole, depth - 1)
        is_whole = self.whereabouts.is_batch(write)
        return isinstance(write, ast.Name) and not is_whole and self._is_from(write, self._collates_several)

    def _is_plain_loader(self, loader: ast.expr | None) -> bool:
        """Whether one of torch's loaders collates its rows itself."""
        if not isinstance(loader, ast.Call) or not _collates(loader):
            return False
        return any(map(names.is_torch_loader, self.program.called(loader)))

    def _collates_several(self, loader: ast.expr | None) -> bool:
        """Whether it does so by several: of single rows that are lists, a type of tensors takes the numbers."""
        given = [k.value for k in loader.keywords if k.arg == "batch_size"] if isinstance(loader, ast.Call) else []
        given += loader.args[1:2] if isinstance(loader, ast.Call) else []
        is_one = any(isinstance(g, ast.Constant) and g.value in (None, 1) for g in given)
        return bool(given) and not is_one and self._is_plain_loader(loader)

    def _has_tensors(self, loader: ast.expr | None) -> bool:
        """Whether a loader collates known data as torch does."""
        if not isinstance(loader, ast.Call) or not self._is_plain_loader(loader):
            return False
        given = loader.args[0] if loader.args else next((k.value for k in loader.keywords if k.arg == "dataset"), None)
        return self._yields_tensors(given, _DEPTH)

    def _yields_tensors(self, data: ast.expr | None, depth: int) -> bool:
        made = [v for v in self.program.values(data) if isinstance(v, Made)]
        if not made or not depth:
            return False
        for value in made:
            of_parts = names.holds_data(value.name) and isinstance(value.node, ast.Call) and bool(value.node.args)
            if of_parts and self._yields_tensors(value.node.args[0], depth - 1):  # type: ignore[attr-defined]  # a call
                continue
            if not names.yields_tensors(value.name):
                return False
        return True

    # By use.

    def _is_given_one(self, owner: Scope, name: str, write: ast.AST) -> bool:
        """Whether a name is used as one tensor where it may still have what a binding gave it."""
        of_arrays = not self._is_from_elsewhere(owner, write)
        used = (r for r in owner.reads.get(name, ()) if self._is_used_as_one(r, of_arrays=of_arrays))
        return any(write in self.program.reaching(r, [write]) for r in used)

    def _has_such_items(self, whole: ast.expr, at: ast.expr) -> bool:
        """Whether any item of a list is used as a tensor: one by one, in a loop, or by `torch.stack(items)`.

        What it has at another constant key or index says nothing of what it has at this one.
        """
        owner = self.program.scope(whole).owner(whole.id) if isinstance(whole, ast.Name) else None
        if owner is None or not isinstance(whole, ast.Name):
            return self._is_read_for_tensors(whole)
        of_arrays = not any(self._is_from_elsewhere(owner, w) for w in self.tracer.writes(owner, whole.id))
        reads = [r for r in owner.reads.get(whole.id, ()) if not self._is_read_at_another_key(r, at)]
        return any(self._is_read_for_tensors(r, of_arrays=of_arrays) for r in reads)

    def _is_read_at_another_key(self, read: ast.expr, at: ast.expr) -> bool:
        holder = self.program.parent(read)
        key = holder.slice if isinstance(holder, ast.Subscript) else None
        return isinstance(at, ast.Constant) and isinstance(key, ast.Constant) and at.value != key.value

    def _is_read_for_tensors(self, read: ast.expr, *, of_arrays: bool = True) -> bool:
        holder = self.program.parent(read)
        if isinstance(holder, ast.Subscript):
            return holder.value is read and self._is_used_as_one(holder, of_arrays=of_arrays)
        if isinstance(holder, (ast.For, ast.comprehension)):
            if holder.iter is not read or not isinstance(holder.target, ast.Name):
                return False
            scope = self.program.scope(holder.target)
            return self._is_name_used_as_one(scope, holder.target.id, of_arrays=of_arrays)
        return isinstance(holder, ast.Call) and any(map(names.joins_tensors, self.program.called(holder)))

    def _is_name_used_as_one(self, owner: Scope, name: str, depth: int = 2, *, of_arrays: bool = True) -> bool:
        """of_arrays: members that arrays have, too, count."""
        return any(self._is_used_as_one(read, depth, of_arrays=of_arrays) for read in owner.reads.get(name, ()))

    def _is_used_as_one(self, read: ast.expr, depth: int = 2, *, of_arrays: bool = True) -> bool:
        parent = self.program.parent(read)
        if isinstance(parent, ast.Attribute):
            call = self.program.parent(parent)
            if isinstance(call, ast.Call) and call.func is parent and methods.says_it_is_of_a_tensor(call):
                return True
            counts = (of_arrays and not self.is_strict) or table.member("ndarray", parent.attr) is None
            return counts and methods.shows_a_tensor(parent.attr)
        if isinstance(parent, (ast.Subscript, ast.Tuple)):
            return self._is_of_plain_loaders(read) and self._picks_rows(parent, read)
        if not isinstance(parent, ast.Call) or parent.func is read:
            return False
        is_first = parent.args[:1] == [read] and any(map(names.takes_a_tensor, self.program.called(parent)))
        if is_first or self.tensors.is_loss(parent) or any(map(_is_variable, self.program.called(parent))):
            return True
        values = self.program.values(parent.func)
        if any(isinstance(v, Made) and (v.name or "").startswith("torch.nn.") for v in values):
            return True
        given = [(c, p.arg) for c in self.program.flow.callees.get(parent, ()) if depth for p in c.parameters]
        taken = [(c, name) for c, name in given if self.tracer.argument(parent, c, name) is read]
        return bool(taken) and all(
            self._is_name_used_as_one(c, name, depth - 1, of_arrays=of_arrays) for c, name in taken
        )

    def _picks_rows(self, parent: ast.Subscript | ast.Tuple, read: ast.expr) -> bool:
        """Whether a value says which rows of an array, or of a tensor: `picked` of `rows[picked]`."""
        holder = self.program.parent(parent) if isinstance(parent, ast.Tuple) else parent
        if not isinstance(holder, ast.Subscript) or holder.slice not in (parent, read):
            return False
        is_array = self.program.once(HostReads).is_picked_by_number(holder.value)
        return is_array or (holder.value is not read and self.is_tensor(holder.value))

    def _is_of_plain_loaders(self, node: ast.expr) -> bool:
        """Whether a value is a batch, or a part of one, that torch collates: numbers become a tensor, texts a list."""
        held = [self._loader_of(v) for v in self.program.values(node)]
        return bool(held) and all(isinstance(loader, ast.Call) and _collates(loader) for loader in held)

    def _loader_of(self, value: Value) -> ast.AST | None:
        while isinstance(value, (Element, Member)):
            value = value.owner
        is_loader = isinstance(value, Made) and names.is_torch_loader(value.name or "")
        return value.node if isinstance(value, Made) and is_loader else None


def _collates(loader: ast.Call) -> bool:
    """Whether a loader makes its batches as torch does."""
    is_said = len(loader.args) > _COLLATE_FN or any(k.arg in ("collate_fn", None) for k in loader.keywords)
    return not is_said


def compared(node: ast.Compare) -> list[ast.expr]:
    """What is compared by value, and not asked who or where it is: nothing of `x is None`, `x in rows`."""
    is_about = any(isinstance(o, (ast.In, ast.NotIn, ast.Is, ast.IsNot)) for o in node.ops)
    return [] if is_about else [node.left, *node.comparators]


def listed(node: ast.expr) -> list[ast.expr]:
    """The tensors of `torch.cat([x, y])`, one by one."""
    if isinstance(node, ast.Starred):
        return [node.value]
    return [e for part in node.elts for e in listed(part)] if isinstance(node, (ast.List, ast.Tuple)) else [node]


def _operands(node: ast.expr) -> list[ast.expr] | None:
    """The operands of an operator, one of which makes a tensor of the result."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Compare):
        return compared(node)
    is_sign = isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not)
    return [node.operand] if isinstance(node, ast.UnaryOp) and is_sign else None


def _gives_one(model: Value) -> bool:
    """Whether a module of torch's gives one tensor: all but recurrent networks and attention do."""
    name = model.name or "" if isinstance(model, Made) else ""
    return name.startswith("torch") and names.is_module(name) and table.kind_made_by(name) != "recurrent"


def _is_variable(name: str) -> bool:
    return name.startswith("torch.autograd.Variable")


class Cold:
    """Such a network is on the CPU while it runs."""

    def __init__(self, tensors: Tensors, tracer: Tracer) -> None:
        self.tensors = tensors
        self.tracer = tracer
        self.program = tensors.program
        self.roles = tensors.roles
        self.preparation = tensors.prepared.preparation
        self._run_by: dict[Scope, list[ast.Call]] = {}

    def made_at(self, call: ast.Call) -> list[ast.Call] | None:
        """Where the networks are made that a call runs cold; None where that is not known."""
        network = self._network(call)
        held = self.program.values(network)
        if network is None or not any(map(self.learns, held)) or self._moves_along(network, call):
            return []
        if self.tensors.is_in_model(self.program.frame(call)):
            running = self._running(self.program.frame(call))
            return None if isinstance(network, ast.Call) else [m for c in running for m in self.made_at(c) or ()]
        if held <= self.preparation.models and self._trains_itself(network):
            return []
        found: list[ast.Call] = []
        for chain in self.tracer.chains(network):
            items = [b for b in chain if self._is_prepared(b)]
            if items and not any(self._runs_before(call, g) for b in items for g in self._groups(b)):
                continue
            made = chain[-1].value
            if not isinstance(made, ast.Call) or not any(map(self.roles.is_module, self.program.values(made))):
                return None
            found.extend(self._outermost(made))
        return found if found or self.tracer.chains(network) or held <= self.preparation.models else None

    def _outermost(self, made: ast.Call) -> list[ast.Call]:
        """Where a network is made, or the networks are that it is a part of, as far as these are not prepared."""
        frame = self.program.frame(made)
        outer = self._running(frame) if self.tensors.is_in_model(frame) else [made]
        return [c for c in outer if c is made or self.program.values(c).isdisjoint(self.preparation.models)]

    def _running(self, method: Scope) -> list[ast.Call]:
        """The calls, outside of networks, that run a method of one, maybe through other methods."""
        if method not in self._run_by:
            frames, found = [method], list[ast.Call]()
            for frame in frames:
                for call in self.program.calls_of(frame):
                    caller = self.program.frame(call)
                    if not self.tensors.is_in_model(caller):
                        found.append(call)
                    elif caller not in frames:
                        frames.append(caller)
            self._run_by[method] = found
        return self._run_by[method]

    def _moves_along(self, network: ast.expr, call: ast.Call) -> bool:
        """Whether a network is a part of a prepared model, and runs once that is prepared."""
        return self.tensors.is_part(network) and not self.tensors.runs_early(call)

    def _network(self, call: ast.Call) -> ast.expr | None:
        """`net` of `net(x)`, `net.forward(x)`, `net.head(x)` and `next(net)`."""
        node = call.func
        if self.program.flow.callees.get(call) and self.program.externals(node) and call.args:
            node = call.args[0]
        if isinstance(node, ast.Attribute) and any(map(self._is_network, self.program.values(node.value))):
            return node.value if self.program.flow.callees.get(call) or self._is_any_network(node) else None
        return node if self._is_any_network(node) else None

    def _is_any_network(self, node: ast.expr) -> bool:
        return any(map(self._is_network, self.program.values(node)))

    def _is_network(self, value: object) -> bool:
        return isinstance(value, (Made, Instance)) and self.roles.is_module(value)

    def _trains_itself(self, network: ast.expr) -> bool:
        """Whether a network's class prepares itself."""
        own = [i.frame.parent for i in self.preparation.bare_models if i.text == "self"]
        return any(isinstance(v, Instance) and v.cls in own for v in self.program.values(network))

    def _is_prepared(self, binding: Binding) -> bool:
        if any(binding.node is node for kind, node in self.preparation.wrapped if kind == "model"):
            return True
        items = [i for i in [*self.preparation.items, *self.preparation.bare_models] if i.kind == "model"]
        return any(i.frame is binding.scope and i.text == binding.text for i in items)

    def _groups(self, binding: Binding) -> Iterator[Group]:
        for group in self.preparation.groups:
            if group.frame is binding.scope and any(i.text == binding.text for i in group.items):
                yield group

    def _runs_before(self, call: ast.Call, group: Group) -> bool:
        """Whether a call runs, or may run, before a group is prepared."""
        if group.anchor is None:
            return False
        frame = self.program.frame(call)
        if frame is group.frame:
            return self.program.before_end(call, group.anchor)
        earlier = [c for c in self.program.calls_in(group.frame) if self.program.before_end(c, group.anchor)]
        started = {s for c in earlier for s in self.program.flow.callees.get(c, ()) if s.name != "__init__"}
        return frame in self.program.run_from(started)

    def learns(self, value: object) -> bool:
        """Whether a module has weights, as far as can be seen."""
        if isinstance(value, Made):
            return names.has_weights(value.name)
        return isinstance(value, Instance) and self.roles.is_module(value) and self.roles.has_weights(value.cls)
