"""Which device does an expression name: the host's memory, the accelerator's device, or one GPU by its number?

Two answers at once, for a machine with a GPU: `now`, once the script is rewritten, and `was`, in the plain script.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeGuard

from accelify.codemod.devices.moves import is_lookup, is_option, last_name, options_in
from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import Device
from accelify.codemod.libraries.vocabulary import is_device_name, is_device_text, mentions_devices
from accelify.codemod.preparing.settings import declares_option, is_declared_default
from accelify.codemod.semantics.conditions import Conditions
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, method_of_call, returned
from accelify.codemod.semantics.values import Constant, Instance, Made, template
from accelify.codemod.training.roles import Roles


class Where(Enum):
    """A memory that tensors live in."""

    HOST = "the host's memory"
    ACCELERATOR = "the accelerator's device"  # in the plain script: the GPU
    NUMBERED = "one GPU by its number, the same in every process"
    GIVEN = "where an argument is"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Destination:
    """A device that an expression may name; `given` is the parameter that says it, `source` the code that numbers it.

    is_part: whether a function returns it together with something else.
    """

    now: Where
    was: Where
    given: ast.arg | None = None
    is_given: bool = False  # by an argument, or by the default of an option
    source: ast.expr | None = None
    is_part: bool = False


GPU = Destination(Where.ACCELERATOR, Where.ACCELERATOR)
NUMBERED = Destination(Where.NUMBERED, Where.ACCELERATOR)
HOST = Destination(Where.HOST, Where.HOST)
UNKNOWN = Destination(Where.UNKNOWN, Where.UNKNOWN)
Named = frozenset[Destination]
_DEPTH = 20
_VARIABLES = (ast.Name, ast.Attribute, ast.Subscript)
_SAME, _OTHER = (ast.Is, ast.Eq, ast.In), (ast.IsNot, ast.NotEq, ast.NotIn)


class Destinations:
    """Follow expressions that name devices back to texts, options and other tensors.

    replaced: the expressions that the accelerator's device takes the place of. holds: what a condition comes to on a
    machine with a GPU. of_tensor: where the tensors of an expression live.
    """

    def __init__(
        self,
        program: Program,
        roles: Roles,
        tracer: Tracer,
        replaced: Collection[ast.expr],
        holds: Callable[[ast.expr], bool | None],
        of_tensor: Callable[[ast.expr], Iterable[Destination]],
    ) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.replaced = replaced
        self.holds = holds
        self.of_tensor = of_tensor
        self._open: list[ast.AST] = []

    def of(self, node: ast.expr | None) -> Named:
        """The devices that an expression may name; of none, the process's own GPU."""
        if node is None:
            return frozenset({GPU})
        if node in self._open or len(self._open) > _DEPTH:
            return frozenset()
        self._open.append(node)
        found = self._of(node)
        self._open.pop()
        if node in self.replaced:
            named = self.resolved(found or frozenset({UNKNOWN}))
            return frozenset(replace(d, now=Where.ACCELERATOR, source=None) for d in named)
        return found

    def is_own_by_itself(self, node: ast.expr) -> bool:
        """Whether an expression names the process's own device even where nothing takes its place."""
        named = self.resolved(self._of(node))
        return bool(named) and all(d.now is Where.ACCELERATOR for d in named)

    def _of(self, node: ast.expr) -> Named:
        if gpu_texts_at(node):
            return frozenset({replace(NUMBERED, source=node)})
        if isinstance(node, ast.Constant):
            return of_constant(node.value)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.IfExp):
            return self._chosen(node)
        if isinstance(node, ast.BoolOp):
            return self._any_of(node.values)
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        return frozenset({UNKNOWN})

    def _any_of(self, nodes: Iterable[ast.expr | None]) -> Named:
        return frozenset(d for n in nodes if n is not None for d in self.of(n)) or frozenset({UNKNOWN})

    def _chosen(self, node: ast.IfExp) -> Named:
        held = self.holds(node.test)
        if held is not None:
            return self.of(node.body if held else node.orelse)
        return self.of(node.body) | self.of(node.orelse)

    def _call(self, node: ast.Call) -> Named:
        called = self.program.called(node)
        if "torch.device" in called or "str" in called:
            given = [*node.args, *(k.value for k in node.keywords)]
            found = self._any_of(given[:1])
            is_numbered = len(given) > 1 and "torch.device" in called
            return frozenset(replace(NUMBERED, source=node) if is_numbered and d == GPU else d for d in found)
        if any(map(names.is_device, called)):
            return frozenset({GPU})
        callees = self.program.flow.callees.get(node)
        if not callees:
            return frozenset({UNKNOWN})
        found = self._any_of(returned(callees))
        return frozenset(d for each in found for d in self.at_call(each, node))

    def at_call(self, named: Destination, call: ast.Call) -> Named:
        """A device that a function is given, as one call gives it."""
        if named.given is None:
            return frozenset({named})
        function = self.program.scope(named.given)
        if function not in self.program.flow.callees.get(call, ()):
            return frozenset({named})
        given = self.tracer.given(call, function, named.given.arg)
        return frozenset({UNKNOWN}) if given is None else self.of(given)

    def resolved(self, named: Named, depth: int = 4) -> Named:
        """Some devices with those of arguments filled in, by any call, or by the default where nothing calls."""
        found: set[Destination] = set()
        for each in named:
            if each.given is None or not depth:
                found.add(each if each.given is None else UNKNOWN)
                continue
            owner = self.program.scope(each.given)
            calls = self.program.calls_of(owner)
            given = [self.tracer.given(c, owner, each.given.arg) for c in calls]
            given = given or [owner.defaults.get(each.given.arg)]
            for node in given:
                passed_on = frozenset({UNKNOWN}) if node is None else self.of(node) - {each}  # by a recursive call
                inner = self.resolved(passed_on, depth - 1)
                found |= {replace(d, is_given=True) for d in inner}
        return frozenset(found)

    def follows_tensors(self, device: ast.expr | None, depth: int = 5) -> bool:
        """Whether all that a device may be is where a tensor is, or the process's own: `x.device`, a name for it."""
        if device is None or not depth:
            return False
        if isinstance(device, ast.IfExp):
            is_asked = _asks_a_tensor(device.test)
            return all(
                self._is_other(d, is_asked) or self.follows_tensors(d, depth) for d in (device.body, device.orelse)
            )
        if isinstance(device, ast.BoolOp):
            return all(self.follows_tensors(d, depth) for d in device.values)
        if isinstance(device, ast.Name):
            return self._holds_those_of_tensors(device, depth - 1)
        if isinstance(device, ast.Call):
            is_method = method_of_call(device) == "get_device"
            return (is_method and not device.args and not self.program.called(device)) or self.is_own(device)
        getters = self._getters(device) if isinstance(device, ast.Attribute) else []
        if getters:
            values = [*returned(getters)]
            return bool(values) and all(self.follows_tensors(v, depth - 1) for v in values)
        return is_where_another_is(device) or self.is_own(device)

    def is_own(self, device: ast.expr) -> bool:
        """Whether all that a device may be is the process's own."""
        named = self.resolved(self.of(device))
        return bool(named) and all(d.now is Where.ACCELERATOR for d in named)

    def is_host(self, device: ast.expr) -> bool:
        """Whether a device is nothing but the CPU, in the plain script and once it is rewritten."""
        return self.resolved(self.of(device)) == {HOST}

    def _is_other(self, device: ast.expr | None, is_asked: bool) -> bool:
        """Whether a device is the host, for tensors that are there."""
        return is_asked and all(d.now is Where.HOST for d in self.of(device))

    def _holds_those_of_tensors(self, name: ast.Name, depth: int) -> bool:
        owner = self.program.scope(name).owner(name.id)
        writes = list(self.program.reaching(name, self.tracer.writes(owner, name.id))) if owner is not None else []
        given = [(value, self._asks_round(write)) for write in writes for value in self._values_of(write)]
        known = [(v, is_asked) for v, is_asked in given if not (isinstance(v, ast.Constant) and v.value is None)]
        return bool(given) and all(
            self._is_other(v, is_asked) or self.follows_tensors(v, depth) for v, is_asked in known
        )

    def _asks_round(self, write: ast.AST) -> bool:
        return any(_asks_a_tensor(branching.test) for branching, _ in self.program.branches_round(write))

    def _values_of(self, write: ast.AST) -> list[ast.expr | None]:
        """What a variable or a parameter is given; None where that is not known."""
        if not isinstance(write, ast.arg):
            return [self.tracer.assigned(write) if isinstance(write, ast.Name) else None]
        function = self.program.scope(write)
        return [self.tracer.given(call, function, write.arg) for call in self.program.calls_of(function)] or [None]

    def _getters(self, node: ast.Attribute) -> list[Scope]:
        """The properties of the project's own classes that an attribute may be."""
        classes = [v.cls for v in self.program.values(node.value) if isinstance(v, Instance)]
        methods = (self.program.flow.method(cls, node.attr) for cls in classes)
        return [m for m in methods if m is not None and m.is_property]

    # Variables.

    def _name(self, node: ast.Name) -> Named:
        owner = self.program.scope(node).owner(node.id)
        if owner is None:
            return frozenset({UNKNOWN})
        writes = self.program.reaching(node, self.tracer.writes(owner, node.id))
        found: set[Destination] = set()
        for write in writes:
            found |= self._written(owner, write)
        return frozenset(found) or frozenset({UNKNOWN})

    def _written(self, owner: Scope, write: ast.AST) -> Named:
        if isinstance(write, ast.arg):
            return frozenset({Destination(Where.GIVEN, Where.GIVEN, write)})
        if isinstance(write, ast.alias):
            return self._imported(write)
        if not isinstance(write, ast.Name) or self._does_not_run(write):
            return frozenset()
        return self._assigned(write)

    def _assigned(self, target: ast.expr) -> Named:
        """The devices that a target is given; of a part of what a call returns, those that its values are."""
        value = self.tracer.assigned(target)
        if value is not None:
            return self.of(value)
        return frozenset(replace(d, is_part=True) for d in self._held(target))

    def _held(self, node: ast.expr) -> Named:
        """The devices that the values of an expression are."""
        made = self.program.values(node)
        if not made or not all(map(self.roles.is_device, made)):
            return frozenset({UNKNOWN})
        calls = [v.node for v in made if isinstance(v, Made) and isinstance(v.node, ast.expr)]
        texts = (of_constant(v.value) for v in made if isinstance(v, Constant))
        return frozenset(d for each in (*map(self.of, calls), *texts) for d in each)

    def _imported(self, alias: ast.alias) -> Named:
        statement = self.program.statement(alias)
        if isinstance(statement, ast.ImportFrom):
            path = self.program.path(alias)
            root = self.program.flow.module_named(path, statement.module or "", statement.level)
            if root is not None:
                written = (self._written(root, w) for w in self.tracer.writes(root, alias.name))
                return frozenset(d for each in written for d in each)
        return frozenset({UNKNOWN})

    def _attribute(self, node: ast.Attribute) -> Named:
        holder = node.value
        writes = self.program.attribute_writes.get(node.attr, ())
        held = self.program.values(holder)
        getters = self._getters(node)
        if getters:
            return self._any_of(returned(getters))
        own = [w for w in writes if self.program.values(w.value) & held or ast.unparse(w) == ast.unparse(node)]
        if own:
            named = (self._assigned(w) for w in own if not self._does_not_run(w))
            return frozenset(d for each in named for d in each) or frozenset({UNKNOWN})
        texts = self.program.once(option_texts).get(node.attr)
        if texts and options_in(node):
            is_numbered = re.fullmatch(r"cuda:\d+", texts[0]) is not None
            return frozenset({UNKNOWN, *([replace(NUMBERED, is_given=True)] if is_numbered else [])})
        made = self.program.values(node)
        if made and all(isinstance(v, Made) and self.roles.is_device(v) for v in made):  # in the body of a class
            return self._held(node)
        if node.attr == "device" and (of_tensor := frozenset(self.of_tensor(holder))):
            return of_tensor
        return frozenset({UNKNOWN})

    def _does_not_run(self, node: ast.AST) -> bool:
        """Whether a place is in a branch that does not run on a machine with a GPU."""
        return any(
            self.holds(b.test) is (not is_body)
            for b, is_body in self.program.branches_round(node)
            if self.holds(b.test) is not None
        )


