"""Where the tensors of a script live once it is rewritten, and which of its devices must be others."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from accelify.codemod.devices.destinations import (
    Destination,
    Destinations,
    Where,
    gpu_texts,
    is_by_number,
    is_where_another_is,
)
from accelify.codemod.devices.device_options import DeviceOption, DeviceOptions
from accelify.codemod.devices.lattice import Lattice
from accelify.codemod.devices.moves import Move, Moves, last_name
from accelify.codemod.devices.options import Cpu, CpuSetting, NamedDevices, OnGpu
from accelify.codemod.devices.own_tensors import Homemade
from accelify.codemod.libraries import methods, table
from accelify.codemod.preparing.placing import Access, EarlyCode, trained_modules
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.preparing.tensors import Tensors
from accelify.codemod.semantics.conditions import Conditions
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Assignment, Scope, names_read_in
from accelify.codemod.semantics.values import Argument, Instance, Made
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.randomness.workers import is_of_data
from accelify.codemod.training.roles import Roles

_GPUS = (Where.ACCELERATOR, Where.NUMBERED)
TEXTUAL = (ast.Compare, ast.Attribute, ast.FormattedValue, ast.BinOp)  # what is done with a device as text
_VARIABLES = (ast.Name, ast.Attribute, ast.Subscript)


@dataclass(frozen=True, slots=True)
class Own:
    """The tensors that a script which names no device makes itself, and what it takes to bring them to one."""

    program: Program
    roles: Roles
    tracer: Tracer
    training: Training
    prepared: Prepared
    has_model: bool
    effects: Effects

    def tensor(self) -> ast.expr | None:
        """One that a model gets; None where the script knows of devices."""
        return self._homemade().find()

    def names_a_device(self) -> bool:
        """Whether the script knows of devices."""
        return self._homemade().names_a_device()

    def _homemade(self) -> Homemade:
        known = self.program.once(_homemade_by_preparation)
        if self.prepared not in known:
            known[self.prepared] = Homemade(self._lattice(), self.training.backwards)
        return known[self.prepared]

    def _tensors(self) -> Tensors:
        return Tensors(self.program, self.roles, self.prepared)

    def placed_by_script(self, known: Moves, access: Access, cpu: CpuSetting | None) -> Placed:
        """Where tensors live in a script that moves them itself, or makes none that a model gets."""
        holds = OnGpu(self.program.once(Conditions), self.tracer, cpu.wishes if cpu is not None else frozenset()).holds
        devices = Destinations(self.program, self.roles, self.tracer, (), holds, lambda node: ())
        plain = self._plain(known, devices)
        bound = [b.value for b in known.bindings if access.at(b.node) and not known.is_for_the_cpu(b)]
        fixed = frozenset(f for f in self._fixed(known, devices, plain, bound) if access.at(f) is not None)
        named = NamedDevices(self.program, self.tracer, set(known.files), known.found).find()
        redirected = [*fixed, *(n for n in named if access.at(n) is not None)]
        options = DeviceOptions(known, access).find(redirected, numbered=lambda n: _is_numbered(devices.of(n)))
        settled = frozenset(read for option in options for read in option.reads)
        below = [r for b in set_below(known, access) for r in b.reads if devices.is_host(r)]
        defaulted = self._defaulted(known.files, devices, access) if plain == {Where.HOST} else {}
        tensors = self._tensors()
        lattice = Lattice(
            *(self.program, self.roles, self.tracer, tensors),
            plain=plain,
            named=self._named(known, plain),
            holds=holds,
            replaced=[*fixed, *bound, *settled, *below, *defaulted.values()],
            is_early=tensors.runs_early,
        )
        sources = self._numbered(known, lattice.devices, known.files)
        return Placed(lattice, fixed - settled, options, sources, defaulted)

    def placed_by_hand(self, known: Moves) -> Placed:
        """The same of one that distributes itself."""
        holds = OnGpu(self.program.once(Conditions), self.tracer, ()).holds
        plain = self._plain(known, Destinations(self.program, self.roles, self.tracer, (), holds, lambda node: ()))
        tensors, plain = self._tensors(), {Where.ACCELERATOR} if Where.ACCELERATOR in plain else plain
        lattice = Lattice(
            *(self.program, self.roles, self.tracer, tensors), plain=plain, holds=holds, is_early=tensors.runs_early
        )
        return Placed(lattice, frozenset())

    def given_by_others(self) -> ast.expr | None:
        """The first place where a model gets what only code that is not read can put on a device."""
        return self._homemade().given_by_others() if self.has_model else None

    def _defaulted(
        self, files: Collection[str], devices: Destinations, access: Access
    ) -> dict[tuple[ast.Call, str], ast.expr]:
        """The calls that leave a device of another file's function at the CPU, with its parameter and the default."""
        found: dict[tuple[ast.Call, str], ast.expr] = {}
        given = (d.given for place in places_elsewhere(self.program, files) for d in devices.of(place))
        for parameter in dict.fromkeys(p for p in given if p is not None):
            function = self.program.scope(parameter)
            default, calls = function.defaults.get(parameter.arg), self.program.calls_of(function)
            is_cpu = default is not None and {d.now for d in devices.of(default)} == {Where.HOST}
            is_left = all(self.tracer.given(c, function, parameter.arg) is default and access.at(c) for c in calls)
            parents = map(self.program.parent, self.program.reads_of(function, parameter.arg))
            is_left = is_left and not any(isinstance(parent, TEXTUAL) for parent in parents)
            if default is not None and is_cpu and is_left and function.module not in files:
                found.update({(call, parameter.arg): default for call in calls})
        return found

    def _numbered(self, known: Moves, devices: Destinations, files: Collection[str]) -> frozenset[ast.expr]:
        """Where functions say the number of the GPU that something goes to, which no rule gives another device."""
        sites = [m.device for m in known.found if m.device is not None]
        for call in self.program.calls:
            if self.program.path(call) in files and not self.program.flow.callees.get(call):
                sites += named_by(self.program, call)
        named = (d for site in sites for d in devices.resolved(devices.of(site)) if d.now is Where.NUMBERED)
        own = {*sites, *(b.value for b in known.bindings)}
        found = (d.source for d in named if d.source is not None)
        return frozenset(n for n in found if own.isdisjoint([n, *self.program.ancestors(n)]))

    def _fixed(
        self, known: Moves, plain_devices: Destinations, plain: set[Where], bound: Sequence[ast.expr]
    ) -> Iterator[ast.expr]:
        """The variables that name one GPU by its number, or the CPU where the script trained on it by default."""
        holds = plain_devices.holds
        devices = Destinations(self.program, self.roles, self.tracer, set(bound), holds, lambda node: ())
        sites = [m.device for m in known.found if m.device is not None]
        literal: set[ast.expr] = {d for d in sites if isinstance(d, ast.Call)}  # a rule has the moves to a text
        for call in self.program.calls:
            if self.program.path(call) in known.files and not self.program.flow.callees.get(call):
                given = named_by(self.program, call)
                makes = self._tensors().is_creator(call)
                sites += given if makes else ()
                literal |= {d for d in given if makes or any(gpu_texts(self.program, d)) or _is_made(self.program, d)}
        sites += [d for d in literal if d not in sites]
        named = [(site, devices.resolved(devices.of(site))) for site in sites if self.effects.changes_nothing(site)]
        named += [(value, plain_devices.resolved(plain_devices.of(value))) for value in bound]
        for site, held in named:
            is_variable = bool(names_read_in(site)) and not is_where_another_is(site)
            is_trained_on = plain == {Where.HOST} and bool(held) and all(d.now is Where.HOST for d in held)
            is_given = any(d.now is Where.NUMBERED and not d.is_part and (d.is_given or site in bound) for d in held)
            is_one = site in literal and any(d.now is Where.NUMBERED for d in held) and not is_where_another_is(site)
            if (is_variable and (is_trained_on or is_given)) or (is_one and not isinstance(site, _VARIABLES)):
                yield site

    def _plain(self, known: Moves, devices: Destinations) -> set[Where]:
        """Where the plain script may have had its models."""
        if not self.names_a_device():
            return {Where.HOST}
        found: set[Where] = set()
        for move in known.found:
            is_model = not self.prepared.is_batch(move.receiver) and not known.moves_nothing(move)
            if is_model and known.is_needless(move):
                tests = self.asked_for_a_move(move)
                found |= {d.was for d in devices.resolved(devices.of(move.device))} & {Where.HOST, Where.ACCELERATOR}
                found |= {Where.HOST} if any(devices.holds(test) is None for test in tests) else set()
        return found or {Where.HOST if self._names_the_cpu_only(devices) else Where.ACCELERATOR}

    def may_move_a_model(self, call: ast.Call) -> bool:
        """`model.to(device)`, `model.type(torch.cuda.FloatTensor)`, or such a call of what may be one"""
        if not isinstance(call.func, ast.Attribute):
            return False
        model, moves = call.func.value, methods.moves_to_device(call.func.attr) or call.func.attr == "type"
        held = self.program.values(model) if moves else frozenset()
        is_other = held and all(isinstance(v, Made) and not self.roles.is_module(v) for v in held)
        return moves and not is_other and not self.prepared.is_batch(model)

    def asked_for_a_move(self, move: Move) -> Iterator[ast.expr]:
        """The conditions under which a model is moved, but for those under which it is made, and by no other branch."""
        read = move.receiver
        owner = self.program.scope(read).owner(read.id) if isinstance(read, ast.Name) else None
        if owner is not None and isinstance(read, ast.Name):
            writes = self.program.reaching(read, self.tracer.writes(owner, read.id))
            rounds = [dict(self.program.branches_round(w) if not isinstance(w, ast.arg) else ()) for w in writes]
        else:
            made = [self.program.statement(read)] if isinstance(read, ast.Call) else []
            rounds = [dict(self.program.branches_round(statement)) for statement in made]
        places = [move.call, *(a for a in self.program.ancestors(move.call) if isinstance(a, ast.Lambda))]
        for branching, is_body in (branch for place in places for branch in self.program.branches_round(place)):
            if not rounds or any(round_it.get(branching) is not is_body for round_it in rounds):
                yield branching.test

    def _named(self, known: Moves, plain: set[Where]) -> dict[ast.expr, set[Where]]:
        """Where the plain script had the models that some names mean: it moved one, and never moves another."""
        moves_models = any(self.roles.is_module(v) for m in known.found for v in self.program.values(m.receiver))
        preparation = self.prepared.preparation
        items = [i for i in (*preparation.items, *preparation.bare_models) if i.kind == "model" and moves_models]
        named = {(i.frame.owner(i.text) or i.frame, i.text) for i in items}
        reads = [r for variable in named for r in self.program.reads_of(*variable) if Where.HOST not in plain]
        stays = {r: self._stays(r) for r in reads if not self.prepared.is_another_model(r)}
        if not any(True in each for each in stays.values()):
            return {}
        where = {True: {Where.HOST}, False: plain}
        return {read: set().union(*map(where.__getitem__, each)) for read, each in stays.items() if each}

    def _stays(self, read: ast.expr, depth: int = 3) -> set[bool]:
        """Whether the models that a variable may hold stay where they are made, those of a function's callers, too."""
        owner = self.program.scope(read).owner(read.id) if isinstance(read, ast.Name) else None
        if not isinstance(read, ast.Name) or owner is None or not depth:
            return {False}
        found: set[bool] = set()
        for write in self.program.reaching(read, self.tracer.writes(owner, read.id)):
            calls = self.program.calls_of(owner) if isinstance(write, ast.arg) else []
            given = [self.tracer.argument(c, owner, read.id) for c in calls]
            found |= {stays for g in given if g is not None for stays in self._stays(g, depth - 1)}
            if not given:
                found.add(isinstance(write, ast.Name) and self._is_never_moved(owner, write))
        return found

    def _is_never_moved(self, owner: Scope, write: ast.Name) -> bool:
        """Whether a model stays where it is made: that of one cell of a notebook, say."""
        program, value = self.program, self.tracer.assigned(write)
        if not isinstance(value, ast.Call) or not any(map(self.roles.is_module, program.values(value))):
            return False
        is_placed = any(isinstance(n, (ast.With, ast.AsyncWith)) for n in program.ancestors(write))
        own = {v.cls for v in program.values(value) if isinstance(v, Instance)}
        inside = [c for cls in own for method in cls.children for c in program.calls_in(method)]
        moving = [c for c in inside if ast.unparse(c.func).startswith("self.") and _may_go_to_a_gpu(c)]
        moving += [n for n in ast.walk(value) if isinstance(n, ast.Call) and _may_go_to_a_gpu(n)]
        if is_placed or moving or self._homemade().has_default_gpu:
            return False
        reads = [r for r in program.reads_of(owner, write.id) if program.reaching(r, [write])]
        return bool(reads) and not any(map(self.prepared.may_move, reads))

    def _names_the_cpu_only(self, devices: Destinations) -> bool:
        """Whether the script brings nothing to a GPU: it only asks for one, or says the CPU, `device="cpu"`."""
        nodes = [n for parsed in self.program.files for n in parsed.nodes]
        named = [self.program.parent(n) for n in nodes if isinstance(n, ast.Attribute) and n.attr == "cuda"]
        moved = (not isinstance(n, ast.Attribute) or n.attr.endswith("Tensor") for n in named)  # `x.cuda()`, or a type
        if any(moved) or self._homemade().has_default_gpu:
            return False
        said = [k.value for n in nodes if isinstance(n, ast.Call) for k in n.keywords if k.arg == "device"]
        paths = {parsed.path for parsed in self.program.files}
        said += [m.device for m in Moves(self.program, self.roles, self.tracer, self.prepared, paths).found if m.device]
        places = [d for n in said if not is_where_another_is(n) for d in devices.resolved(devices.of(n))]
        if not said:
            return not self._homemade().is_named_by_users()
        on_host = [d.was is Where.HOST for d in places if d.was is not Where.UNKNOWN or not self.moves_no_model]
        return not named and all(on_host) and (bool(on_host) or not places)

    @property
    def moves_no_model(self) -> bool:
        """Whether the script's own code makes all of its models, and moves none, wherever its other tensors go."""
        is_given = any(isinstance(v, Argument) for v in self.prepared.preparation.models)
        return self.has_model and not is_given and not any(map(self.may_move_a_model, self.program.calls))

    def stranded(self, files: frozenset[str], access: Access) -> Iterator[ast.Call]:
        """The moves by an option that the accelerator does not ask, where it does not reach."""
        return Cpu(self.program, self.roles, self.tracer, access.reach, self.prepared).stranded(files, access)

    def moved_early(self, early: EarlyCode, cpu: CpuSetting | None) -> tuple[ast.Call, ...]:
        """The moves to a GPU before the accelerator is there, except those of objects that are prepared later.

        Only in files that a run which trains may import: a script that evaluates is one process.
        """
        program, wishes = self.program, cpu.wishes if cpu is not None else frozenset[str]()
        trained = trained_modules(program, self.training)
        scopes = [scope for scope in early.scopes if scope.root in trained]
        calls = [c for scope in scopes for c in program.calls_in(scope) if _may_go_to_a_gpu(c) and early.holds(c)]
        known = Moves(program, self.roles, self.tracer, self.prepared, {program.path(c) for c in calls})
        holds = OnGpu(program.once(Conditions), self.tracer, wishes).holds
        devices = Destinations(program, self.roles, self.tracer, (), holds, lambda node: ())
        moves = {m.call: m for m in known.found}

        def goes_to_a_gpu(call: ast.Call) -> bool:
            if any(holds(b.test) is (not is_body) for b, is_body in program.branches_round(call)):
                return False
            move = moves.get(call)
            device = move.device if move is not None else _keyword(call, "device")
            is_left = known.is_needless(move) if move is not None else device is None or _only_keeps(program, call)
            is_gpu = any(d.now in _GPUS for d in devices.resolved(devices.of(device)))
            return not is_left and (is_gpu or (device is not None and self._is_chosen_by_option(device, cpu)))

        return tuple(sorted(filter(goes_to_a_gpu, calls), key=program.position))

    def left_on_gpu(self, files: frozenset[str], access: Access) -> Iterator[ast.Call]:
        """The moves to the process's own GPU where the accelerator does not reach: `x.cuda()`.

        Not those of models, which are where their callers have put them, and of data sets.
        """
        known, tensors = Moves(self.program, self.roles, self.tracer, self.prepared, files), self._tensors()
        for move in known.found:
            frame = self.program.frame(move.call)
            is_cuda = isinstance(move.call.func, ast.Attribute) and methods.names_accelerator(move.call.func.attr)
            is_own = is_cuda or isinstance(move.device, ast.Constant) or is_by_number(self.program, move.device)
            is_others = tensors.is_in_model(frame) or is_of_data(self.program, frame) or known.moves_itself(move)
            if is_own and not is_others and access.at(move.call) is None:
                yield from [] if known.is_needless(move) or known.goes_to_cpu(move) else [move.call]

    def _is_chosen_by_option(self, device: ast.expr, cpu: CpuSetting | None, depth: int = 3) -> bool:
        """Whether a device is what an option says, which keeps the accelerator on the CPU and may also name a GPU."""
        parts = [n for n in ast.walk(device) if isinstance(n, _VARIABLES)] if cpu is not None else []
        if cpu is not None and any(last_name(n) in {text.rpartition(".")[2] for text in cpu.numbered} for n in parts):
            return True
        values = (self.tracer.only_value(n) for n in parts) if depth else ()
        return any(v is not None and self._is_chosen_by_option(v, cpu, depth - 1) for v in values)

    def named_early(self, early: EarlyCode, files: frozenset[str]) -> bool:
        """Whether an option names the device of something before the accelerator is there."""
        known = Moves(self.program, self.roles, self.tracer, self.prepared, files)
        return any(map(early.holds, NamedDevices(self.program, self.tracer, set(files), known.found).find()))

    def choosing(self, calls: Iterable[ast.Call]) -> Iterator[ast.AST]:
        """The code that chooses the devices of some moves: lines that give a variable its device, else the moves.

        A device that a function is given is chosen where its callers have it from.
        """
        paths = {parsed.path for parsed in self.program.files}
        known = Moves(self.program, self.roles, self.tracer, self.prepared, paths)
        moves = {m.call: m.device for m in known.found}
        for call in calls:
            device = moves.get(call, _keyword(call, "device"))
            bindings = known.bindings if device is not None and names_read_in(device) else ()
            chains = self.tracer.chains(device) if device is not None and bindings else []
            ends = {chain[-1].node for chain in chains}
            chosen: list[ast.AST] = [
                b.node for b in bindings if device and (b.target in ends or self._is_same(device, b.target))
            ]
            given = [n for c in chains if c[0].kind == "parameter" and isinstance(n := c[-1].node, ast.expr)]
            yield from chosen or given or [call]

    def _is_same(self, read: ast.expr, target: ast.expr) -> bool:
        """Whether a variable is the one that a statement sets."""
        program = self.program
        if isinstance(read, ast.Name) and isinstance(target, ast.Name) and read.id == target.id:
            return program.scope(read).owner(read.id) is program.scope(target).owner(target.id)
        if isinstance(read, ast.Attribute) and isinstance(target, ast.Attribute) and read.attr == target.attr:
            return bool(program.values(read.value) & program.values(target.value))
        return False

    def _lattice(self) -> Lattice:
        return Lattice(self.program, self.roles, self.tracer, self._tensors())


