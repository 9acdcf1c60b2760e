"""Which options name a device for code that stays as it is, and which devices have to stay text?

`args.device` becomes the accelerator's; text, `accelerator.device.type`, where a `torch.device` will not do.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from accelify.codemod.devices.moves import Moves, is_lookup, is_option, last_name
from accelify.codemod.libraries import methods, names, table, vocabulary
from accelify.codemod.preparing.placing import Access
from accelify.codemod.preparing.settings import Settings, is_declared_default
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.in_place import is_fixed
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Assignment, Scope, code, main_guard, returned
from accelify.codemod.semantics.values import Collection, Constant, External, Instance, Made, Member, Value
from accelify.codemod.training.roles import Roles

Option = ast.Attribute | ast.Subscript
_PLACES = (ast.Name, ast.Attribute, ast.Subscript)
_OF_DEVICES = ("type", "index")
_VARIABLES = (ast.Name, ast.Attribute)
_COMPARES = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


@dataclass(frozen=True, slots=True)
class DeviceOption:
    """An option that gets the accelerator's device where that is created.

    target: the option as it is written there. after: the statements there from which on it can be set. reads: what
    follows. is_text: whether something reads it as text.
    """

    home: Scope
    target: ast.expr
    after: tuple[ast.stmt, ...]
    reads: frozenset[ast.expr]
    is_text: bool


class DeviceOptions:
    """Find the options that models or batches were moved by, and that are read where no rule puts another device."""

    def __init__(self, known: Moves, access: Access) -> None:
        self.known = known
        self.program = known.program
        self.access = access
        self.bound = [b for b in known.bindings if access.at(b.node) is not None]

    def find(
        self, redirected: Sequence[ast.expr], numbered: Callable[[Option], bool] = lambda node: False
    ) -> tuple[DeviceOption, ...]:
        """One for each option that can be set; `redirected` are the reads that get the accelerator's device one by one.

        numbered: whether an option is one GPU by its number, unless the user says otherwise.
        """
        if len(self.access.reach.homes) != 1:
            return ()
        choosing = [*self._choosing(), *self._placing(numbered), *filter(_is_device_option, redirected)]
        settable = {_key(n) for n in choosing if not is_fixed(self.program, n)}
        found = (self._settled(key, redirected) for key in sorted(settable))
        return tuple(option for option in found if option is not None)

    def _choosing(self) -> Iterator[Option]:
        """The options by which something was moved that the accelerator moves now."""
        moved = [m.device for m in self.known.found if m.device is not None and self.known.is_needless(m)]
        for node in [*moved, *(b.value for b in self.bound)]:
            yield from (n for n in ast.walk(node) if _is_device_option(n))

    def _placing(self, numbered: Callable[[Option], bool]) -> Iterator[Option]:
        """The options by which something is moved that stays as it is, in any file: to one GPU for all processes."""
        nodes = [n for n in self._nodes() if isinstance(n.ctx, ast.Load) and numbered(n)]
        files = {parsed.path for parsed in self.program.files} if nodes else set()
        known = Moves(self.program, self.known.roles, self.known.tracer, self.known.prepared, files)
        held = [self.program.values(m.device) for m in known.found if m.device and not known.is_needless(m)]
        yield from (n for n in nodes if any(self.program.values(n) & values for values in held))

    def _settled(self, key: tuple[str, str], redirected: Sequence[ast.expr]) -> DeviceOption | None:
        nodes = [n for n in self._nodes() if _key(n) == key]
        reads = [n for n in nodes if isinstance(n.ctx, ast.Load)]
        home = self.access.reach.homes[0]
        settings = Settings(self.program, self.known.roles, self.known.tracer, self.access.reach, home)
        kept = frozenset(n for n in reads if self._stays(n) and settings.may_follow(self.program.frame(n)))
        places = {p.text: p for n in reads if (p := settings.option(n)) is not None}
        after = self._set_there(settings, [n for n in nodes if isinstance(n.ctx, ast.Store)])
        if kept <= set(redirected) or len(places) != 1 or after is None or self._is_of_a_class(nodes):
            return None
        if _is_used_as_number(self.program, reads):
            return None  # neither a device nor its name will do
        place = next(iter(places.values()))
        is_device = _is_asked_as_device(self.program, nodes[0]) or any(map(self._is_device, nodes))
        return DeviceOption(home, place.code, (*place.after, *after), kept, not is_device)

    def _is_of_a_class(self, nodes: Iterable[Option]) -> bool:
        """Whether an option is what the body of a class binds, which gets the accelerator's device."""
        inside = (b.value for b in self.bound if self.program.scope(b.target).kind == "class")
        bound = {v for value in inside for v in self.program.values(value)}
        held = [self.program.values(n) for n in nodes]
        return all(values and values <= bound for values in held)

    def _is_device(self, node: Option) -> bool:
        """Whether an option gets, or has, a `torch.device`, and not its name."""
        value = self.known.tracer.assigned(node) if isinstance(node.ctx, ast.Store) else None
        return any(map(_is_made, self.program.values(value or node)))

    def _nodes(self) -> Iterator[Option]:
        for parsed in self.program.files:
            for node in parsed.parents:
                if _is_device_option(node) and self.program.may_run(self.program.frame(node)):
                    yield node

    def _stays(self, node: ast.expr) -> bool:
        """Whether an option is still read when the moves are gone that the accelerator makes."""
        around = [node, *self.program.ancestors(node)]
        is_dropped = any(m.call in around and self.known.is_needless(m) for m in self.known.found)
        return not is_dropped and not any(b.value in around for b in self.known.bindings)

    def _set_there(self, settings: Settings, writes: list[Option]) -> list[ast.stmt] | None:
        """The statements that set an option where the accelerator is created; None where it is set again later."""
        if any(b.target in writes for b in self.bound):
            return None  # this gets the accelerator's device, and all that follows has it
        found: list[ast.stmt] = []
        for write in writes:
            tops = self._tops(settings, write, frozenset())
            if tops is None:
                return None
            found += tops
        return found

    def _tops(self, settings: Settings, write: ast.AST, inside: frozenset[Scope]) -> list[ast.stmt] | None:
        """The statements of the home that run a node, none where it runs before them; None where that is not known."""
        assert settings.frame is not None
        frame = self.program.frame(write)
        if frame is settings.frame:
            top = settings.top(write)
            if top is None:
                is_above = settings.guard is not None and self.program.before(write, settings.guard)
                return [] if is_above else None
            return None if isinstance(top, LOOPS) else [top]
        run = self.program.run_from([settings.frame])
        if frame not in run:
            return []
        calls = [c for c in self.program.calls_of(frame) if self.program.frame(c) in run]
        found = [self._tops(settings, c, inside | {frame}) for c in calls if frame not in inside]
        known = [top for tops in found for top in tops or ()]
        return known if found and None not in found and not any(map(self._moves_before, known)) else None

    def _moves_before(self, statement: ast.stmt) -> bool:
        """Whether something is moved before a statement of the home is through."""
        frame = self.program.frame(statement)
        own = (m.call for m in self.known.found if self.program.frame(m.call) is frame)
        return any(self.program.before(call, statement) for call in own)


