"""Which tensors does a script that names no device have to bring there, and how would a person write it?"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from accelify.codemod.devices.conflicts import Meeting, Meetings
from accelify.codemod.devices.destinations import Where
from accelify.codemod.devices.lattice import UNKNOWN, Lattice, Places
from accelify.codemod.libraries import methods, names, table
from accelify.codemod.preparing.tensors import requires_grad
from accelify.codemod.semantics.in_place import InPlace
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope

_ROUNDS = 40


@dataclass(frozen=True)
class Bring:
    """One place at which something is brought to a device.

    kind: `made` (a call that can make it there), `moved` (an expression), `bound` (the names in `node`, a statement,
    that get parts of a batch).
    """

    kind: str
    node: ast.expr | ast.stmt
    device: str
    names: tuple[ast.Name, ...] = ()
    there: tuple[ast.expr, ...] = ()  # what must be on that device for it to be the right one

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        """The expression, or the names that get a value, which is on the device from there on."""
        return self.names or (self.node,)


@dataclass
class Brought:
    """The tensors that are brought to the device, and those that are `read` on the CPU after that.

    origins: what makes the tensors that are on the device from there on. unreached: where the accelerator would have to
    reach. stuck: what is not understood.
    """

    bringing: list[Bring] = field(default_factory=list)
    read: set[ast.expr] = field(default_factory=set)
    unreached: list[ast.AST] = field(default_factory=list)
    stuck: ast.AST | None = None
    origins: frozenset[ast.AST] = frozenset()


class Bringing:
    """Bring each tensor where it is made, if all that reads it can have it so; else where the device's are met."""

    def __init__(
        self,
        whereabouts: Lattice,
        meetings: Meetings,
        accelerator: Callable[[ast.AST], str | None],
    ) -> None:
        self.whereabouts = whereabouts
        self.meetings = meetings
        self.accelerator = accelerator
        self.program = whereabouts.program
        self.tensors = whereabouts.tensors
        self.shapes = meetings.shapes
        self.unreached: list[ast.AST] = []

    def find(self, *, is_settled: bool) -> Brought:
        """All that is to be brought; `is_settled` says that the accelerator reaches no further than it does."""
        self.is_settled = is_settled
        self.brought: dict[ast.AST, Bring] = {}
        self.met: dict[ast.AST, Bring] = {}
        kept: set[ast.AST] = set()
        for _ in range(_ROUNDS):
            meeting = self.meetings.find(self.brought)
            if meeting.stuck:
                return self._given_up(meeting.stuck[0])
            if meeting.refused:
                kept.update(meeting.refused)
                for origin in meeting.refused:
                    self.brought.pop(origin, None)
                continue
            if not meeting.wanted:
                return self._all(meeting)
            if self._bring_what_is_handed_back(meeting.wanted):
                continue
            for origin, operand in sorted(meeting.wanted, key=_size_of_operand):
                if origin in self.brought or operand in self.met or not self._is_left(origin, operand):
                    continue
                is_copied = any(p.origin in meeting.read for p in self.whereabouts.of(operand))
                bring = self._at_origin(origin) if origin not in kept and not is_copied else None
                if bring is not None:
                    self.brought[origin] = bring
                    continue
                bring = self._at_use(operand) if operand is not None else None
                if bring is None:
                    return self._given_up(origin)
                self._meet(bring)
        return self._given_up(next(iter(self.brought), None))

    def _given_up(self, stuck: ast.AST | None) -> Brought:
        return Brought(unreached=self.unreached, stuck=stuck)

    def _meet(self, bring: Bring) -> None:
        for node in bring.nodes:
            self.met[node] = bring
            self.whereabouts.bring(node)

    def _bring_what_is_handed_back(self, wanted: list[tuple[ast.AST, ast.expr | None]]) -> bool:
        found = [b for origin in dict.fromkeys(o for o, _ in wanted) for b in self._handed_back(origin)]
        for bring in found:
            self._meet(bring)
        return bool(found)

    def _is_left(self, origin: ast.AST, operand: ast.expr | None) -> bool:
        """Whether a tensor is still to be brought, once others are."""
        return operand is None or any(p.origin is origin for p in self.whereabouts.of(operand))

    def _all(self, meeting: Meeting) -> Brought:
        bringing = [*self.brought.values(), *self.met.values()]
        for bring in bringing:
            for node in bring.there:
                if not self.meetings.is_all_there(self.whereabouts.of(node)):
                    return self._given_up(node)
        return Brought(self._joined(bringing), meeting.read, self.unreached, origins=frozenset(self.brought))

    def _joined(self, bringing: list[Bring]) -> list[Bring]:
        """The same, with the parts of a batch brought by one statement."""
        bound_together: dict[ast.AST, list[Bring]] = {}
        found: dict[ast.AST, Bring] = {}
        for bring in bringing:
            if bring.kind == "bound":
                bound_together.setdefault(bring.node, []).append(bring)
            else:
                found.setdefault(bring.node, bring)
        for node, several in bound_together.items():
            named = {n.id: n for b in several for n in b.names}.values()
            listed = sorted(named, key=self.program.position)
            found[node] = Bring("bound", node, several[0].device, tuple(listed))  # type: ignore[arg-type]  # a statement
        return list(found.values())

    # Where it comes to be.

    def _handed_back(self, origin: ast.AST) -> list[Bring]:
        """After the statements that get what a function returns, where the accelerator does not reach into it."""
        frame = self.program.frame(origin)
        if "requires_grad" in ast.unparse(self.program.statement(origin)):
            return []  # a leaf has to stay one
        if frame.kind != "function" or self.tensors.is_in_model(frame) or self.accelerator(origin) is not None:
            return []
        calls = self.program.calls_of(frame)
        found = [self._got(call, origin) for call in calls]
        return [b for b in found if b is not None] if None not in found else []

    def _got(self, call: ast.Call, origin: ast.AST) -> Bring | None:
        """`x, y = make_batch()`, where `x` is what is made at `origin`."""
        statement, accelerator = self.program.statement(call), self.accelerator(call)
        if accelerator is None:
            return None
        if self._is_only(self.whereabouts.of(call), origin) and self.shapes.is_tensor(call):
            return Bring("moved", call, f"{accelerator}.device")
        is_plain = isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1
        target = statement.targets[0] if is_plain else None  # type: ignore[attr-defined]  # an assignment
        listed = target.elts if isinstance(target, ast.Tuple) else []
        named = [n for n in listed if isinstance(n, ast.Name) and self._gets(n, origin)]
        return Bring("bound", statement, f"{accelerator}.device", tuple(named)) if named else None

    def _gets(self, write: ast.Name, origin: ast.AST) -> bool:
        owner = self.program.scope(write).owner(write.id)
        return owner is not None and self._is_only(self.whereabouts.written(owner, write), origin)

    @staticmethod
    def _is_only(places: Places, origin: ast.AST) -> bool:
        return {p.origin for p in places} == {origin}

    def _at_origin(self, origin: ast.AST) -> Bring | None:
        if isinstance(origin, ast.Name):
            return self._bound(origin)
        if isinstance(origin, ast.Subscript):
            return self._moved(origin) if self.shapes.is_tensor(origin) else None
        if not isinstance(origin, ast.Call):
            return None
        if any(map(self.meetings.roles.is_module, self.program.values(origin))):
            return self._placed("moved", origin)
        if _is_drawn_into_later(self.program, origin) and not requires_grad(origin):
            return None
        if _is_filled_later(self.program, origin):
            return None
        if self.tensors.takes_a_device(origin) and not _is_drawn_into(self.program.parent(origin)):
            return self._placed("made", origin)
        if self.tensors.is_creator(origin) and not requires_grad(origin):
            return self._moved(origin)
        is_type = isinstance(origin.func, ast.Attribute) and origin.func.attr == "type"
        return self._moved(origin) if is_type else None

    def _bound(self, name: ast.Name) -> Bring | None:
        """After a statement that takes a batch apart, or first in a loop over a loader."""
        statement = self.program.statement(name)
        if isinstance(statement, ast.For) and self.program.inside(name, statement.target):
            place: ast.stmt = statement.body[0]
        elif isinstance(statement, ast.Assign) and any(self.program.inside(name, t) for t in statement.targets):
            place = statement
        else:
            return None
        owner = self.program.scope(name).owner(name.id)
        if owner is None or not self.shapes.holds_one(owner, name):
            return None
        device = self._device(place)
        return Bring("bound", statement, device, (name,)) if device is not None else None

    def _moved(self, origin: ast.expr) -> Bring | None:
        """The largest expression that is the same tensor, and no other one."""
        node = origin
        while (outer := self._outer(node)) is not None:
            node = outer
        return self._placed("moved", node)

    def _outer(self, node: ast.expr) -> ast.expr | None:
        parent = self.program.parent(node)
        if isinstance(parent, ast.Attribute):
            call = self.program.parent(parent)
            if not isinstance(call, ast.Call) or call.func is not parent or _ends(parent.attr):
                return parent if methods.is_view(parent.attr) else None
            if _is_drawn_into(parent):
                return call
            return call if not self.whereabouts.all_of(_given(call)) else None
        if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.ctx, ast.Load):
            return parent if not self.whereabouts.of(parent.slice) else None
        if not isinstance(parent, ast.Call) or parent.func is node or requires_grad(parent):
            return None
        others = [g for g in _given(parent) if g is not node]
        is_torch = any(n.startswith("torch.") for n in self.program.called(parent))
        is_alike = is_torch and not self.tensors.is_loss(parent)
        return parent if is_alike and self._makes_a_tensor(parent) and not self.whereabouts.all_of(others) else None

    def _makes_a_tensor(self, call: ast.Call) -> bool:
        names = self.program.called(call)
        lasts = {n.rpartition(".")[2] for n in names}
        return all(n.startswith(("torch.autograd.Variable",)) or last.islower() for n in names for last in lasts)

    def _placed(self, kind: str, node: ast.expr) -> Bring | None:
        frame = self.program.frame(node)
        is_in_model = self.tensors.is_in_model(frame)
        if (is_in_model and self.tensors.sets_up(frame)) or self._is_of_a_data_set(frame):
            return None
        found = self._input(frame, node) if is_in_model or self.accelerator(node) is None else None
        if found is not None:
            return Bring(kind, node, f"{found[0]}.device", there=found[1])
        device = self._device(node) if not is_in_model or self.accelerator(node) is not None else None
        return Bring(kind, node, device) if device is not None else None

    def _is_of_a_data_set(self, frame: Scope) -> bool:
        """Whether code is a method of what loaders read, maybe in processes of their own."""
        owner = frame.parent if frame.is_method else None
        return owner is not None and self.program.flow.method(owner, "__getitem__") is not None

    # Where it is met.

    def _at_use(self, operand: ast.expr) -> Bring | None:
        places = self.whereabouts.of(operand)
        is_known = bool(places) and all(p.where in (Where.HOST, Where.ACCELERATOR) for p in places)
        if not is_known or not self.shapes.is_tensor(operand) or self._is_differentiated_by(operand):
            return None
        return self._placed("moved", operand)

    def _is_differentiated_by(self, operand: ast.expr) -> bool:
        """Whether gradients with respect to a tensor are asked for: nothing was computed from another copy of it."""
        call = next((a for a in self.program.ancestors(operand) if not isinstance(a, (ast.Tuple, ast.List))), None)
        return isinstance(call, ast.Call) and "torch.autograd.grad" in self.program.called(call)

    # Which device.

    def _device(self, node: ast.AST) -> str | None:
        accelerator = self.accelerator(node)
        if accelerator is None:
            if self.is_settled:
                return None
            self.unreached.append(node)
            accelerator = "accelerator"
        return f"{accelerator}.device"

    def _input(self, frame: Scope, node: ast.AST) -> tuple[str, tuple[ast.expr, ...]] | None:
        """A parameter that is a tensor on the device, with what it is given."""
        for parameter in frame.parameters[int(frame.is_method) :]:
            given = self._given_to(frame, parameter.arg)
            writes = [w for w in frame.writes.get(parameter.arg, ()) if w is not parameter]
            before = [w for w in writes if self.program.before(w, node)]
            if not given or not self.shapes.holds_one(frame, parameter):
                continue
            if all(isinstance(w, ast.Name) and self.shapes.is_tensor(self._value(w)) for w in before):
                return parameter.arg, given
        return None

    def _value(self, write: ast.Name) -> ast.expr | None:
        return self.whereabouts.tracer.assigned(write)

    def _given_to(self, frame: Scope, name: str) -> tuple[ast.expr, ...]:
        calls = self.program.calls_of(frame)
        given = [self.whereabouts.tracer.argument(c, frame, name) for c in calls]
        known = [g for g in given if g is not None]
        is_known = len(known) == len(given) and all(self.whereabouts.of(g) - UNKNOWN for g in known)
        return tuple(known) if is_known else ()