def option_texts(program: Program) -> dict[str, tuple[str, ...]]:
    """The options that the script declares, with their default and choices: `"--device", default="cuda:0"`.

    The default is that of a machine with a GPU. None of an option that is no text; not those whose default is not
    known, and that may be devices themselves, or None.
    """
    found: dict[str, tuple[str, ...]] = {}
    for call in program.calls:
        if declares_option(call):
            names = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            given = {k.arg: k.value for k in call.keywords}
            default, kind, choices = _with_a_gpu(program, given.get("default")), given.get("type"), given.get("choices")
            is_text = kind is None or (isinstance(kind, ast.Name) and kind.id == "str")
            is_known = isinstance(default, ast.Constant) and isinstance(default.value, str)
            offered = choices.elts if isinstance(choices, (ast.List, ast.Tuple)) else []
            texts = (str(t.value) for t in (default, *offered) if isinstance(t, ast.Constant))
            if names and (is_known or not is_text) and "torch.device" not in program.externals(kind):
                found[names[-1].lstrip("-").replace("-", "_")] = tuple(texts) if is_text else ()
    return found


def _with_a_gpu(program: Program, default: ast.expr | None) -> ast.expr | None:
    """`"cuda"` of `"cuda" if torch.cuda.is_available() else "cpu"`, and of a variable that holds this."""
    value = program.once(Tracer).only_value(default) or default if isinstance(default, ast.Name) else default
    if not isinstance(value, ast.IfExp):
        return value
    texts = [n for n in (value.body, value.orelse) if isinstance(n, ast.Constant) and is_device_text(n.value)]
    named = (n for n in texts if of_constant(n.value) != frozenset({HOST}))
    return next(named, None) if len(texts) == 2 else value


