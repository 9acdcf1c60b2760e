"""Moves to a device, moves that are needless for prepared objects, and variables that hold devices."""

from __future__ import annotations

import ast
from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property

from accelify.codemod.devices.early_uses import EarlyUses
from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods, names, table, vocabulary
from accelify.codemod.preparing.prepared import Prepared, brings_to_cpu
from accelify.codemod.preparing.settings import is_default_setting
from accelify.codemod.preparing.tensors import Tensors
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import (
    Assignment,
    assignment,
    code,
    main_guard,
    method_of_call,
    own_statements,
    returned,
)
from accelify.codemod.semantics.values import Argument, Collection, Constant, External, Instance, Made, Member, Value
from accelify.codemod.training.roles import Roles
from accelify.codemod.training.torchscript import compiled


@dataclass(frozen=True)
class Move:
    """A call that moves something to a device: `x.to(device)`, `x.cuda()`, `x.pin_memory().to(device)`.

    receiver: what is moved, `x`.
    """

    call: ast.Call
    receiver: ast.expr
    device: ast.expr | None


class Moves:
    """The moves in some files of a program."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, prepared: Prepared, files: Set[str]) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.prepared = prepared
        self.files = files

    @cached_property
    def found(self) -> list[Move]:
        """Every such call in the files, in the order of their text, whether or not anything reaches it."""
        found = []
        for path in sorted(self.files):
            for call in self.program.flow.parsed_of[path].parents:
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                    move = self._move(call, call.func) if methods.moves_to_device(call.func.attr) else None
                    found += [move] if move is not None else []
        return sorted(found, key=lambda m: self.program.position(m.call))

    def _move(self, call: ast.Call, function: ast.Attribute) -> Move | None:
        receiver, _ = moved_by(function)
        held = self.program.values(receiver)
        if self.program.flow.callees.get(call) or (held and all(isinstance(v, External) for v in held)):
            return None
        if self.prepared.has_method(receiver, function.attr):
            return None
        keyword = next((k.value for k in call.keywords if k.arg == "device"), None)
        first = call.args[0] if call.args else keyword
        if methods.names_accelerator(function.attr):
            return Move(call, receiver, first)
        if first is None or isinstance(first, ast.Starred) or not self.is_device(first):
            return None
        if isinstance(first, ast.Constant) and is_cpu(first):
            return None
        return Move(call, receiver, first)

    def is_device(self, node: ast.expr) -> bool:
        """Whether an expression is a device, by its value or, where that is unknown, by its last name."""
        if isinstance(node, ast.Constant):
            return vocabulary.is_device_text(node.value) or type(node.value) is int
        values = self.program.values(node)
        if values and all(isinstance(v, Constant) and type(v.value) is int for v in values):
            return True
        if any(
            self.roles.is_device(v) or (isinstance(v, Member) and vocabulary.is_device_name(v.name)) for v in values
        ):
            return True
        return vocabulary.is_device_name(last_name(node))

    def may_have_none(self, receiver: ast.expr) -> bool:
        """Whether what is moved may be something that has no such method: a tuple, or None."""
        owner = self.program.scope(receiver).owner(receiver.id) if isinstance(receiver, ast.Name) else None
        if owner is None or not isinstance(receiver, ast.Name):
            held = self.program.values(receiver)
        else:
            writes = self.program.reaching(receiver, self.tracer.writes(owner, receiver.id))
            given = (self.tracer.assigned(w) if isinstance(w, ast.Name) else None for w in writes)
            held = frozenset(v for node in given for v in self.program.values(node or receiver))
        return any(isinstance(v, (Collection, Constant)) for v in held)

    def goes_to_cpu(self, move: Move) -> bool:
        """Whether a move is to the CPU, said there or by a variable."""
        if move.device is None:
            return False
        return is_cpu(move.device) or self.is_the_cpu(ast.unparse(move.device)) or self._is_cpu_by_now(move.device)

    def _is_cpu_by_now(self, device: ast.expr) -> bool:
        """Whether a variable that was another device before is the CPU where it is read."""
        owner = self.program.scope(device).owner(device.id) if isinstance(device, ast.Name) else None
        if not isinstance(device, ast.Name) or owner is None:
            return False
        writes = self.tracer.writes(owner, device.id)
        reaching = self.program.reaching(device, writes)
        values = [self.tracer.assigned(w) if isinstance(w, ast.Name) else None for w in reaching]
        return 0 < len(values) < len(writes) and all(v is not None and is_cpu(v) for v in values)

    def is_the_cpu(self, variable: str) -> bool:
        """Whether a variable is the CPU, to which tensors are brought to be looked at, while another is the device."""
        own = self._devices.get(variable, [])
        held = {v for value in own for v in self.program.values(value)}
        others = (value for other, values in self._devices.items() for value in values if other != variable)
        is_another = (not is_cpu(value) and not self.program.values(value) <= held for value in others)
        return bool(own) and all(map(is_cpu, own)) and any(is_another)

    # The variables that hold devices.

    def is_for_the_cpu(self, assigned: Assignment) -> bool:
        """Whether a variable sends something other than training to the CPU: `device = torch.device("cpu")`.

        It is set for good, below the loop or in a function of its own, and no move that training makes reads it.
        """
        target = assigned.target
        if not isinstance(target, ast.Name) or not is_cpu(assigned.value):
            return False
        guard = main_guard(self.program.scope(target).root)
        outer = self.program.ancestors(assigned.node)
        around = (a for a in outer if isinstance(a, (ast.If, ast.Try)) and a is not guard)
        devices = [m.device for m in self._of_training if m.device is not None]
        return bool(self._of_training) and not any(around) and not any(self.is_from(d, target) for d in devices)

    @cached_property
    def _of_training(self) -> list[Move]:
        return [m for m in self.found if self.is_needless(m)]

    def is_from(self, device: ast.expr, target: ast.expr) -> bool:
        """Whether a device may be what a statement gives to its target."""
        scope = self.program.scope(target)
        owner = self.program.scope(device).owner(device.id) if isinstance(device, ast.Name) else None
        if isinstance(target, ast.Name) and owner is scope:
            return target in self.program.reaching(device, self.tracer.writes(scope, target.id))
        return bool(self.program.values(device) & self.program.values(target))

    @cached_property
    def bindings(self) -> tuple[Assignment, ...]:
        """The assignments of the devices that the script chose, and that the accelerator chooses now."""
        return tuple(filter(self.is_binding, self._assignments))

    @cached_property
    def _assignments(self) -> tuple[Assignment, ...]:
        nodes = (n for path in sorted(self.files) for n in self.program.flow.parsed_of[path].parents)
        return tuple(a for n in nodes if (a := assignment(n)) is not None)

    def is_binding(self, assigned: Assignment) -> bool:
        """Whether an assignment gives a variable such a device."""
        target, value = assigned.target, assigned.value
        if not isinstance(target, (ast.Name, ast.Attribute)) or not self._is_given_device(target, value):
            return False
        if self.is_the_cpu(code(target)) or is_default_setting(self.program, target, value):
            return False
        return not self.is_of_round(value) and not self._may_be_where_another_is(value)

    def _is_given_device(self, target: ast.Name | ast.Attribute, value: ast.expr) -> bool:
        """Whether what is assigned is a device, as far as the values and the names say."""
        values = self.program.values(value)
        if isinstance(value, (ast.IfExp, ast.BoolOp, ast.Call)):
            values = frozenset(v for v in values if not _is_left_out(v))  # `device or torch.device("cuda")`
        name = target.id if isinstance(target, ast.Name) else target.attr
        is_setting = is_option(value) and (isinstance(value, ast.Subscript) or self._is_from_outside(value))
        if values and all(self.roles.is_device(v) for v in values):
            if isinstance(value, ast.Name):
                return isinstance(target, ast.Attribute) and self._is_literal_parameter(value)
            if isinstance(value, ast.Attribute) and not is_setting:
                return False
            return any(not isinstance(v, Constant) for v in values) or "device" in name.lower()
        is_named = name == "device" and is_setting and last_name(value) in ("device", "dev")
        is_called = isinstance(value, ast.Call) and self._is_for_models(target)
        return is_named or (is_called and self.program.once(Kinds).of(value) != {"number"})

    def is_of_round(self, device: ast.expr, depth: int = 3) -> bool:
        """Whether a device is another in each round of a loop: that of a setting to be tried, of a CPU and a GPU."""
        for name in (n for n in walk(device) if isinstance(n, ast.Name) and depth):
            owner = self.program.scope(name).owner(name.id)
            writes = self.program.reaching(name, self.tracer.writes(owner, name.id)) if owner is not None else ()
            for write in writes:
                _, loop = self.program.binding(write)
                over = loop.iter if isinstance(loop, ast.For) and self.program.inside(device, loop) else None
                is_number = isinstance(over, ast.Call) and any(map(names.is_counter, self.program.called(over)))
                if over is not None and not is_number:
                    return True
                value = self.tracer.assigned(write) if isinstance(write, ast.Name) else None
                if value is not None and self.is_of_round(value, depth - 1):
                    return True
        return False

    def _may_be_where_another_is(self, value: ast.expr) -> bool:
        """`"cpu" if workers else model.device`, written here or returned by a function of the script's."""
        called = self.program.flow.callees.get(value, ()) if isinstance(value, ast.Call) else ()
        given = [value, *(r for r in returned(called) if r is not None)]
        choices = (n for g in given for n in walk(g) if isinstance(n, ast.IfExp))
        sides = (side for choice in choices for side in (choice.body, choice.orelse))
        owners = [self.program.values(s.value) for s in sides if isinstance(s, ast.Attribute) and s.attr == "device"]
        return any(not held or any(map(self.roles.is_module, held)) for held in owners)

    def _is_literal_parameter(self, value: ast.Name) -> bool:
        """Whether a name is a parameter that all callers give the CPU, or all a GPU, as text: `device="cpu"`."""
        owner = self.program.scope(value).owner(value.id)
        writes = self.program.reaching(value, self.tracer.writes(owner, value.id)) if owner is not None else []
        if owner is None or not all(isinstance(w, ast.arg) for w in writes):
            return False
        default = owner.defaults.get(value.id)
        given = [self.tracer.given(call, owner, value.id) for call in self.program.calls_of(owner)] or [default]
        texts = [n.value if isinstance(n, ast.Constant) else None for n in given]
        return all(map(vocabulary.is_device_text, texts)) and len({str(t).startswith("cpu") for t in texts}) == 1

    def _is_for_models(self, target: ast.expr) -> bool:
        """Whether a model that is prepared was moved by a variable: `device = settings.get("device", "cuda")`."""
        moved = self._moving_models.get(target.id, ()) if isinstance(target, ast.Name) else ()
        return any(self.is_from(device, target) for device in moved)

    @cached_property
    def _moving_models(self) -> dict[str, list[ast.expr]]:
        """The variables by which prepared models are moved, under their names."""
        found: dict[str, list[ast.expr]] = {}
        for move in self.found:
            if isinstance(move.device, ast.Name) and self.prepared.is_model(move.receiver):
                found.setdefault(move.device.id, []).append(move.device)
        return found

    def _is_from_outside(self, value: ast.expr) -> bool:
        """Whether an attribute is a setting that the script does not give a value: `args.device`."""
        return all(isinstance(v, (Member, Argument)) for v in self.program.values(value))

    @cached_property
    def _devices(self) -> dict[str, list[ast.expr]]:
        """The variables that hold devices, with what they are given; no parameters, which hold what calls give, too."""
        found: dict[str, list[ast.expr]] = {}
        for each in self._assignments:
            if any(p.arg == code(each.target) for p in self.program.scope(each.target).parameters):
                continue
            values = self.program.values(each.value)
            is_default = is_default_setting(self.program, each.target, each.value)
            if values and all(map(self.roles.is_device, values)) and not is_default:
                found.setdefault(ast.unparse(each.target), []).append(each.value)
        return found

    def is_needless(self, move: Move) -> bool:
        """Whether a move does nothing once what it moves is prepared."""
        if self.goes_to_cpu(move):
            return False
        if self.prepared.is_batch(move.receiver) or self.moves_nothing(move):
            return True
        held = self.program.values(move.receiver)
        is_prepared = self.prepared.is_model(move.receiver)
        if not (is_prepared or (held and held <= self.prepared.preparation.models)) or self._comes_back(move):
            return False
        statement = self.program.statement(move.call)
        text = ast.unparse(move.receiver)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            text = ast.unparse(statement.targets[0])
        return (is_prepared and self._is_prepared_below(statement, text)) or self._is_prepared_by_callers(
            statement, text
        )

    def _is_prepared_below(self, statement: ast.stmt, text: str) -> bool:
        """Whether a model is prepared in the same function as a statement, and not used between."""
        group = self.prepared.prepares_too(statement, text)
        if group is None or group.anchor is None or self._is_prepared_sometimes(text, statement, group.anchor):
            return False
        is_later = self.program.is_after(statement, group.anchor)
        if is_later and (_gives_another(statement, text) or self._gets_a_part(text, group.anchor, statement)):
            return False
        return not self._uses.is_used(text, statement, group.anchor)

    def _gets_a_part(self, text: str, start: ast.stmt, end: ast.stmt) -> bool:
        """Whether a model may get a new part between two statements: `net.head = nn.Linear(8, 2)`."""
        stored = (w for writes in self.program.attribute_writes.values() for w in writes)
        parts = (w for w in stored if f"{ast.unparse(w.value)}.".startswith(f"{text}."))
        return any(self.program.reaches(start, w) and self.program.reaches(w, end) for w in parts)

    def _is_prepared_by_callers(self, statement: ast.stmt, text: str) -> bool:
        """Whether a function only sets a model up after a statement and gives it back, and all callers prepare it."""
        frame = self.program.frame(statement)
        last = frame.body[-1] if frame.kind == "function" and not frame.is_method else None
        returns = [s for s in own_statements(frame.body) if isinstance(s, ast.Return)]
        if not isinstance(last, ast.Return) or last.value is None or returns != [last]:
            return False
        calls = self.program.calls_of(frame)
        given = [_received(self.program.parent(call), call, last.value, text) for call in calls]
        return (
            bool(calls)
            and not self._uses.is_used(text, statement, last)
            and all(
                target is not None and self._is_prepared_below(self.program.statement(call), target)
                for call, target in zip(calls, given, strict=True)
            )
        )

    @cached_property
    def _uses(self) -> EarlyUses:
        tensors = Tensors(self.program, self.roles, self.prepared)
        return EarlyUses(self.program, self.roles, self.prepared.preparation.models, tensors.is_part)

    def moves_itself(self, move: Move) -> bool:
        """Whether an object whose class may do more than to move, or has no `to`, goes to the process's own GPU.

        So does what TorchScript moves, which cannot ask the accelerator.
        """
        if self.program.frame(move.call) in self.program.once(compiled):
            return move.device is None
        made = [v.name or "" for v in self.program.values(move.receiver) if isinstance(v, Made)]
        is_of_library = any(table.function(n) is None and n.rpartition(".")[2][:1].isupper() for n in made)
        is_one = is_of_library or self.is_of_any_class(move)
        return move.device is None and is_one and not self.prepared.is_model(move.receiver)

    def is_of_any_class(self, move: Move) -> bool:
        """Whether nothing tells the class of what a statement moves in place, which no tensor is: `norm.cuda()`."""
        held = self.program.values(move.receiver)
        is_unknown = bool(held) and all(isinstance(v, (Argument, Member)) for v in held)
        is_statement = isinstance(self.program.parent(move.call), ast.Expr)
        return is_statement and is_unknown and not any(map(self._is_module, held))

    def _is_module(self, value: Value) -> bool:
        """Whether a value is known for a module: by what is done with it, or by its annotation, `net: nn.Module`."""
        given = value.scope.parameters if isinstance(value, Argument) else []
        said = [p.annotation for p in given if isinstance(value, Argument) and p.arg == value.name]
        classes = (last_name(a) for a in said if a is not None)
        is_said = any(names.is_module(f"torch.nn.{name}") for name in classes)
        return is_said or self.roles.is_model(value) or value in self.roles.modules_by_use

    def moves_nothing(self, move: Move) -> bool:
        """Whether what is moved is a loss, or another module, without any tensors: `nn.MSELoss().cuda()`."""
        held = self.program.values(move.receiver)
        return bool(held) and all(map(self._is_without_tensors, held))

    def _is_without_tensors(self, value: Value) -> bool:
        if isinstance(value, Made):
            given = (
                [*value.node.args, *(k.value for k in value.node.keywords)] if isinstance(value.node, ast.Call) else []
            )
            constants = (v for n in given for v in self.program.values(n) or {value})
            return names.is_loss(value.name) and all(isinstance(v, Constant) for v in constants)
        if not isinstance(value, Instance) or not self.roles.is_module(value):
            return False
        if self.program.flow.ancestors(value.cls) or any(
            map(names.has_weights, self.program.flow.external_bases(value.cls))
        ):
            return False  # what it inherits may have some
        own = set(value.cls.walk())
        set_up = [c for s in own if s.name == "__init__" for c in self.program.calls_in(s)]
        is_plain = all(ast.unparse(c.func).endswith(("super", "__init__")) for c in set_up)
        writes = [w for each in self.program.attribute_writes.values() for w in each if self.program.frame(w) in own]
        given = [n for w in writes if (n := self.tracer.assigned(w)) is not None]
        return is_plain and not any(self.roles.is_module(v) for n in given for v in self.program.values(n))

    def _comes_back(self, move: Move) -> bool:
        """Whether a model may be in the host's memory by then: `model.cpu()`, `save(model)`, `model.to(device)`."""
        held = self.program.values(move.receiver)
        return any(
            self.program.values(call.func.value) & held and self.program.may_follow(move.call, call)  # type: ignore[attr-defined]  # a method
            for call in self._to_host
        )

    @cached_property
    def _to_host(self) -> list[ast.Call]:
        """The calls that bring models to the host's memory, for a while: `model.cpu()`."""
        calls = [c for c in self.program.calls if brings_to_cpu(c)]
        return [c for c in calls if any(map(self.roles.is_model, self.program.values(c.func.value)))]  # type: ignore[attr-defined]  # a method

    def _is_prepared_sometimes(self, text: str, start: ast.stmt, end: ast.stmt) -> bool:
        """Whether an attribute, which anything may read, is prepared under a condition that its move has not."""
        choices = [a for a in self.program.ancestors(end) if isinstance(a, ast.If)]
        is_chosen = any(not self.program.inside(start, choice) for choice in choices)
        return is_chosen and text not in self.program.frame(start).reads