def _is_device_option(node: ast.AST) -> TypeGuard[Option]:
    is_read = isinstance(node, (ast.Attribute, ast.Subscript)) and is_option(node)
    return is_read and last_name(node) in ("device", "dev")  # type: ignore[arg-type]  # an expression


def _key(node: Option) -> tuple[str, str]:
    """A key that is equal for uses of one option: the last names of its holder, and its own name."""
    return last_name(node.value), last_name(node)


# Text.


def must_be_text(program: Program, binding: Assignment) -> bool:
    """Whether a device that is mere text stays text: among settings, or where a `torch.device` will not do."""
    value, target = binding.value, binding.target
    texts = program.values(value)
    if any(map(_is_made, texts)):
        return False
    if _is_setting(target):
        return not _is_asked_as_device(program, target)
    if not texts or not (is_option(value) or all(isinstance(v, Constant) for v in texts)):
        return False
    nodes = (n for parsed in program.files for n in parsed.parents)
    return any(texts & program.values(held) for node in nodes for held in _texts_in(program, node))


def is_taken_apart(program: Program, target: ast.expr) -> bool:
    """Whether the script reads the number out of a text: `int(args.device[5])`, `device.split(":")[1]`."""
    name = last_name(target).lower()
    nodes = (n for parsed in program.files for n in parsed.parents)
    parts = (
        n.value
        for n in nodes
        if isinstance(n, ast.Subscript) or (isinstance(n, ast.Attribute) and methods.takes_apart(n.attr))
    )
    return any(isinstance(p, _VARIABLES) and last_name(p).lower() == name for p in parts)


