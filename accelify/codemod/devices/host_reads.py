"""What is read in the CPU's memory only: by NumPy and what is built on it, and by the few such functions of torch's."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

from accelify.codemod.libraries import methods, names, table, vocabulary
from accelify.codemod.libraries.row import Device, Trait
from accelify.codemod.semantics.conditions import Conditions
from accelify.codemod.semantics.contents import Kept
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.in_place import InPlace
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, returned
from accelify.codemod.semantics.values import Collection, Constant, Element, External, Made, Member, Parameters, Value

_DEPTH = 4


class HostReads:
    """Look at the arguments of calls, and at what is in the containers among them.

    A library of arrays knows of no device, whatever its function or its object's method is: `np.argmax(x)`,
    `axes.imshow(x)` of `figure, axes = plt.subplots()`, `PCA(2).fit(x)`.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._of: dict[ast.Call, list[ast.expr]] = {}
        self._asked: dict[Scope, frozenset[str]] = {}

    @cached_property
    def calls(self) -> list[ast.Call]:
        """The calls that are run."""
        return [c for c in self.program.calls if self.program.frame(c) in self.program.reachable]

    @cached_property
    def listed(self) -> frozenset[ast.expr]:
        """What is put into the containers that are read there."""
        return frozenset(put for call in self.calls for read in self.of(call) for put in self.put_into(read))

    @cached_property
    def all(self) -> frozenset[ast.expr]:
        """All that is read there."""
        read = [read for call in self.calls for read in self.of(call)]
        return frozenset(r for r in self.listed.union(self.picks, self._stored(), read) if not self._is_no_tensor(r))

    def _is_no_tensor(self, node: ast.expr) -> bool:
        """Whether a condition says so where something is read: `s` of `s if torch.is_tensor(s) else np.array(s)`."""
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            return False
        for test, holds in self.program.once(Conditions).said_at(node):
            asked = self._denied(test, holds)
            if asked is not None and ast.unparse(asked) == ast.unparse(node) and self._is_same(asked, node):
                return True
        return False

    def is_asked_about(self, node: ast.expr) -> bool:
        """Whether a function asks what a variable of its is, so that others than tensors come there, too.

        `isinstance(x, list)`, `hasattr(x, "cpu")`, `type(x)`, `x.__class__`, and `try: x.cpu()`
        """
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return False
        text, frame = ast.unparse(node), self.program.frame(node)
        said = (test for test, holds in self.program.once(Conditions).said_at(node) if holds)
        if any(isinstance(t, ast.Call) and [ast.unparse(a) for a in t.args[:1]] == [text] for t in said):
            return False
        return text in self._asked_in(frame) or self._is_tried(node, text)

    def _is_tried(self, node: ast.expr, text: str) -> bool:
        """Whether a method of a variable was tried and failed: `x` in the handler of `try: return x.cpu()`."""
        handlers = [a for a in self.program.ancestors(node) if isinstance(a, ast.ExceptHandler)]
        tried = [t for h in handlers if isinstance(t := self.program.parent(h), ast.Try)]
        parts = (n for t in tried for statement in t.body for n in ast.walk(statement))
        return any(isinstance(n, ast.Attribute) and ast.unparse(n.value) == text for n in parts)

    def _asked_in(self, frame: Scope) -> frozenset[str]:
        """What a function asks such a question about, as it is written."""
        if frame not in self._asked:
            own = self.program.calls_in(frame) if frame.kind == "function" else []
            asking = [c for c in own if any(map(names.asks_what_it_is, self.program.called(c))) and c.args]
            classes = (n for n in self.program.attribute_reads.get("__class__", ()) if self.program.frame(n) is frame)
            self._asked[frame] = frozenset(
                map(ast.unparse, (*(c.args[0] for c in asking), *(n.value for n in classes)))
            )
        return self._asked[frame]

    def _denied(self, test: ast.expr, holds: bool) -> ast.expr | None:
        """What is no tensor where a condition holds, or does not: `s` where `hasattr(s, "numpy")` does not."""
        if not isinstance(test, ast.Call) or not test.args:
            return None
        called = self.program.called(test)
        of = test.args[1] if len(test.args) > 1 else None
        if "hasattr" in called and isinstance(of, ast.Constant):
            return test.args[0] if not holds and table.member("tensor", str(of.value)) is not None else None
        if "isinstance" in called and of is not None:
            kinds = of.elts if isinstance(of, ast.Tuple) else [of]
            named = {n for kind in kinds for n in self.program.externals(kind)}
            is_tensor = any(n.startswith("torch.") for n in named)
            return test.args[0] if ("torch.Tensor" in named if not holds else bool(named) and not is_tensor) else None
        return test.args[0] if not holds and "torch.is_tensor" in called else None

    def _is_same(self, asked: ast.expr, node: ast.expr) -> bool:
        """Whether a name has the value that a condition asked about, and got no other since."""
        if not isinstance(asked, ast.Name) or not isinstance(node, ast.Name):
            return True
        owner = self.program.scope(node).owner(node.id)
        writes = self.program.once(Tracer).writes(owner, node.id) if owner is not None else ()
        return self.program.reaching(asked, writes) == self.program.reaching(node, writes)

    @cached_property
    def picks(self) -> frozenset[ast.expr]:
        """What says which parts of arrays and tables are meant."""
        return frozenset(pick for part in self._parts_of_arrays() for pick in _picks(part))

    @cached_property
    def asked(self) -> list[ast.expr]:
        """The tensors whose type says that they are there, for code but that of data sets.

        `isinstance(x, torch.LongTensor)`, `x.type() == "torch.LongTensor"`
        """
        asked = [c.args[0] for c in self.calls if "isinstance" in self.program.called(c) and self._names_a_type(c)]
        compared = (c for c in self.calls if _is_compared(self.program.parent(c)))
        asked += [c.func.value for c in compared if isinstance(c.func, ast.Attribute) and c.func.attr == "type"]
        return [a for a in asked if not self._loads(self.program.frame(a))]

    @cached_property
    def shared(self) -> dict[ast.expr, ast.AST]:
        """The tensors that change with an array which is in their memory there, each with the code that changes it.

        `table` of `rows = table.numpy(); rows[0] = 1`, if it is read again.
        """
        known, found = self.program.once(InPlace), dict[ast.expr, ast.AST]()
        for call in self.calls:
            array_of = self._array_of(call)
            if array_of is not None:
                tensor = self._source(array_of)
                changes = (c for c in known.changes(call) if self._is_kept(tensor) or known.is_read_after(tensor, c))
                found.update((tensor, change) for change in islice(changes, 1))
        return found

    def _array_of(self, call: ast.Call) -> ast.expr | None:
        """What is in the memory of an array, if it is a tensor in the CPU's: `x` of `x.numpy()`, `np.asarray(x)`."""
        if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" and not call.args:
            return call.func.value
        is_shared = self.is_of_arrays(call) and any(map(names.shares_memory, self.program.called(call)))
        return call.args[0] if is_shared and call.args else None

    def _source(self, node: ast.expr) -> ast.expr:
        """The tensor in whose memory an expression is, on the CPU: `table` of `table.detach().cpu()[0]`."""
        while True:
            member = node.func if isinstance(node, ast.Call) else node
            is_member = isinstance(member, ast.Attribute) and methods.keeps_memory(member.attr)
            if not is_member and not isinstance(node, ast.Subscript):
                return node
            node = member.value  # type: ignore[attr-defined]  # an attribute, or a subscript

    def _is_kept(self, tensor: ast.expr) -> bool:
        """Whether a tensor is an object's or a model's, which may be read at any time."""
        is_of_model = any(isinstance(v, Parameters) for v in self.program.values(tensor))
        kinds = self.program.once(Kinds).of(tensor)
        return isinstance(tensor, ast.Attribute) or is_of_model or kinds <= {"parameter", "buffer"}

    def _names_a_type(self, call: ast.Call) -> bool:
        """Whether an `isinstance` is for a type of tensors in the CPU's memory alone, not for `torch.Tensor`."""
        kinds = call.args[1].elts if isinstance(call.args[1], ast.Tuple) else call.args[1:2]
        named = {n for kind in kinds for n in self.program.externals(kind)}
        return any(n != "torch.Tensor" and names.memory_of_type(n) is Device.HOST for n in named)

    def _loads(self, frame: Scope) -> bool:
        owner = frame.parent if frame.is_method else None
        return owner is not None and self.program.flow.method(owner, "__getitem__") is not None

    def _stored(self) -> Iterator[ast.expr]:
        """What a part of an array or a table gets: `x` of `rows[k] = x`."""
        for held, value in self.program.once(Kept).stored():
            if self.program.frame(value) in self.program.reachable and self._is_object(held):
                yield from self._leaves(value)

    def _parts_of_arrays(self) -> Iterator[ast.Subscript]:
        """`rows[k]` of an array, and of a table."""
        nodes = (n for parsed in self.program.files for n in parsed.nodes if isinstance(n, ast.Subscript))
        for node in nodes:
            if self.program.frame(node) in self.program.reachable and self._is_object(node.value):
                yield node

    def is_picked_by_number(self, node: ast.expr) -> bool:
        """Whether an array, or a table, has parts that are asked for by their positions, and not by labels."""
        if self.program.once(Kinds).of(node) == {"ndarray"}:
            return True
        return isinstance(node, ast.Attribute) and vocabulary.is_by_position(node.attr) and self._is_object(node)

    def of(self, call: ast.Call) -> list[ast.expr]:
        """What a call reads there: `x` of `x.numpy()`, `np.array([x])` and `plt.plot(x)`."""
        if call not in self._of:
            self._of[call] = [*self._read_by(call), *self.kept(call)]
        return self._of[call]

    def _read_by(self, call: ast.Call) -> list[ast.expr]:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" and not call.args:
            return [call.func.value]
        if self.is_of_arrays(call):
            return [read for given in self._taken(call) for read in self._leaves(given)]
        is_type = any(names.memory_of_type(n) is Device.HOST for n in self.program.called(call))
        return [a for a in call.args[:1] if is_type and not isinstance(a, ast.Starred)]

    def kept(self, call: ast.Call) -> list[ast.expr]:
        """The arguments that a function needs there, wherever the others are: the lengths to pack a sequence by."""
        kept = {which for name in self.program.called(call) for which in names.read_on_host(name)}
        numbered = [a for k, a in enumerate(call.args) if str(k) in kept]
        return [*numbered, *(k.value for k in call.keywords if k.arg in kept)]

    def is_of_arrays(self, call: ast.Call) -> bool:
        """Whether a call goes to a library of arrays, or to an object of its."""
        called = self.program.called(call)
        if called or not isinstance(call.func, ast.Attribute):
            return any(map(vocabulary.takes_arrays, called)) and not any(map(names.takes_text, called))
        return not methods.takes_text(call.func.attr) and self._is_object(call.func.value)

    def _is_object(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether such a library made an object, or what it is a part of."""
        if isinstance(node, (ast.BinOp, ast.Compare)):
            operands = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.left, *node.comparators]
            arrays = [o for o in operands if not isinstance(o, ast.Constant)]
            return bool(arrays and depth) and all(self._is_object(o, depth - 1) for o in arrays)
        made = [self._is_made(v, depth) for v in self.program.values(node) if not isinstance(v, Constant)]
        return bool(made) and all(made)

    def _is_made(self, value: Value, depth: int) -> bool:
        while isinstance(value, (Member, Element)):
            value = value.owner
        if isinstance(value, External) or (isinstance(value, Made) and value.name is not None):
            return vocabulary.takes_arrays(value.name or "")
        method = value.node.func if isinstance(value, Made) and isinstance(value.node, ast.Call) else None
        if not isinstance(method, ast.Attribute) or not depth:
            return False
        row = table.member("ndarray", method.attr)
        return (row is None or row.returns != "list") and self._is_object(method.value, depth - 1)

    def _taken(self, call: ast.Call) -> Iterator[ast.expr]:
        """The arguments whose values such a call reads: not those whose size it asks for, or that it changes."""
        called = self.program.called(call)
        rows = [row for n in called if (row := table.function(n)) is not None]
        is_size = any(row.returns == "number" and row.has(Trait.SHAPE_ONLY) for row in rows)
        if is_size or any(map(names.leaves_to_argument, called)):
            return
        changed = {"out", *(which for row in rows for which in row.mutates)}
        yield from (a for k, a in enumerate(call.args) if str(k) not in changed)
        yield from (k.value for k in call.keywords if k.arg not in changed)

    def _leaves(self, node: ast.expr) -> Iterator[ast.expr]:
        """What is in a container that is written out, or made there: `x` and `y` of `[x, *y]`, `list(zip(x, y))`."""
        inner = self._inside(node)
        if inner is None:
            yield node
        for part in inner or ():
            yield from self._leaves(part) if part is not None else ()

    def _inside(self, node: ast.expr) -> Sequence[ast.expr | None] | None:
        """The parts of an expression that is nothing but a container or a choice of them; None for any other."""
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return node.elts
        if isinstance(node, ast.Dict):
            return node.values
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return [node.elt]
        if isinstance(node, ast.DictComp):
            return [node.value]
        if isinstance(node, ast.IfExp):
            return [node.body, node.orelse]
        if isinstance(node, ast.Starred):
            return [node.value]
        is_one = isinstance(node, ast.Call) and any(map(names.makes_a_container, self.program.called(node)))
        return [*node.args, *(k.value for k in node.keywords)] if isinstance(node, ast.Call) and is_one else None

    def put_into(self, read: ast.expr) -> Iterator[ast.expr]:
        """What is put into the containers that an expression may hold: `x`, `y` of `rows = [x]; rows.append(y)`."""
        yield from (held for held in self._held(read, set()) if held is not read)

    def _held(self, node: ast.expr, seen: set[Collection]) -> Iterator[ast.expr]:
        parts = self._inside(node)
        if parts is None:
            yield node
        found = [*(parts or ())]
        for container in {v for v in self.program.values(node) if isinstance(v, Collection)} - seen:
            if self._is_a_tensor(node) or self._is_of_another_return(container):
                continue
            made = self._inside(container.node) if isinstance(container.node, ast.expr) else None
            found += [*(made or ()), *self._puts.get(container, ()), *self._added(node)]
            seen.add(container)
        for part in dict.fromkeys(found):
            yield from self._held(part, seen) if part is not None else ()

    def _is_a_tensor(self, node: ast.expr) -> bool:
        """Whether what is asked for, or was, shows that no container is meant: `x.cpu()`, and `x` of `x.numpy()`."""
        user = self.program.parent(node)
        asked = [n.attr for n in (user, getattr(node, "func", None)) if isinstance(n, ast.Attribute)]
        return any(methods.moves(attr) or methods.shows_a_tensor(attr) for attr in asked)

    def _is_of_another_return(self, container: Collection) -> bool:
        """Whether a function gives a container for some of its arguments, and one value for the others."""
        if not isinstance(self.program.parent(container.node), ast.Return):
            return False
        given = returned([self.program.frame(container.node)])
        return any(g is None or self._inside(g) is None for g in given)

    def _added(self, node: ast.expr) -> Iterator[ast.expr]:
        """`x` of `rows += x`."""
        writes: Sequence[ast.AST] = ()
        if isinstance(node, ast.Name):
            owner = self.program.scope(node).owner(node.id)
            writes = owner.writes.get(node.id, ()) if owner is not None else ()
        elif isinstance(node, ast.Attribute):
            writes = self.program.attribute_writes.get(node.attr, ())
        statements = map(self.program.parent, writes)
        yield from (s.value for s in statements if isinstance(s, ast.AugAssign) and isinstance(s.op, ast.Add))

    @cached_property
    def _puts(self) -> dict[Collection, list[ast.expr]]:
        """What is put into each container after it is made."""
        found: dict[Collection, list[ast.expr]] = {}
        for owner, value in self.program.once(Kept).puts():
            for container in self.program.values(owner):
                if isinstance(container, Collection):
                    found.setdefault(container, []).append(value)
        return found


def _picks(node: ast.Subscript) -> list[ast.expr]:
    """What says which parts: `k` of `rows[k]`, and of `rows[k, 1:]`."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return [part for part in parts if not isinstance(part, (ast.Slice, ast.Constant))]


def _is_compared(node: ast.AST | None) -> bool:
    """`x.type() == "torch.FloatTensor"`"""
    texts = [n.value for n in node.comparators if isinstance(n, ast.Constant)] if isinstance(node, ast.Compare) else []
    return any(names.memory_of_type(str(text)) is Device.HOST for text in texts)