@dataclass(frozen=True, slots=True)
class Placed:
    """Where tensors live, and those that have to live elsewhere.

    fixed: what names the same device in every process. options: those
    of the script that get the accelerator's device. numbered: where a function says the number of a GPU. defaulted:
    the calls that leave a device at its default, the CPU, each with the parameter and the default.
    """

    lattice: Lattice
    fixed: frozenset[ast.expr]
    options: tuple[DeviceOption, ...] = ()
    numbered: frozenset[ast.expr] = frozenset()
    defaulted: Mapping[tuple[ast.Call, str], ast.expr] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Below:
    """A device of a module, bound above an accelerator's home, and the reads there, which get the accelerator's."""

    binding: Assignment
    home: Scope
    reads: tuple[ast.expr, ...]


def set_below(known: Moves, access: Access) -> Iterator[Below]:
    """One for each variable and home, but where something there reads it before the accelerator is created."""
    program, done = known.program, set[tuple[Scope, str]]()
    for binding, home in ((b, h) for b in known.bindings for h in access.reach.homes):
        name = binding.target.id if isinstance(binding.target, ast.Name) else ""
        is_above = program.scope(binding.target) is home.root and access.at(binding.node) is None
        if (home, name) in done or not name or not is_above or known.is_for_the_cpu(binding):
            continue
        reads, inner = program.reads_of(home.root, name), set(home.walk())
        if home.kind == "function":
            reads = [r for r in reads if program.scope(r) in inner]
        early = [r for r in reads if access.at(r) is None and (home.kind == "function" or program.frame(r) is home)]
        if home.kind == "module" or (home.kind == "function" and name not in home.writes and not early):
            done.add((home, name))
            yield Below(binding, home, tuple(r for r in reads if r not in early))