def _is_made(value: Value) -> bool:
    return isinstance(value, Made) and value.name == "torch.device"


def _is_used_as_number(program: Program, reads: Iterable[ast.expr]) -> bool:
    """Whether the script counts with an option, perhaps as a function's parameter: `args.device >= 0`."""
    values = {v for read in reads for v in program.values(read)}
    nodes = (n for parsed in program.files for n in parsed.parents)
    return any(values & program.values(held) for node in nodes for held in _numbers_in(node))


def _numbers_in(node: ast.AST) -> list[ast.expr]:
    """`gpu` of `gpu < 0`, `gpu == -1`, `gpu + 1` and `"cuda:%d" % gpu`."""
    if isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
        parts = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        return [n for n in parts if isinstance(n, _PLACES)] if "%d" in node.left.value else []
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    sides += [node.left, node.right] if isinstance(node, ast.BinOp) else []
    return [n for n in sides if isinstance(n, _PLACES)] if any(map(_is_integer, sides)) else []


def _is_integer(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inner, ast.Constant) and type(inner.value) is int


def _is_setting(node: ast.expr) -> TypeGuard[Option]:
    """`args.device`, `config["device"]`; the own attribute of an object, `self.device`, is none."""
    return isinstance(node, (ast.Attribute, ast.Subscript)) and code(node.value) != "self"


def is_read_as_text(program: Program, read: ast.expr) -> bool:
    """Whether an option that names a device is given to what a `torch.device` may not do for."""
    parent = program.parent(read)
    call = program.parent(parent) if isinstance(parent, ast.keyword) else parent
    is_known = isinstance(call, ast.Call) and _takes_devices(program, call)
    return _is_device_option(read) and not is_known and not _is_asked_as_device(program, read)


def _is_asked_as_device(program: Program, option: Option) -> bool:
    """Whether an option is a `torch.device` where it is read: `args.device.type`."""
    nodes = (n for parsed in program.files for n in parsed.nodes if isinstance(n, ast.Attribute))
    asked = (n.value for n in nodes if n.attr in _OF_DEVICES)
    return any(_is_setting(n) and last_name(n) == last_name(option) for n in asked)


def _takes_devices(program: Program, call: ast.Call) -> bool:
    """Whether a call moves something, or is one of PyTorch's own."""
    if isinstance(call.func, ast.Attribute) and methods.moves_to_device(call.func.attr):
        return True
    called = program.called(call)
    return bool(called) and all(n.startswith("torch.") for n in called)