def _size_of_operand(wanted: tuple[ast.AST, ast.expr | None]) -> int:
    """For the operands inside others first: what these are made of is there then."""
    return 0 if wanted[1] is None else sum(1 for _ in ast.walk(wanted[1]))


def _ends(method: str) -> bool:
    """Whether a method of a tensor gives no tensor, or one that has to be a leaf of the graph."""
    return methods.gives_no_tensor(method) or methods.gives_nothing(method) or method == "requires_grad_"


def _is_drawn_into_later(program: Program, origin: ast.Call) -> bool:
    """Whether values are drawn into a tensor by the name that it gets: `x.normal_()`, `nn.init.normal_(x)`."""
    statement = program.parent(origin)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    owner = program.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
    if owner is None or not isinstance(target, ast.Name):
        return False
    return any(_is_drawn_by(program, read) for read in program.reads_of(owner, target.id))


def _is_filled_later(program: Program, origin: ast.Call) -> bool:
    """Whether a tensor gets other values with its array, which the script changes before it reads the tensor again."""
    if not any(map(names.shares_memory, program.called(origin))) or not origin.args:
        return False
    known = program.once(InPlace)
    changes = [*known.changes(*known.other_uses(origin.args[0]))]
    return any(known.is_between(change, origin, use) for change in changes for use in known.later_uses(origin))


def _is_drawn_by(program: Program, read: ast.expr) -> bool:
    use = program.parent(read)
    if isinstance(use, ast.Attribute) and use.attr == "data":
        use = program.parent(use)
    rows = [table.function(n) for n in program.called(use)] if isinstance(use, ast.Call) else []
    return _is_drawn_into(use) or any(row is not None and row.draws and "0" in row.mutates for row in rows)


def _is_drawn_into(use: ast.AST | None) -> bool:
    """Whether `use`, as in `torch.empty(3).normal_()`, draws a tensor's values in place: where it is by then.

    What such a method is given are numbers. The plain script's numbers are the CPU's.
    """
    row = table.member("tensor", use.attr) if isinstance(use, ast.Attribute) else None
    return row is not None and row.draws and row.returns == "self"


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(k.value for k in call.keywords)]
