"""What is read in the CPU's memory only: by NumPy and what is built on it, and by the few such functions of torch's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from accelify.codemod.libraries import methods, names, table, vocabulary
from accelify.codemod.libraries.row import Device, Trait
from accelify.codemod.semantics.contents import Kept
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.in_place import InPlace
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Constant, Element, External, Made, Member, Parameters, Value

_DEPTH = 4


class HostReads:
    """Look at the arguments of calls.

    A library of arrays knows of no device, whatever its function or its object's method is: `np.argmax(x)`,
    `axes.imshow(x)` of `figure, axes = plt.subplots()`, `PCA(2).fit(x)`.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._of: dict[ast.Call, list[ast.expr]] = {}

    @cached_property
    def calls(self) -> list[ast.Call]:
        """The calls that are run."""
        return [c for c in self.program.calls if self.program.frame(c) in self.program.reachable]

    @cached_property
    def all(self) -> frozenset[ast.expr]:
        """All that is read there."""
        return frozenset([*self.picks, *self._stored(), *(read for call in self.calls for read in self.of(call))])

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
                yield value

    def _parts_of_arrays(self) -> Iterator[ast.Subscript]:
        """`rows[k]` of an array, and of a table."""
        nodes = (n for parsed in self.program.files for n in parsed.nodes if isinstance(n, ast.Subscript))
        for node in nodes:
            if self.program.frame(node) in self.program.reachable and self._is_object(node.value):
                yield node

    def of(self, call: ast.Call) -> list[ast.expr]:
        """What a call reads there: `x` of `x.numpy()`, `np.array([x])` and `plt.plot(x)`."""
        if call not in self._of:
            self._of[call] = [*self._read_by(call), *self.kept(call)]
        return self._of[call]

    def _read_by(self, call: ast.Call) -> list[ast.expr]:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" and not call.args:
            return [call.func.value]
        if self.is_of_arrays(call):
            return list(self._taken(call))
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


def _picks(node: ast.Subscript) -> list[ast.expr]:
    """What says which parts: `k` of `rows[k]`, and of `rows[k, 1:]`."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return [part for part in parts if not isinstance(part, (ast.Slice, ast.Constant))]


def _is_compared(node: ast.AST | None) -> bool:
    """`x.type() == "torch.FloatTensor"`"""
    texts = [n.value for n in node.comparators if isinstance(n, ast.Constant)] if isinstance(node, ast.Compare) else []
    return any(names.memory_of_type(str(text)) is Device.HOST for text in texts)