def _texts_in(program: Program, node: ast.AST) -> list[ast.expr]:
    """`device` of `device == "cuda"`, `device.startswith("cuda")`, and of calls that want text: `autocast(device)`."""
    if isinstance(node, ast.Compare) and all(isinstance(o, _COMPARES) for o in node.ops):
        sides = [node.left, *node.comparators]
        is_with_text = any(_is_text(program, n) for n in sides)
        return [n for n in sides if is_with_text and isinstance(n, _VARIABLES)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [n for n in (node.left, node.right) if isinstance(n, _VARIABLES)]
    if isinstance(node, (ast.Dict, ast.Assign)):
        kept = (
            node.values if isinstance(node, ast.Dict) else [node.value] if any(map(_is_setting, node.targets)) else []
        )
        return [n for n in kept if isinstance(n, _VARIABLES)]
    if isinstance(node, ast.Subscript):
        return [n for n in (node.value, node.slice) if isinstance(n, _VARIABLES)]
    if isinstance(node, ast.keyword):
        return [node.value] if is_declared_default(program, node.value) else []
    if not isinstance(node, ast.Call):
        return []
    if any(names.is_autocast(n) or names.is_scaler(n) for n in program.called(node)):
        return [*node.args[:1], *(k.value for k in node.keywords if k.arg in ("device_type", "device"))]
    if _may_want_text(program, node):
        return [n for n in (*node.args, *(k.value for k in node.keywords)) if isinstance(n, _VARIABLES)]
    if not isinstance(node.func, ast.Attribute) or not isinstance(node.func.value, (ast.Name, ast.Attribute)):
        return []  # `"cuda:{}".format(gpu)` makes a text, and asks for none
    return [node.func.value] if methods.is_of("string", node.func.attr) else []


def _may_want_text(program: Program, call: ast.Call) -> bool:
    """Whether a call keeps what it gets, or is a library's of which it is not known that it takes devices."""
    called = program.called(call)
    rows = [row for n in called if "." not in n and (row := table.function(n)) is not None]
    if any(row.returns == "dict" or (row.keeps and row.mutates) for row in rows):
        return True
    if called or not isinstance(call.func, ast.Attribute):
        return bool(called) and not program.flow.callees.get(call) and not any(map(names.may_take_a_device, called))
    made = [v.name for v in program.values(call.func.value) if isinstance(v, Made)]
    is_unknown = not any(table.members(call.func.attr))
    return is_unknown and bool(made) and not any(n is None or names.may_take_a_device(n) for n in made)


def _is_text(program: Program, node: ast.expr) -> bool:
    """Whether an expression is text, written out here or where a constant gets it: `"cuda"`, `CUDA`, `["cpu"]`."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return bool(node.elts) and all(_is_text(program, n) for n in node.elts)
    values = program.values(node)
    return bool(values) and all(isinstance(v, Constant) and isinstance(v.value, str) for v in values)


# What a choice goes by.


class Asked:
    """What some code goes by besides the GPUs of the machine: options, parameters that a user gives, flags.

    by: these, as they are written where they come from. behind: the code, with all that its variables get.
    """

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, nodes: Iterable[ast.AST]) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.behind = [*nodes]
        self._done: set[ast.AST] = set()
        self.by = {ast.unparse(leaf) for node in tuple(self.behind) for leaf in self._leaves(node, frozenset())}

    def _leaves(self, node: ast.AST, seen: frozenset[ast.AST]) -> Iterator[ast.AST]:
        is_call = isinstance(node, ast.Call)
        is_about_gpus = is_call and any(map(self.roles.is_cuda_test, self.program.values(node)))
        if node in self._done or is_about_gpus:
            return
        self._done.add(node)
        seen |= {node}
        if isinstance(node, ast.expr) and self._comes_from_outside(node):
            is_asked = isinstance(node, ast.Call) and any(map(names.reads_settings, self.program.called(node)))
            said = ast.Call(node.func, node.args[:1], []) if isinstance(node, ast.Call) and is_asked else node
            texts = (n.value for n in ast.walk(said) if isinstance(n, ast.Constant) and isinstance(n.value, str))
            if all(vocabulary.asked_by_variable(text) is None for text in texts):  # else the launcher says it
                yield said
            return
        if isinstance(node, _PLACES):
            yield from self._of_place(node, seen)
            return
        if isinstance(node, ast.Call) and _looks_up(node):
            kept = self._item(node.func.value, node.args[0]) if isinstance(node.func, ast.Attribute) else None
            if kept is None or isinstance(kept, ast.Constant):
                yield ast.Call(node.func, node.args[:1], [])
                return
            self.behind.append(kept)
            yield from self._leaves(kept, seen)
            return
        called = self.program.flow.callees.get(node, set()) if isinstance(node, ast.Call) else set()
        given = [n for n in returned(called) if n is not None]
        inner = self._with_tests(given, given if len(given) > 1 else []) if called else _parts(node)
        self.behind += inner if called else []
        found = [leaf for part in inner for leaf in self._leaves(part, seen)]
        is_unknown = isinstance(node, ast.Call) and not called and self._is_unknown(node)
        yield from found or ([node] if is_unknown else [])

    def _comes_from_outside(self, node: ast.expr) -> bool:
        """Whether the environment, a command line or a file says something itself: `getenv("GPU")`, `"-c" in argv`.

        Not options and variables that are known by their own names.
        """
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return self._holds_settings(node.comparators[0])
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            return not is_option(node) and self._holds_settings(node.value)
        if isinstance(node, ast.Call) and not _looks_up(node):
            is_method = isinstance(node.func, ast.Attribute) and self._holds_settings(node.func.value)
            return is_method or any(map(names.reads_settings, self.program.called(node)))
        return False

    def _is_unknown(self, call: ast.Call) -> bool:
        """Whether a call is a library's that nothing is known of, and that may ask anything: `cluster.has_gpu()`."""
        called = self.program.called(call)
        return bool(called) and not any(n.startswith("torch.") or table.function(n) is not None for n in called)

    def _holds_settings(self, node: ast.expr) -> bool:
        """Whether all that an object may be holds what users say outside the program: `os.environ`, an opened file."""
        held = {v.root if isinstance(v, Member) else v for v in self.program.values(node)}
        made = {v.name for v in held if isinstance(v, (Made, External))}
        is_parsed = self.program.once(Kinds).of(node) == {"namespace"}  # whatever its name is
        are_known = len(made) == len(held) and all(n is not None and names.reads_settings(n) for n in made)
        return bool(held) and (is_parsed or are_known)

    def _of_place(self, node: ast.expr, seen: frozenset[ast.AST]) -> Iterator[ast.AST]:
        writes = [w for w in self._writes(node) if not self._is_in_its_own(node, w)]
        values = [v for w in writes for v in self._values(w)] or self._kept(node)
        is_parameter = any(isinstance(w, ast.arg) and self.program.scope(w).kind == "function" for w in writes[:1])
        behind = self._with_tests(values, writes if len(writes) > 1 or is_option(node) else [])
        is_its_own = len(behind) > len(values) or not values or not seen.isdisjoint(values)
        is_set_before = is_option(node) and is_its_own
        is_the_users = is_set_before or (not values if is_parameter else any(self._is_setting(node, v) for v in values))
        if is_the_users and vocabulary.asked_by_name(last_name(node)) is None:  # else the launcher says it
            yield node
        self.behind += behind
        is_part = isinstance(node, (ast.Attribute, ast.Subscript)) and not (behind or is_option(node))
        holder = [node.value] if is_part and code(node.value) not in ("self", "cls") else []  # type: ignore[attr-defined]  # a part
        holder += [node.slice] if isinstance(node, ast.Subscript) else []
        found = [leaf for part in (*behind, *holder) for leaf in self._leaves(part, seen)]
        yield from [node] if found and holder and _has_key(node) else found

    def _with_tests(self, values: Sequence[ast.expr], places: Sequence[ast.AST]) -> list[ast.expr]:
        """Some values, and the conditions that choose between them."""
        choices = [choice for place in places for choice, _ in self.program.branches_round(place)]
        tests = [choice.test for choice in choices if choice is not main_guard(self.program.frame(choice).root)]
        return [*values, *tests]

    def _is_in_its_own(self, node: ast.expr, write: ast.AST) -> bool:
        """`args.cuda = args.cuda and torch.cuda.is_available()`"""
        return not isinstance(write, ast.arg) and self.program.inside(node, self.program.statement(write))

    def _writes(self, node: ast.expr) -> list[ast.AST]:
        if isinstance(node, ast.Attribute):
            named = self.program.attribute_writes.get(node.attr, ())
            classes = {v.cls for v in self.program.values(node.value) if isinstance(v, Instance)}
            inside = [w for cls in classes for w in cls.writes.get(node.attr, ())]
            return [*(w for w in named if self.program.may_be_same(w.value, node.value)), *inside]
        if isinstance(node, ast.Subscript):
            return [w for w in self.program.once(_items_set) if code(w) == code(node)]
        owner = self.program.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        if not isinstance(node, ast.Name) or owner is None:
            return []
        found = self.program.reaching(node, self.tracer.writes(owner, node.id))
        return [w for write in found for w in (self._imported(write) if isinstance(write, ast.alias) else [write])]

    def _imported(self, alias: ast.alias) -> Sequence[ast.AST]:
        statement, path = self.program.statement(alias), self.program.path(alias)
        if not isinstance(statement, ast.ImportFrom):
            return []
        root = self.program.flow.module_named(path, statement.module or "", statement.level)
        return self.tracer.writes(root, alias.name) if root is not None else []

    def _values(self, write: ast.AST) -> list[ast.expr]:
        if isinstance(write, ast.arg):
            function = self.program.scope(write)
            given = [self.tracer.given(call, function, write.arg) for call in self.program.calls_of(function)]
            return [n for n in given if n is not None]
        binding = self.program.binding(write)[1]
        return [binding.value] if isinstance(binding, (ast.Assign, ast.AnnAssign)) and binding.value else []

    def _kept(self, node: ast.expr) -> list[ast.expr]:
        """The value of `config["device"]`, where `config` is a literal."""
        value = self._item(node.value, node.slice) if isinstance(node, ast.Subscript) else None
        return [] if value is None else [value]

    def _item(self, holder: ast.expr, key: ast.expr) -> ast.expr | None:
        """The value in a literal that stands at a key, if it is one."""
        found = self.tracer.listed(self.tracer.only_value(holder) or self.tracer.value_at(holder), key)
        return self._handed_item(holder, key) if found is None else found

    def _handed_item(self, holder: ast.expr, key: ast.expr) -> ast.expr | None:
        """What stands at a key of the one literal that callers hand on: `self.config = config` of a constructor."""
        literals = [v for v in self.program.values(holder) if isinstance(v, Collection)]
        are_known = len(literals) == len(self.program.values(holder))
        writes = self.program.item_writes.get(key.value, ()) if isinstance(key, ast.Constant) else ()
        is_changed = any(self.program.may_be_same(w.value, holder) for w in writes)
        if not are_known or is_changed or any(map(self.program.flow.has_open_keys, literals)):
            return None
        found = {self.tracer.listed(v.node, key) for v in literals if isinstance(v.node, ast.expr)}
        return found.pop() if len(found) == 1 else None

    def _is_setting(self, node: ast.expr, value: ast.expr) -> bool:
        """Whether a value is a literal that a user would change: in settings, in another file, or a module's flag."""
        if not isinstance(value, ast.Constant) or not isinstance(value.value, (bool, str)):
            return False
        is_far = self.program.path(value) != self.program.path(node) or _is_setting(node)
        return self.program.frame(value).kind != "function" and (is_far or isinstance(value.value, bool))


def _looks_up(call: ast.Call) -> bool:
    """`config.get("device", "cuda")`"""
    is_method = isinstance(call.func, ast.Attribute) and vocabulary.holds_options(code(call.func.value))
    return is_lookup(call) or (is_method and bool(call.args) and isinstance(call.args[0], ast.Constant))


def _has_key(node: ast.AST) -> bool:
    """`config["ids"]`, which says more than where `config` comes from."""
    return (
        isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
    )


def _parts(node: ast.AST) -> list[ast.AST]:
    """What an expression is made of; of a method's call, the object and not its method."""
    parts = [*ast.iter_child_nodes(node)]
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return [node.func.value, *parts[1:]] if is_method else parts  # type: ignore[attr-defined]  # a method


def _items_set(program: Program) -> tuple[ast.Subscript, ...]:
    """The places that are set in a container: `config["device"] = ...`."""
    nodes = (n for parsed in program.files for n in parsed.parents if isinstance(n, ast.Subscript))
    return tuple(n for n in nodes if isinstance(n.ctx, ast.Store))
