"""What a script makes itself is in the CPU's memory: does a model get it, does it meet what is elsewhere?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from accelify.codemod.devices.destinations import Where, sets_default_gpu
from accelify.codemod.devices.host_reads import HostReads
from accelify.codemod.devices.lattice import Lattice, asks_no_value
from accelify.codemod.files.parse import Parsed
from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import Effect
from accelify.codemod.semantics.effects.kinds import UNKNOWN, Kinds
from accelify.codemod.semantics.provenance import Binding
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Argument, Element, Instance, Made, Member, Value

_DEPTH = 5
_MAY_BE_TENSORS = frozenset({"tensor", "parameter", "buffer", UNKNOWN})
_TENSORS = frozenset({"tensor", "parameter", "buffer"})
_LOOKS = frozenset({Effect.PRINTS, Effect.WAITS, Effect.SEEDS_TORCH})
_THERE = frozenset({Where.ACCELERATOR})
_OPERATIONS = (ast.BinOp, ast.Compare, ast.AugAssign, ast.Subscript)
_DEVICE = re.compile(r"cuda|gpu|device|^mps$|^xpu$", re.IGNORECASE)


def _whole(value: Value) -> Value:
    """The value of which another is a part: the result of a call from which `x, y = self.get_batch()` takes them."""
    while isinstance(value, Member) or (isinstance(value, Element) and isinstance(value.owner, Made)):
        value = value.owner
    return value


class Homemade:
    """Such a script trains where its tensors are; a model that is prepared would go to a GPU without them."""

    def __init__(self, lattice: Lattice, backwards: Sequence[ast.Call]) -> None:
        self.lattice = lattice
        self.backwards = backwards
        self.tensors = lattice.tensors
        self.program = lattice.program
        self.tracer = lattice.tracer
        self.prepared = lattice.prepared

    @cached_property
    def mixing(self) -> Mixing:
        return Mixing(self.lattice)

    def find(self) -> ast.expr | None:
        """The first such place in the text; None where there is none, or where the script names a device."""
        found = self._unplaced
        return (
            None if any(map(self._is_given_by_others, found)) else min(found, key=self.program.position, default=None)
        )

    def given_by_others(self) -> ast.expr | None:
        """The first place where a model gets what only code that is not read can put on a device."""
        found = filter(self._is_given_by_others, self._unplaced)
        return min(found, key=self.program.position, default=None)

    @cached_property
    def _unplaced(self) -> list[ast.expr]:
        """What has no known place on a device, if the script names none."""
        if self.names_a_device():
            return []
        host = self.program.once(HostReads)
        kept = [*host.asked, *self.lattice.on_device(host.shared)]
        return [*self._given(), *self.tensors.made_in_models(), *self._without_a_model(), *kept]

    def _is_given_by_others(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether something is of what nothing here gives: a parameter, or the result of a function that is one.

        What a loader yields is in CPU memory, whoever gives it, and so is what is made here, of whatever size.
        """
        if isinstance(node, ast.Call) and self.tensors.is_creator(node):
            return False
        parts = (n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute)))
        held = {_whole(v) for n in parts for v in self.program.values(n)}
        calls = [v.node for v in held if isinstance(v, Made) and v.name is None and isinstance(v.node, ast.Call)]
        if any(isinstance(v, Argument) for v in held) and self._is_unused:
            return True
        return depth > 0 and any(self._is_given_by_others(c, depth - 1) for c in calls if c is not node)

    @cached_property
    def _is_unused(self) -> bool:
        """Whether no file of the repository uses what the script trains with, as far as its imports say."""
        return not any(self._users())

    def names_a_device(self) -> bool:
        """Whether the script knows of devices, or another that has it train what that one has put on a device."""
        named = (n for parsed in self.program.files for n in parsed.nodes if _DEVICE.search(_name(n)))
        is_named = any(
            self.program.frame(n) in self.program.reachable and not (self._is_idle(n) or self._follows_a_tensor(n))
            for n in named
        )
        return is_named or self.has_default_gpu or self.is_named_by_users()

    @cached_property
    def has_default_gpu(self) -> bool:
        """Whether the script, or a file that it imports, has tensors be made on a GPU that no `device=` places."""
        calls = (c for c in self.program.calls if sets_default_gpu(self.program, c))
        return any(map(self.program.is_run, calls))

    def is_named_by_users(self) -> bool:
        """Whether one that has it train knows of devices."""
        return any(_DEVICE.search(_name(n)) for user in self._users() for n in user.nodes)

    def _users(self) -> Iterator[Parsed]:
        """The other files of the repository that use a function or class of the script's by which it trains."""
        training = {self.program.frame(b) for b in self.backwards}
        for parsed in self.program.named:
            for scope in self.program.flow.bindings[parsed.path].root.children:
                run = self.program.run_from(self._methods(scope) if scope.kind == "class" else [scope])
                if run & training and not self._is_used(scope):
                    yield from self.program.flow.project.users(parsed, scope.name)

    def _methods(self, cls: Scope) -> list[Scope]:
        """The methods of a class of the project, with those that it inherits."""
        return [m for each in (cls, *self.program.flow.ancestors(cls)) for m in each.children]

    def _is_used(self, scope: Scope) -> bool:
        """Whether the program calls a function; or methods of a class from outside the classes of its family."""
        flow = self.program.flow
        family = {scope, *flow.ancestors(scope), *flow.descendants(scope)} if scope.kind == "class" else {scope}
        calls = (c for f in (scope, *scope.children) for c in flow.callers.get(f, ()))
        return any(self.program.frame(c).parent not in family for c in calls)

    def _follows_a_tensor(self, node: ast.AST) -> bool:
        """Whether a device is that of a tensor, wherever it is: `x.device`, and `device` if that is what it holds."""
        if isinstance(node, ast.keyword):
            return self._follows_a_tensor(node.value)
        if isinstance(node, ast.Name):
            owner = self.program.scope(node).owner(node.id)
            writes = [] if owner is None else self.tracer.writes(owner, node.id)
            values = [self.tracer.assigned(w) if isinstance(w, ast.Name) else None for w in writes]
            return bool(values) and all(v is not None and self._is_of_a_tensor(v) for v in values)
        return isinstance(node, ast.Attribute) and self._is_of_a_tensor(node)

    def _is_of_a_tensor(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Attribute) or not methods.says_where(node.attr):
            return False
        held = self.program.once(Kinds).of(node.value)
        return held <= _TENSORS or (self.tensors.is_in_model(self.program.frame(node)) and self._is_given(node.value))

    def _is_given(self, node: ast.expr) -> bool:
        """Whether a variable is a parameter, perhaps changed since."""
        owner = self.program.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        writes = self.tracer.writes(owner, node.id) if owner is not None and isinstance(node, ast.Name) else ()
        return any(isinstance(w, ast.arg) for w in writes)

    def _is_idle(self, node: ast.AST) -> bool:
        """Whether a device is only looked at, or chosen for a variable that is: `print(torch.cuda.is_available())`."""
        statement = self.program.statement(node)
        if not isinstance(statement, ast.Assign):
            return self._only_looks(statement)
        target = statement.targets[0] if len(statement.targets) == 1 else None
        owner = self.program.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
        if owner is None or not isinstance(target, ast.Name):
            return False
        imported = (n.name for parsed in self.program.files for n in parsed.nodes if isinstance(n, ast.alias))
        reads = self.program.reads_of(owner, target.id)
        return all(self._only_looks(self.program.statement(r)) for r in reads) and not any(
            name in (target.id, "*") for name in imported
        )

    def _only_looks(self, statement: ast.stmt) -> bool:
        """Whether a statement prints something, or asks or tells the GPUs something that moves no tensor."""
        if isinstance(statement, ast.If):
            return not statement.orelse and all(map(self._only_looks, statement.body))
        call = statement.value if isinstance(statement, ast.Expr) else None
        rows = [table.function(n) for n in self.program.called(call)] if isinstance(call, ast.Call) else []
        return bool(rows) and all(row is not None and row.effects and row.effects <= _LOOKS for row in rows)

    def _given(self) -> Iterator[ast.expr]:
        """The tensors that prepared models are given, and those that losses compare with their outputs."""
        for call in self.program.calls:
            frame = self.program.frame(call)
            if frame not in self.program.reachable or self.tensors.is_in_model(frame):
                continue
            given = {g: self.mixing.side(g) for g in (*call.args, *(k.value for k in call.keywords))}
            is_loss = self.tensors.is_loss(call) and _THERE in given.values()
            if self.tensors.is_model_call(call) or is_loss:
                yield from (g for g, side in given.items() if not side <= _THERE)

    def _without_a_model(self) -> Iterator[ast.expr]:
        """The losses of a script that prepares no model: nothing would bring to a GPU what it trains."""
        if not self.prepared.preparation.has_model:
            yield from self.backwards