def _homemade_by_preparation(program: Program) -> dict[Prepared, Homemade]:
    """Filled as it is asked for."""
    return {}


def _is_numbered(named: Iterable[Destination]) -> bool:
    return any(d.now is Where.NUMBERED for d in named)


def _may_go_to_a_gpu(call: ast.Call) -> bool:
    """Whether a call moves something, or says where it makes it."""
    is_move = isinstance(call.func, ast.Attribute) and methods.moves_to_device(call.func.attr)
    return is_move or _keyword(call, "device") is not None


def _only_keeps(program: Program, call: ast.Call) -> bool:
    """Whether a call does nothing itself with the device that it is given: a function of the project's, a namespace."""
    kinds = {table.kind_made_by(name) for name in program.called(call)}
    return bool(program.flow.callees.get(call)) or kinds == {"dict"}


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def named_by(program: Program, call: ast.Call) -> list[ast.expr]:
    """The devices that a call is given for what it makes: `device=`, or the default of all that follows."""
    called = program.called(call)
    given = call.args[:1] if "torch.set_default_device" in called else []
    given += call.args[1:2] if "torch.load" in called else []
    return [*given, *(k.value for k in call.keywords if k.arg in ("device", "map_location"))]


def _is_made(program: Program, node: ast.expr) -> bool:
    """`torch.device(...)`"""
    return isinstance(node, ast.Call) and "torch.device" in program.called(node)


def places_elsewhere(program: Program, files: Collection[str]) -> Iterator[ast.expr]:
    """What names a device in calls of the project's other files, that training comes to."""
    others = (parsed for parsed in program.files if parsed.path not in files)
    for call in (n for parsed in others for n in parsed.nodes if isinstance(n, ast.Call)):
        frame = program.frame(call)
        if frame.kind == "function" and not program.may_run(frame):
            continue
        is_move = isinstance(call.func, ast.Attribute) and methods.moves_to_device(call.func.attr)
        places = [call] if "torch.device" in program.called(call) else named_by(program, call)
        yield from [*places, *(call.args[:1] if is_move else ())]