def asks_for_cpu(code: str, texts: tuple[str, ...] | None = None) -> str:
    """The condition under which a device that the user names is the CPU, `"cpu:0"` as well.

    texts: the option's default and choices, if it is known to be a text.
    """
    if texts is not None and len(texts) > 1 and not any(":" in text for text in texts):
        return f"{code} == 'cpu'"
    return f"{code}.startswith('cpu')" if texts is not None else f"str({code}).startswith('cpu')"  # of a device, too


def may_name_device(node: ast.expr, declared: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether an option may be the name of a device: by its default, or as `device` of options declared elsewhere."""
    name = last_name(node)
    if name not in declared:
        return name == "device"
    default = declared[name][:1]
    return any(map(is_device_text, default)) or (name == "device" and default in (("",), ("auto",)))


def is_default(program: Program, node: ast.AST, depth: int = 2) -> bool:
    """Whether an expression is only what an option is where the user names none.

    `default=device`, `args.device or device`, `device` after `if args.device: return args.device`
    """
    parent = program.parent(node)
    if any(is_option_for_devices(program, n, depth) for n in _unsaid_at(program, node)):
        return True
    if isinstance(parent, ast.keyword):
        return is_declared_default(program, node)
    if isinstance(parent, ast.BoolOp):
        first = parent.values[0]
        is_option = bool(options_in(first)) or is_option_for_devices(program, first, depth)
        return isinstance(parent.op, ast.Or) and first is not node and is_option
    if isinstance(parent, ast.Call) and "torch.device" in program.called(parent):
        return is_default(program, parent, depth)
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    if target is None or not depth:
        return False
    tests = (branching.test for branching, _ in program.branches_round(target))
    if any(ast.unparse(target) in options_in(test) for test in tests):
        return True
    owner = program.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
    reads = program.reads_of(owner, target.id) if owner is not None and isinstance(target, ast.Name) else []
    return bool(reads) and all(is_default(program, r, depth - 1) for r in reads)


def _unsaid_at(program: Program, node: ast.AST) -> Iterator[ast.expr]:
    """What is None, empty or no device's name where a node runs: `device` below `if device: return device`."""
    for part, is_true in program.once(Conditions).said_at(node):
        yield from _says_nothing(part, is_true)


def _says_nothing(test: ast.expr, holds: bool) -> Iterator[ast.expr]:
    """`x` where `x`, or that it is a text, does not hold, or where `x is None`, `x == ""` or `x in (None, "")` does."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _says_nothing(test.operand, not holds)
    if isinstance(test, _VARIABLES) and not holds:
        yield test
    if isinstance(test, ast.Call) and ast.unparse(test.func) == "isinstance" and not holds:
        yield from test.args[:1] if [ast.unparse(a) for a in test.args[1:]] == ["str"] else ()
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or if holds else ast.And):
        each = [{ast.unparse(n): n for n in _says_nothing(value, holds)} for value in test.values]
        yield from (n for text, n in each[0].items() if all(text in found for found in each))
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], _SAME if holds else _OTHER):
        other = test.comparators[0]
        said = other.elts if isinstance(other, (ast.Tuple, ast.List, ast.Set)) else [other]
        if all(isinstance(n, ast.Constant) and not mentions_devices(repr(n.value)) for n in said):
            yield test.left


def is_option_for_devices(program: Program, node: ast.expr, depth: int = 2) -> bool:
    """Whether an expression is an option that names a device, perhaps as a function's parameter."""
    if is_lookup(node):
        return any(isinstance(a, ast.Constant) and a.value == "device" for a in node.args[:1])  # type: ignore[attr-defined]  # a call
    if not isinstance(node, ast.Name):
        return is_option(node) and may_name_device(node, program.once(option_texts))
    owner, tracer = program.scope(node).owner(node.id), program.once(Tracer)
    if owner is None or not depth:
        return False
    given: list[ast.expr | None] = []
    for write in program.reaching(node, tracer.writes(owner, node.id)):
        calls = program.calls_of(owner) if isinstance(write, ast.arg) else []
        given += [tracer.argument(call, owner, node.id) for call in calls]
        given += [tracer.assigned(write)] if isinstance(write, ast.Name) else []
    return any(g is not None and is_option_for_devices(program, g, depth - 1) for g in given)


def of_constant(value: object) -> Named:
    """`"cpu"`, `"cuda"`, `0`; the number of a GPU is one by its number."""
    if isinstance(value, str) and is_device_text(value):
        return frozenset({HOST if value.startswith("cpu") else GPU})
    if type(value) is int:
        return frozenset({HOST if value < 0 else NUMBERED})
    return frozenset({GPU if value is None else UNKNOWN})


# Text.


def device_types(program: Program, node: ast.expr) -> set[str]:
    """The types of the devices that an expression may be, `cuda` of `"cuda:0"`; an empty one where it is not known."""
    held = program.values(node)
    made = {v.node for v in held if isinstance(v, Made) and v.name == "torch.device" and isinstance(v.node, ast.Call)}
    texts = {v for v in held if not (isinstance(v, Made) and v.node in made)}
    texts |= {v for call in made for v in program.values(call.args[0] if call.args else None)} - held
    return {str(v.value).partition(":")[0] if isinstance(v, Constant) else "" for v in texts}


def gpu_texts(program: Program, node: ast.AST) -> Iterator[ast.expr]:
    """The parts of some code that are a GPU by its number: `"cuda:0"`, `f"cuda:{gpu}"`, `torch.device("cuda", gpu)`.

    The keys of `map_location={"cuda:0": "cpu"}` are what a file says, and no device of this process.
    """
    if isinstance(node, ast.expr) and (gpu_texts_at(node) or is_numbered_call(program, node)):
        yield node
    else:
        for part in node.values if isinstance(node, ast.Dict) else ast.iter_child_nodes(node):
            yield from gpu_texts(program, part)


def gpu_texts_at(node: ast.AST) -> bool:
    """Whether an expression is such a text itself."""
    return re.fullmatch(r"cuda:(\d+|\{\})", template(node)) is not None


def is_numbered_call(program: Program, node: ast.expr) -> TypeGuard[ast.Call]:
    """`torch.device("cuda", gpu)`, and `torch.device(gpu)` of a number."""
    if isinstance(node, ast.Call) and _bare_number(program, node) is not None:
        return True
    is_call = isinstance(node, ast.Call) and len(node.args) == 2 and ast.unparse(node.func).endswith("device")
    return is_call and isinstance(node.args[0], ast.Constant) and node.args[0].value == "cuda"  # type: ignore[attr-defined]  # a call


def _bare_number(program: Program, call: ast.Call) -> ast.expr | None:
    """`gpu` of `torch.device(gpu)`, if it is a number."""
    if len(call.args) != 1 or call.keywords or "torch.device" not in program.called(call):
        return None
    number = call.args[0]
    value = program.once(Tracer).only_value(number) or number
    is_number = program.once(Kinds).of(value) == {"number"} or is_by_number(program, value)
    return number if is_number or _is_numeric_option(program, value) else None


def _is_numeric_option(program: Program, node: ast.expr) -> bool:
    """`args.gpu` of `add_argument("--gpu", type=int)`"""
    values = program.once(Tracer).option_values(node.attr, "type") if isinstance(node, ast.Attribute) else []
    is_text = any(isinstance(v, ast.Constant) and isinstance(v.value, str) for v in values)
    return any(isinstance(v, ast.Name) and v.id == "int" for v in values) and not is_text


def numbers_of_gpus(program: Program, node: ast.AST) -> Iterator[ast.AST]:
    """Where some code says which GPU: `f"cuda:{args.gpu}"`, `torch.device("cuda", args.gpu)`, `x.cuda(args.gpu)`.

    And `args.gpu` of `["cuda:0", "cuda:1"][args.gpu]`.
    """
    for place in (n for n in ast.walk(node) if isinstance(n, ast.Subscript)):
        listed = place.value.elts if isinstance(place.value, (ast.List, ast.Tuple)) else []
        if listed and all(isinstance(e, ast.Constant) and str(e.value).startswith("cuda") for e in listed):
            yield place.slice
    texts = (text for text in gpu_texts(program, node) if gpu_texts_at(text))
    yield from (text for text in texts if not isinstance(text, ast.Constant))
    for call in (n for n in ast.walk(node) if isinstance(n, ast.Call)):
        last = ast.unparse(call.func).rpartition(".")[2]
        number = _bare_number(program, call)
        if number is not None:
            yield number
        elif last == "device":
            yield from [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "index")]
        elif last in ("cuda", "set_device"):
            yield from [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device")]


def is_by_number(program: Program, device: ast.expr | None) -> bool:
    """Whether an expression is one GPU by its number, which is another one for each process: `gpu_ids[0]`, `0`."""
    if isinstance(device, ast.Subscript) and isinstance(device.slice, ast.Constant) and type(device.slice.value) is int:
        name = last_name(device)
        if is_device_name(name) and name.endswith("s"):
            return True
    held = program.values(device)
    return bool(held) and all(isinstance(v, Constant) and type(v.value) is int for v in held)


def is_where_another_is(device: ast.expr | None) -> bool:
    """Whether a device is that of another value, `y.device`, which is right in every process."""
    if not isinstance(device, ast.Attribute) or device.attr != "device":
        return False
    owner = device.value
    is_holder = isinstance(owner, ast.Name) and owner.id == "self"  # or an option
    return not is_holder and not options_in(device)


def sets_default_gpu(program: Program, call: ast.Call) -> bool:
    """Whether a call may have all that no `device=` places be made on a GPU: by a default device, or a type there."""
    called, given = program.called(call), [*call.args[:1], *(k.value for k in call.keywords)]
    if "torch.set_default_device" in called:
        return any(device_types(program, g) != {"cpu"} for g in given)
    if "torch.set_default_tensor_type" not in called:
        return False
    held = {v for g in given for v in program.values(g)}
    types = {str(v.value) if isinstance(v, Constant) else getattr(v, "name", None) for v in held}
    return not types or any(names.memory_of_type(name) is not Device.HOST for name in types)


def makes_current(program: Program, call: ast.Call) -> bool:
    """Whether a block makes one GPU the current one, by a number or a name: `with torch.cuda.device(args.gpu):`."""
    is_block = isinstance(program.parent(call), ast.withitem) and len(call.args) == 1
    if not is_block or "torch.cuda.device" not in program.called(call):
        return False
    given = call.args[0]
    if any(map(program.once(Roles).is_device, program.values(given))):
        return gpu_texts_at(given)
    made = program.once(Tracer).only_value(given) or given
    return any(_is_a_gpu(program, node) for node in (given, made))


def _is_a_gpu(program: Program, node: ast.expr) -> bool:
    """Whether an expression is a GPU by its number or its name, perhaps an option's; not `x.device`."""
    if isinstance(node, ast.Constant):
        return node.value is not None
    is_option = isinstance(node, ast.Attribute) and not is_where_another_is(node)
    is_number = isinstance(node, ast.Call) and program.called(node) == {"int"}
    return gpu_texts_at(node) or is_option or is_number


def _asks_a_tensor(test: ast.expr) -> bool:
    """`x.is_cuda`"""
    return any(isinstance(n, ast.Attribute) and n.attr == "is_cuda" for n in ast.walk(test))