def _gives_another(statement: ast.stmt, text: str) -> bool:
    """Whether a statement binds a name to something else than what it holds: `net = Net().to(device)`."""
    value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
    return value is not None and text not in {ast.unparse(n) for n in walk(value) if isinstance(n, ast.expr)}


def _received(statement: ast.AST | None, call: ast.Call, returned: ast.expr, text: str) -> str | None:
    """The variable in which a caller gets what a function returns under a name: `net` of `net, loss = make()`."""
    if not isinstance(statement, ast.Assign) or statement.value is not call or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    given, taken = [returned], [target]
    if isinstance(returned, ast.Tuple) and isinstance(target, ast.Tuple) and len(returned.elts) == len(target.elts):
        given, taken = returned.elts, target.elts
    places = [t for g, t in zip(given, taken, strict=True) if ast.unparse(g) == text]
    is_once = sum(isinstance(n, ast.expr) and ast.unparse(n) == text for n in walk(returned)) == 1
    return ast.unparse(places[0]) if places and is_once else None


def _is_left_out(value: Value) -> bool:
    """Whether a value is None, or a parameter that is None unless it is given."""
    default = value.scope.defaults.get(value.name) if isinstance(value, Argument) else None
    is_none = isinstance(default, ast.Constant) and default.value is None
    return is_none or value == Constant(None)