class Mixing:
    """May tensors in the host's memory meet those on the device, in a script that had its models on the CPU?

    Where not even the kind of a value is known, the answer is yes.
    """

    def __init__(self, lattice: Lattice) -> None:
        self.lattice = lattice
        self.program = lattice.program
        self.tensors = lattice.tensors
        self.roles = lattice.roles
        self.kinds = self.program.once(Kinds)
        self.host = self.program.once(HostReads)

    def first(self) -> ast.AST | None:
        """A place where they may."""
        found: list[ast.AST] = [n for n in self._nodes() if self._is_run(n) and self._may_meet(n)]
        found += [c for c in self.program.calls if self._is_run(c) and self._runs_another(c)]
        found += [r for r in self.host.all if not self.side(r) <= {Where.HOST}]
        return min(found, key=self.program.position, default=None)

    def _nodes(self) -> Iterator[ast.AST]:
        yield from self.program.calls
        for parsed in self.program.files:
            yield from (n for n in parsed.parents if isinstance(n, _OPERATIONS))

    def _is_run(self, node: ast.AST) -> bool:
        """Whether code is run, and not while a model is built, which is on the CPU until then."""
        frame = self.program.frame(node)
        builds = self.tensors.is_in_model(frame) and self.tensors.sets_up(frame)
        return frame in self.program.reachable and not builds

    def _runs_another(self, call: ast.Call) -> bool:
        """Whether a network runs that is not prepared, and so is in the host's memory."""
        if self.tensors.is_in_model(self.program.frame(call)):
            return False
        network = call.func
        if isinstance(network, ast.Attribute) and self.program.flow.callees.get(call):
            network = network.value
        held, models = self.program.values(network), self.lattice.prepared.preparation.models
        if not any(map(self._learns, held)) or self.tensors.is_part(network):
            return False
        chains = self.lattice.tracer.chains(network)
        return not held <= models or not all(any(map(self._is_prepared, chain)) for chain in chains)

    def _is_prepared(self, binding: Binding) -> bool:
        preparation = self.lattice.prepared.preparation
        items = (i for i in (*preparation.items, *preparation.bare_models) if i.kind == "model")
        is_named = any(i.frame is binding.scope and i.text == binding.text for i in items)
        return is_named or any(binding.node is node for kind, node in preparation.wrapped if kind == "model")

    def _learns(self, value: Value) -> bool:
        """Whether a module has weights, as far as can be seen."""
        if isinstance(value, Made):
            return names.has_weights(value.name)
        return isinstance(value, Instance) and self.roles.is_module(value) and self.roles.has_weights(value.cls)

    def _may_meet(self, node: ast.AST) -> bool:
        sides = [side for side in self._sides(node) if side]
        return len(sides) > 1 and len(frozenset().union(*sides)) > 1

    def _sides(self, node: ast.AST) -> list[frozenset[Where]]:
        """Where the tensors of the operands of an operation may be, those of a model that is called among them."""
        if isinstance(node, ast.Call):
            return self._sides_of(node)
        if isinstance(node, ast.BinOp):
            return [self.side(node.left), self.side(node.right)]
        if isinstance(node, ast.Compare):
            return [self.side(n) for n in _compared(node)]
        if isinstance(node, ast.AugAssign):
            return [self.side(node.target), self.side(node.value)]
        assert isinstance(node, ast.Subscript)
        whole = self.side(node.value)
        return [whole, self.side(node.slice)] if whole != {Where.ACCELERATOR} else []

    def side(self, node: ast.expr) -> frozenset[Where]:
        """Where the tensors of an operand may be."""
        if self.lattice.is_text(node) or self._is_of_others(node):
            return frozenset()
        places, kinds = self.lattice.of(node), self.kinds.of(node)
        known = {p.where for p in places}
        if not known and kinds <= _TENSORS:
            return frozenset({Where.UNKNOWN})
        return frozenset(known if kinds & _MAY_BE_TENSORS else known - {Where.UNKNOWN})

    def _is_of_others(self, node: ast.expr) -> bool:
        """Whether something is where another is, or what a library has, or an option: `torch.float`, `args.seed`."""
        held = [v.root if isinstance(v, Member) else v for v in self.program.values(node)]
        devices = [k.value for k in node.keywords if k.arg == "device"] if isinstance(node, ast.Call) else []
        if any(map(self.lattice.devices.follows_tensors, devices)):
            return True
        is_option = bool(held) and all(isinstance(v, Made) and names.is_parser(v.name) for v in held)
        return is_option or bool(self.program.externals(node))

    def _sides_of(self, call: ast.Call) -> list[frozenset[Where]]:
        read = self.host.of(call)  # lengths, say: they are looked at apart
        given = [g for g in (*call.args, *(k.value for k in call.keywords)) if g not in read]
        called = self.program.called(call)
        if self.tensors.is_model_call(call):
            return [_THERE, *map(self._of_input, given)]
        if self.tensors.is_loss(call):
            return [self.side(g) for g in given]
        is_other = self.tensors.is_creator(call) or self.host.is_of_arrays(call) or self.lattice.is_text(call)
        if is_other or self.program.flow.callees.get(call):
            return []
        if not called:
            return [self._side_of_function(call), *map(self.side, given)]
        is_computed = any(n.startswith("torch.") for n in called) and all(map(names.may_compute, called))
        owner = [self.side(call.func.value)] if isinstance(call.func, ast.Attribute) else []
        return [*owner, *(self.side(each) for g in given for each in _listed(g))] if is_computed else []

    def _of_input(self, node: ast.expr) -> frozenset[Where]:
        """Where the tensors may be that a model gets, as it does if nothing is known of what it is given."""
        side = self.side(node)
        is_known = side or UNKNOWN not in self.kinds.of(node) or self.lattice.is_text(node) or self._is_of_others(node)
        return side if is_known else frozenset({Where.UNKNOWN})

    def _side_of_function(self, call: ast.Call) -> frozenset[Where]:
        """Where the weights of what is called are, or the object whose method is called."""
        is_module = any(map(self.roles.is_module, self.program.values(call.func)))
        if isinstance(call.func, ast.Attribute) and not is_module:
            return self.side(call.func.value)
        return _THERE if self.tensors.is_in_model(self.program.frame(call)) else frozenset({Where.UNKNOWN})


def _compared(node: ast.Compare) -> list[ast.expr]:
    """What is compared by value, and not asked who or where it is: nothing of `x is None`, `x in rows`."""
    return [] if asks_no_value(node) else [node.left, *node.comparators]


def _listed(node: ast.expr) -> list[ast.expr]:
    """The tensors of `torch.cat([x, y])`, one by one."""
    if isinstance(node, ast.Starred):
        return [node.value]
    return [e for part in node.elts for e in _listed(part)] if isinstance(node, (ast.List, ast.Tuple)) else [node]


def _name(node: ast.AST) -> str:
    """The name by which a node refers to a device; empty for other nodes."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, (ast.keyword, ast.arg)):
        return node.arg or ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("cuda"):
        return node.value
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)  # `config["device"]`
    return ""