def is_cpu(device: ast.expr) -> bool:
    """`"cpu"` and `torch.device("cpu")`: where a tensor is brought to be looked at, not to be computed with."""
    if isinstance(device, ast.Call) and device.args:
        device = device.args[0]
    return isinstance(device, ast.Constant) and str(device.value).startswith("cpu")


def last_name(node: ast.expr) -> str:
    """`gpu` of `args.gpu`, of `config["gpu"]` and of `gpu`; `gpu_ids` of `gpu_ids[0]`."""
    if isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
            return last_name(node.value)
        return str(node.slice.value) if isinstance(node.slice, ast.Constant) else ""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def moved_by(function: ast.Attribute) -> tuple[ast.expr, tuple[ast.Call, ...]]:
    """What a method moves, and the calls that only prepare it for that: `x` of `x.pin_memory().to`."""
    moved, prepares = function.value, list[ast.Call]()
    while isinstance(moved, ast.Call) and methods.prepares_a_move(method_of_call(moved)):
        prepares.append(moved)
        moved = moved.func.value  # type: ignore[attr-defined]  # an attribute
    return moved, tuple(prepares)


def is_option(node: ast.AST) -> bool:
    """`args.gpu`, `config["train"]["gpu"]`; `args.gpu.index` is more than the option."""
    is_part = isinstance(node, ast.Attribute) or (
        isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
    )
    if not is_part or not last_name(node):  # type: ignore[arg-type]  # an expression
        return False
    assert isinstance(node, (ast.Attribute, ast.Subscript))
    if vocabulary.holds_options(code(node.value)):
        return True
    return is_option(node.value) and not vocabulary.is_device_name(last_name(node.value))


def is_lookup(node: ast.expr) -> bool:
    """Whether a value is read from a mapping of settings: `settings.get("device", "cuda")`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "get":
        return False
    is_key = bool(node.args) and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    holder = node.func.value
    return is_key and isinstance(holder, ast.Name) and all(isinstance(a, ast.Constant) for a in node.args)


def options_in(node: ast.AST) -> set[str]:
    """The options of a script that are read somewhere: `args.no_cuda`, `config.get("gpu")`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        read = ast.unparse(node.func.value)
        if vocabulary.holds_options(read) and node.args and isinstance(node.args[0], ast.Constant):
            return {ast.unparse(ast.Call(node.func, node.args[:1], []))}
        return set().union(*map(options_in, [node.func.value, *node.args, *node.keywords]))
    if is_option(node):
        return {ast.unparse(node)}
    return set().union(*map(options_in, ast.iter_child_nodes(node)))
